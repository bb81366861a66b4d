"""What a kernel must prove, and the counterexamples when it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tdsl.diagnostics import BoundsError, BudgetExceeded, render
from tdsl.ir.kernel import INDEX, Array, Cast, Const, Expr, Kernel, Op, Read, Select, Statement, Var
from tdsl.ir.types import BOOL, F32, I32, I64, U8
from tdsl.polyhedral import budget, dependences, model, proofs
from tests.polyhedral import samples
from tests.polyhedral.build import expr, kernel, nest, read, stmt


def messages(k: Kernel) -> str:
    return "\n".join(render(d) for d in proofs.diagnose(model.build(k)))


def copy(subscript: str, domain: str = "0 <= i < N", assume: str = "True") -> Kernel:
    return kernel(
        "N, M",
        {"x": "in M", "y": "out N"},
        [stmt("y", "y[i]", "i", domain, [f"x[{subscript}]"])],
        assume,
    )


@pytest.mark.parametrize("make", [samples.matmul, samples.conv2d, samples.seidel, samples.lu])
def test_correct_kernels_are_proved(make: Callable[[], Kernel]) -> None:
    proofs.prove(model.build(make()))


@pytest.mark.parametrize(
    ("subscript", "assume", "help"),
    [
        ("i", "True", "assume M >= N"),
        ("i + 1", "True", "assume M >= N + 1"),
        ("2 * i + 1", "True", "assume M >= 2 * N"),
        ("i", "M >= N", None),
        ("i // 2", "2 * M >= N", None),
        ("i % 8", "M >= 8", None),
        ("i % 8", "True", "assume M >= 8 or M >= N"),
        ("min(i, M - 1)", "M >= 1", None),
        ("max(i - 1, 0)", "M >= N", None),
        ("i - 1", "M >= N", "limit the indices"),
    ],
)
def test_an_access_stays_inside_or_says_what_is_missing(
    subscript: str, assume: str, help: str | None
) -> None:
    text = messages(copy(subscript, assume=assume))
    if help is None:
        assert text == ""
    else:
        assert f"help: {help}" in text


def test_the_counterexample_is_the_smallest() -> None:
    text = messages(copy("i + 2"))
    assert "x[i + 2] leaves x: with N=1, M=0, y(i=0) reads x[2]" in text


def test_a_sum_beyond_its_table_names_what_it_reads() -> None:
    k = kernel(
        "", {"t": "in 3", "B": "out"},
        [stmt("B", "B", "k", "0 <= k < 64", ["t[k]"], "add", "k", True)],
    )  # fmt: skip
    text = messages(k)
    assert "t[k] leaves t: B(k=3) reads t[3]" in text
    assert "t[3..63]" in text
    with pytest.raises(BoundsError):
        proofs.prove(model.build(k))


def test_a_definition_gives_one_value_to_each_element() -> None:
    twice = kernel(
        "N", {"x": "in N, N", "y": "out N"},
        [stmt("y", "y[i]", "i, j", "0 <= i < N and 0 <= j < N", ["x[i, j]"])],
    )  # fmt: skip
    assert "with N=2, y(i=0, j=0) and y(i=0, j=1) write the same element" in messages(twice)
    strided = kernel(
        "N", {"y": "out 4 * N"},
        [stmt("y", "y[4 * i + j]", "i, j", "0 <= i < N and 0 <= j < 4")],
    )  # fmt: skip
    assert messages(strided) == ""


def test_definitions_of_one_array_are_disjoint_and_cover_it() -> None:
    def two(first: str, second: str) -> Kernel:
        parts = [stmt("y_1", "y[i]", "i", first), stmt("y_2", "y[i]", "i", second)]
        return kernel("N", {"y": "out N"}, parts, "N >= 1")

    assert messages(two("0 <= i < 1", "1 <= i < N")) == ""
    assert messages(two("0 <= i < N and i % 2 == 0", "0 <= i < N and i % 2 == 1")) == ""
    assert "y_1 and y_2 both define y[1], with N=2" in messages(two("0 <= i < N", "1 <= i < N"))
    missing = messages(two("0 <= i < 1", "2 <= i < N"))
    assert "y is not written wholly: with N=2, nothing writes y[1]" in missing


def test_coverage_names_the_assumption() -> None:
    k = kernel(
        "N", {"y": "out N"},
        [stmt("y", "y[8 * i + j]", "i, j", "0 <= i < N // 8 and 0 <= j < 8")],
    )  # fmt: skip
    assert "help: assume N % 8 == 0" in messages(k)


def test_nothing_is_read_before_it_is_written() -> None:
    def chain(shift: str) -> Kernel:
        return kernel(
            "N",
            {"x": "in N", "t": "temp N + 1", "y": "out N"},
            [
                stmt("t", "t[i]", "i", "0 <= i < N", ["x[i]"]),
                stmt("y", "y[i]", "i", "0 <= i < N", [f"t[{shift}]"]),
            ],
        )

    assert messages(chain("i")) == ""
    assert "with N=1, y(i=0) reads t[1]" in messages(chain("i + 1"))

    def scan(first: str, back: int) -> Kernel:
        domain = f"{first} <= i < N"
        return kernel(
            "N",
            {"x": "in N", "y": "out N"},
            [
                stmt("a", "y[i]", "i", f"0 <= i < {first}", ["x[i]"]),
                nest("i", first, "N", stmt("b", "y[i]", "i", domain, [f"y[i - {back}]"])),
            ],
            f"N >= {first}",
        )

    assert messages(scan("1", 1)) == ""
    assert messages(scan("2", 2)) == ""
    assert "with N=1, b(i=0) reads y[-1]" in messages(scan("0", 1))
    assert "is read before it is written" in messages(scan("1", 0))


def test_a_temp_of_an_iteration_is_fresh() -> None:
    def kernel_with(local: str | None) -> Kernel:
        body = nest(
            "i", "0", "N",
            stmt("t", "t", "i", "0 <= i < 1", ["x[i]"]),
            stmt("y", "y[i]", "i", "0 <= i < N", ["t"]),
        )  # fmt: skip
        arrays = (
            Array("x", F32, (expr("N"),), "in"),
            Array("t", F32, (), "temp", local=local),
            Array("y", F32, (expr("N"),), "out"),
        )
        return Kernel("test", ("N",), (), arrays, (body,))

    assert messages(kernel_with(None)) == ""
    assert "with N=2, y(i=1) reads t" in messages(kernel_with("i"))


def test_an_empty_maximum_wants_an_assumption() -> None:
    def maximum(assume: str) -> Kernel:
        domain, outer = "0 <= i < N and 0 <= k < K", "0 <= i < N"
        left = stmt("y", "y[i]", "i, k", domain, ["x[i, k]"], "max", "k", True, outer=outer)
        return kernel("N, K", {"x": "in N, K", "y": "out N"}, [left], assume)

    text = messages(maximum("True"))
    assert "max[k] may be empty: with N=1, K=0, y(i=0) has no term" in text
    assert "help: assume K >= 1" in text
    assert messages(maximum("K >= 1")) == ""


# ---------------------------------------------------------------- selects and data


def selected(condition: Expr) -> Kernel:
    value = Select(condition, read("x[i - 1]"), Const(0.0, F32), F32)
    return kernel("N", {"x": "in N", "y": "out N"}, [stmt("y", "y[i]", "i", "0 <= i < N", [value])])


def test_only_the_chosen_arm_counts() -> None:
    assert messages(selected(expr("i >= 1"))) == ""
    assert messages(selected(expr("1 <= i and i < N"))) == ""
    assert "reads x[-1]" in messages(selected(expr("i >= 0")))
    unknown = Op("gt", (read("x[i]"), Const(0.0, F32)), BOOL)
    assert "may read x[-1]" in messages(selected(unknown))
    assert messages(selected(Op("and", (expr("i >= 1"), unknown), BOOL))) == ""


def test_the_other_arm_is_where_the_condition_fails() -> None:
    def guarded(condition: str) -> Kernel:
        value = Select(expr(condition), Const(0.0, F32), read("x[i - 1]"), F32)
        return kernel(
            "N", {"x": "in N", "y": "out N"}, [stmt("y", "y[i]", "i", "0 <= i < N", [value])]
        )

    assert messages(guarded("i < 1")) == ""
    assert "reads x[-1]" in messages(guarded("i > 1"))


def gather(index: Expr, extent: str, element: Array | None = None) -> Kernel:
    source = element or Array("x", I32, (expr("N"),), "in")
    value = Read("t", (index,), F32)
    arrays = (source, Array("t", F32, (expr(extent),), "in"), Array("y", F32, (expr("N"),), "out"))
    body = Statement("y", "y", (Var("i"),), ("i",), (expr("0 <= i < N"),), "define", value)
    return Kernel("test", ("N",), (), arrays, (body,))


ELEMENT = Read("x", (Var("i"),), I32)


def index_op(op: str, *args: Expr) -> Expr:
    return Op(op, args, INDEX)


def test_data_as_an_index_needs_a_range() -> None:
    as_index = Cast("convert", ELEMENT, INDEX)
    with pytest.raises(BoundsError, match="nothing bounds the index"):
        model.build(gather(as_index, "4"))
    byte = Cast("convert", ELEMENT, U8)
    assert messages(gather(byte, "256")) == ""
    assert messages(gather(Cast("convert", byte, INDEX), "256")) == ""
    assert "t[255]" in messages(gather(byte, "255"))
    clamped = index_op("min", index_op("max", as_index, expr("0")), expr("9"))
    assert messages(gather(clamped, "10")) == ""
    assert "may read t[9]" in messages(gather(clamped, "9"))
    assert messages(gather(index_op("mod", as_index, expr("7")), "7")) == ""
    masked = Op("band", (ELEMENT, Const(15, I32)), I32)
    assert messages(gather(masked, "16")) == ""
    promised = Array("x", I32, (expr("N"),), "in", range=(expr("0"), expr("N")))
    assert messages(gather(ELEMENT, "N", promised)) == ""
    assert "t[0]" in messages(gather(ELEMENT, "N - 1", promised))


def test_arithmetic_that_may_wrap_has_the_range_of_its_type() -> None:
    byte = Cast("convert", ELEMENT, U8)
    more = Op("add", (byte, Const(1, U8)), U8)
    assert messages(gather(more, "256")) == ""
    assert "t[255]" in messages(gather(more, "255"))  # 255 wraps to 0, 254 does not
    wide = Op("add", (Cast("convert", byte, I64), Const(1, I64)), I64)
    assert "may read t[256]" in messages(gather(wide, "256"))
    assert messages(gather(wide, "257")) == ""


def test_a_histogram_depends_on_itself_everywhere() -> None:
    element = Cast("convert", Read("x", (Var("i"),), I32), U8)
    arrays = (
        Array("x", I32, (expr("N"),), "in"),
        Array("h", I32, (expr("256"),), "inout"),
    )
    body = Statement("h", "h", (element,), ("i",), (expr("0 <= i < N"),), "add", Const(1, I32))
    program = model.build(Kernel("test", ("N",), (), arrays, (body,)))
    assert proofs.diagnose(program) == ()
    (found,) = dependences.compute(program)
    assert (found.kind, found.source, found.sink, found.relaxable) == ("flow", "h", "h", "add")


def test_a_domain_that_depends_on_data_is_refused() -> None:
    condition = Op("gt", (read("x[i]"), Const(0.0, F32)), BOOL)
    body = Statement(
        "y", "y", (Var("i"),), ("i",), (expr("0 <= i < N"), condition), "define", Const(0.0, F32)
    )
    arrays = (Array("x", F32, (expr("N"),), "in"), Array("y", F32, (expr("N"),), "out"))
    with pytest.raises(BoundsError, match="domain of y is not affine"):
        model.build(Kernel("test", ("N",), (), arrays, (body,)))


# ---------------------------------------------------------------- budget


def test_a_question_over_budget_is_refused_and_the_next_one_is_answered() -> None:
    with pytest.raises(BudgetExceeded, match="not decided"), budget.limit(200):
        model.build(samples.conv2d())
    program = model.build(samples.conv2d())
    with pytest.raises(BudgetExceeded), budget.limit(200):
        dependences.compute(program)
    assert dependences.compute(program)


def test_a_question_beyond_its_first_slice_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = model.build(samples.conv2d())
    asked = 0

    @budget.bounded("the dependences")
    def ask() -> int:
        nonlocal asked
        asked += 1
        return len(dependences.compute(program))

    monkeypatch.setattr(budget, "FIRST_SLICE", 100)
    assert ask() == 2
    assert asked > 1
