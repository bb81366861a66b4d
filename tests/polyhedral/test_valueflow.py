"""Value flow of programs that were made by hand: what is seen to be right, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import islpy as isl
import pytest

from tdsl.diagnostics import BudgetExceeded
from tdsl.ir.kernel import INDEX, Const, Op, Read, Select, Var
from tdsl.ir.types import BOOL
from tdsl.polyhedral.budget import limit
from tdsl.polyhedral.place import localize
from tdsl.polyhedral.program import Origin, Stmt
from tdsl.polyhedral.shared import share
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq
from tdsl.polyhedral.valueflow import FlowChanged
from tests.polyhedral.flowmutants import consistent
from tests.polyhedral.flowrun import Case, case, is_right, wanted

LAST = Op("lt", (Var("ji"), Const(3, INDEX)), BOOL)

BLUR = """
kernel blur(N) {
    in  x: f32[N + 2]
    temp p: f32[N + 2]
    out y: f32[N]
    p[i] = 2.0 * x[i]
    y[i] = p[i] + p[i + 1] + p[i + 2]
}
schedule blur for any { DIRECTIVES }
"""
SLIDING = "compute p at y.i  store p at root"
SIZES = [{"N": n} for n in (0, 1, 2, 3, 5, 8)]


def refused(made: Case) -> FlowChanged:
    with pytest.raises(FlowChanged) as error:
        made.check()
    return error.value


def right(made: Case, sizes: list[dict[str, int]] = SIZES) -> bool:
    return all(is_right(made, s, wanted(made.base, s)) for s in sizes)


def with_statement(made: Case, name: str, edit: Callable[[Stmt], Stmt]) -> Case:
    final = made.final
    changed = consistent(final, edit(final.statements[name]))
    return replace(made, final=replace(final, statements={**final.statements, name: changed}))


def within(made: Case, name: str, condition: str) -> Case:
    """The statement for some of its instances."""
    stmt = made.final.statements[name]
    part = isl.Set(condition.replace("S[", f"{stmt.tuple_name}["))
    part = part.align_params(stmt.domain.get_space())

    def edit(old: Stmt) -> Stmt:
        domain = old.domain.intersect(part)
        origin = old.origin
        if origin is not None:
            origin = Origin(origin.statement, origin.map.intersect_domain(domain))
        return replace(old, domain=domain, origin=origin)

    return with_statement(made, name, edit)


# ---------------------------------------------------------------- storage


def folded(length: int) -> Case:
    made = case(BLUR, SLIDING)
    final = localize(made.final, made.tree, "p", (), fold={0: length})
    return replace(made, final=final)


@pytest.mark.parametrize("length", [3, 4])
def test_a_ring_of_three_rows_holds_a_window_of_three(length: int) -> None:
    folded(length).check()
    assert right(folded(length))


@pytest.mark.parametrize("length", [1, 2])
def test_a_shorter_ring_is_refused_with_what_is_there(length: int) -> None:
    made = folded(length)
    assert not right(made)
    error = refused(made)
    assert (error.reader, error.array) == ("y", "p")
    if length == 2:
        assert str(error) == (
            "y(i=0) reads p[0]: it should be of p(i=0), and is of p(i=2), with N=1"
        )


def test_a_ring_in_blocks_that_run_backward() -> None:
    """isl's own flow says here that y(8) sees p(4), which p(8) has overwritten."""
    made = case(
        BLUR.replace(" + p[i + 2]", ""),
        "split p.i by 3 -> io, ii  reverse p.io  compute p at y.i  store p at root fold i by 4",
    )
    made.check()
    assert right(made, [{"N": n} for n in (4, 9, 13)])


def test_memory_that_is_new_in_each_row_has_no_window() -> None:
    made = case(BLUR, SLIDING)
    made = replace(made, private={"p": (("y", "i"),)})
    assert not right(made)
    assert str(refused(made)) == (
        "y(i=1) reads p[1]: it should be of p(i=1), and is nothing that was written, with N=2"
    )


PAIR = """
kernel pair(N) {
    in  x: f32[N]
    temp e: f32[N]
    out y: f32[N]
    e[i] = 2.0 * x[i]
    y[i] = e[i] + e[INDEX]
}
"""


@pytest.mark.parametrize(("index", "fine"), [("i", True), ("N - 1 - i", False), ("0", False)])
def test_living_in_another_array(index: str, fine: bool) -> None:
    made = case(PAIR.replace("INDEX", index))
    made = replace(made, final=share(made.base, "e", "y"))
    assert right(made) == fine
    if fine:
        made.check()
    else:
        assert refused(made).array == "e"


def test_a_stage_of_what_lives_in_another_array() -> None:
    text = PAIR.replace("INDEX", "i") + "schedule pair for any { DIRECTIVES }"
    made = case(text, "split e.i by 4 -> io, ii  store e in y  stage e at e.io")
    made.check()
    assert right(made)


def test_what_is_out_at_the_end_is_its_own() -> None:
    made = case(
        "kernel k(N) { in x: f32[N]  temp e: f32[N]  out y: f32[N]"
        "  y[i] = x[i]  e[i] = 2.0 * x[i] }"
    )
    made = replace(made, final=share(made.base, "e", "y"))
    assert not right(made)
    assert str(refused(made)) == "at the end, y[0] should be of y(i=0), and is of e(i=0), with N=1"


# ---------------------------------------------------------------- instances


TILED = "split y.i by 4 -> io, ii  compute p at y.io"


def test_a_missing_row_of_a_halo_is_refused() -> None:
    made = case(BLUR, TILED)
    assert made.final.statements["p"].indices == ("io", "i")
    made.check()
    less = within(made, "p", "[p0] -> { S[io, i] : i <= 4*io + 4 }")
    assert not right(less)
    assert str(refused(less)) == (
        "y(i=3) reads p[5]: it should be of p(i=5), and is nothing that was written, with N=4"
    )


def test_instances_that_nobody_reads_may_be_missing() -> None:
    text = BLUR.replace("p[i + 2]", "p[i + 1]")
    made = case(text)
    less = within(made, "p", "[p0] -> { S[i] : i <= p0 }")
    less.check()
    assert right(less)


def test_an_instance_of_nothing_is_refused() -> None:
    made = case(BLUR, TILED)
    stmt = made.final.statements["p"]
    assert stmt.origin is not None
    lost = replace(stmt, origin=Origin("p", stmt.origin.map.intersect_range(isl.Set("{ S0[0] }"))))
    final = replace(made.final, statements={**made.final.statements, "p": lost})
    assert "stand for" in str(refused(replace(made, final=final)))
    unknown = replace(stmt, origin=Origin("q", stmt.origin.map))
    final = replace(made.final, statements={**made.final.statements, "p": unknown})
    assert "nothing tells" in str(refused(replace(made, final=final)))


def test_another_value_is_refused() -> None:
    made = case(BLUR, TILED)
    other = case(BLUR.replace("2.0 *", "3.0 *"), TILED).final.statements["p"]
    final = replace(made.final, statements={**made.final.statements, "p": other})
    assert "another value" in str(refused(replace(made, final=final)))


# ---------------------------------------------------------------- reductions


SUM = """
kernel sums(N, K) {
    in  x: f32[N, K]
    temp c: f32[N]
    out y: f32[N]
    assume K >= 1
    c[i] = sum[k](x[i, k])
    y[i] = 2.0 * c[i]
}
schedule sums for any { DIRECTIVES }
"""
BLOCKS = "split c.k by 2 -> ko, ki  reorder ko, c.i, ki  finish y at c.ko"
NK = [{"N": n, "K": k} for n, k in ((0, 1), (1, 1), (2, 2), (2, 3), (3, 5))]


def in_every_block(node: Node) -> Node:
    """y in each iteration of ko."""
    match node:
        case Loop("ko"):
            where = isl.PwAff("[p0, p1] -> { S2[i] -> [0] }")
            where = where.align_params(node.coords["c"].get_space())
            return replace(node, coords={**node.coords, "y": where})
        case Seq(children):
            return Seq(tuple(map(in_every_block, children)))
        case _:
            return node


def test_a_reader_among_the_terms_is_refused() -> None:
    made = case(SUM, BLOCKS)
    made.check()
    assert right(made, NK)
    early = replace(made, tree=in_every_block(made.tree))
    assert not right(early, NK)
    error = refused(early)
    assert error.reader == "y"
    assert "should be of c(i=0, k=2), and is of c(i=0, k=1)" in str(error)


def test_a_start_behind_a_term_is_refused() -> None:
    made = case(SUM, "compute c at y.i")
    made.check()
    match made.tree:
        case Loop(body=Seq((init, terms, reader))):
            late = replace(made.tree, body=Seq((terms, init, reader)))
        case _:
            pytest.fail("the tree has another shape")
    assert not right(replace(made, tree=late), NK)
    assert str(refused(replace(made, tree=late))) == (
        "y(i=0) reads c[0]: it should be of c(i=0, k=0), and is of c.init(i=0), with N=1, K=1"
    )


def test_a_sum_that_is_computed_again_starts_again() -> None:
    made = case(
        SUM.replace("2.0 * c[i]", "c[i] + c[max(i - 1, 0)]"),
        "split y.i by 2 -> io, ii  compute c at y.io",
    )
    made.check()
    assert right(made, NK)
    # One memory for all blocks, started by the first that needs a sum.
    init = made.final.statements["c.init"]
    assert init.origin is not None
    shared = localize(made.base, made.base_tree, "c", ())
    names = ("c.init", "c", "y")
    undone = dict(made.final.statements)
    for name in names:
        now, was = made.final.statements[name], shared.statements[name]
        undone[name] = replace(
            now,
            value=was.value,
            write=replace(now.write, subscript=was.write.subscript),
        )
    arrays = {**made.final.arrays, "c": shared.arrays["c"]}
    extents = {**made.final.extents, "c": shared.extents["c"]}
    final = replace(made.final, arrays=arrays, extents=extents)
    final = replace(final, statements={n: consistent(final, s) for n, s in undone.items()})
    again = replace(made, final=final, private={})
    again.check()
    assert right(again, NK)
    started = within(again, "c.init", "[p0, p1] -> { S[io, i] : i >= 2*io }")
    assert not right(started, NK)
    assert "c" in str(refused(started))


def test_terms_keep_their_order_unless_it_may_change() -> None:
    made = case(SUM, "compute c at y.i")
    text = re.sub(r"f32", "i32", SUM).replace("2.0", "2")
    whole = case(text, "compute c at y.i")

    def backward(node: Node) -> Node:
        match node:
            case Loop("k"):
                return replace(node, coords={s: c.neg() for s, c in node.coords.items()})
            case Loop():
                return replace(node, body=backward(node.body))
            case Seq(children):
                return Seq(tuple(map(backward, children)))
            case _:
                return node

    turned = replace(made, tree=backward(made.tree))
    assert str(refused(turned)) == (
        "c(i=0, k=1) updates c before c(i=0, k=0), which must come first, with N=1, K=2"
    )
    replace(turned, reassociate=frozenset({"c"})).check()
    replace(whole, tree=backward(whole.tree)).check()


# ---------------------------------------------------------------- copies


MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any { DIRECTIVES }
"""
STAGED = (
    "tile i, j by 2, 3 -> io, jo, ii, ji  split k by 2 -> ko, ki  reorder io, jo, ko, ki, ii, ji"
    "  stage C at ko"
)
MNK = [dict(zip("MNK", s, strict=True)) for s in ((0, 2, 1), (1, 1, 0), (3, 4, 5), (2, 3, 2))]


def without(made: Case, name: str) -> Case:
    """The case without a statement."""

    def edit(node: Node) -> Node | None:
        match node:
            case Leaf(leaf):
                return None if leaf == name else node
            case Loop():
                body = edit(node.body)
                coords = {s: c for s, c in node.coords.items() if s != name}
                return None if body is None else replace(node, body=body, coords=coords)
            case Seq(children):
                left = [c for child in children if (c := edit(child)) is not None]
                return left[0] if len(left) == 1 else Seq(tuple(left))

    tree = edit(made.tree)
    assert tree is not None
    statements = {n: s for n, s in made.final.statements.items() if n != name}
    return replace(made, tree=tree, final=replace(made.final, statements=statements))


def test_a_tile_that_is_filled_and_written_back_in_every_block() -> None:
    """The chain of copies is as long as K: it is not followed."""
    made = case(MATMUL, STAGED)
    made.check()
    assert right(made, MNK)


@pytest.mark.parametrize("name", ["C_s_in", "C_s_out"])
def test_half_a_stage_is_refused(name: str) -> None:
    made = without(case(MATMUL, STAGED), name)
    assert not right(made, MNK)
    assert refused(made).array == "C"


def test_a_read_of_what_a_pack_fills_with_zeros_is_refused() -> None:
    """The pack takes the last column of each block for one that nobody reads."""
    directives = "split j by 4 -> jo, ji tail mask  reorder jo, i, k, ji  pack B at jo as Q[k, ji]"
    made = case(MATMUL, directives)
    made.check()
    fill = made.final.statements["Q"]
    assert isinstance(fill.value, Select)

    def shorter(old: Stmt) -> Stmt:
        assert isinstance(old.value, Select)
        both = Op("and", (old.value.condition, LAST), BOOL)
        return replace(old, value=replace(old.value, condition=both))

    less = with_statement(made, "Q", shorter)
    assert not right(less, [{"M": 1, "N": 4, "K": 1}])
    assert "C(i=0, j=3, k=0" in str(refused(less))
    assert "is a constant of Q" in str(refused(less))


def test_a_pack_without_a_row_is_refused() -> None:
    directives = "split j by 4 -> jo, ji  reorder jo, i, k, ji  pack B at jo as Q[k, ji]"
    made = within(case(MATMUL, directives), "Q", "[p0, p1, p2] -> { S[jo, k, ji] : k >= 1 }")
    assert "nothing that was written" in str(refused(made))


PADDED = """
kernel conv(N) {
    in  x: f32[N]
    in  w: f32[3]
    out y: f32[N]
    y[i] = sum[r in 0..3](padded(x[i + r - 1], PAD) * w[r])
}
schedule conv for any { DIRECTIVES }
"""


@pytest.mark.parametrize("pad", ["0.0", "2.0"])
def test_what_is_padded_is_packed(pad: str) -> None:
    directives = "split i by 4 -> io, ii  reorder io, r, ii  pack x at io as Q[r, ii]"
    made = case(PADDED.replace("PAD", pad), directives)
    made.check()
    assert right(made)
    other = case(PADDED.replace("PAD", "1.0"), directives)
    mixed = replace(made, base=other.base, base_tree=other.base_tree)
    assert "should be 1.0, and is a constant of Q" in str(refused(mixed))


# ---------------------------------------------------------------- what data decide


COUNTS = """
kernel counts(N, M) {
    in  x: i32[N] range 0..4
    in  z: f32[M + 1]
    inout h: i32[4]
    const t: f32[4] = [1.0, 2.0, 3.0, 4.0]
    temp p: f32[M + 1]
    out y: f32[M]
    out u: f32[N]
    h[x[i]] += 1
    u[i] = t[x[i]]
    p[j] = 2.0 * z[j]
    y[j] = p[j] + p[j + 1]
}
schedule counts for any { DIRECTIVES }
"""


def test_arrays_that_no_placement_touches_may_depend_on_data() -> None:
    case(COUNTS, "split y.j by 4 -> jo, ji  compute p at y.jo").check()


TABLE = """
kernel table(N, M) {
    in  x: u8[N, M]
    const t: f32[4] = [1.0, 2.0, 3.0, 4.0]
    temp g: f32[N, M]
    out y: f32[N, M]
    g[i, j] = t[x[i, j] & 3]
    y[i, j] = g[i, j] + 1.0
}
schedule table for any { DIRECTIVES }
"""


@pytest.mark.parametrize("directives", [
    "stage t at g.i  compute g at y.i", "compute g at y.i  pack x at g.i as Q[j]", "stage x at g.i",
])  # fmt: skip
def test_a_copy_of_what_data_choose_from(directives: str) -> None:
    case(TABLE, directives).check()


def test_a_copy_of_what_data_choose_from_is_whole() -> None:
    made = within(case(TABLE, "stage t at g.i"), "t_s_in", "[p0, p1] -> { S[i, k] : k <= 2 }")
    assert "t[3]" in str(refused(made))
    shifted = case(TABLE, "stage t at g.i")
    stmt = shifted.final.statements["g"]
    (read, inner) = stmt.reads
    index = Op("sub", (Const(3, INDEX), read.subscript[0]), INDEX)
    value = Read("t_s", (index,), shifted.final.arrays["t_s"].type)
    other = replace(stmt, value=value, reads=(replace(read, subscript=(index,)), inner))
    final = replace(shifted.final, statements={**shifted.final.statements, "g": other})
    assert "data decide" in str(refused(replace(shifted, final=final)))


def test_undecided_is_refused() -> None:
    made = case(BLUR, TILED)
    with limit(100), pytest.raises(BudgetExceeded, match="every read still gets its value"):
        made.check()


LOCAL = """
kernel local(N) {
    in  x: f32[N, N]
    temp p: f32[N, N]
    out y: f32[N, N]
    for i in 0..N {
        temp t: f32[N]
        t[j] = x[i, j] + 1.0
        p[i, j] = t[j] * t[N - 1 - j]
    }
    y[i, j] = p[i, j] + 1.0
}
schedule local for any { DIRECTIVES }
"""


def test_a_temp_of_a_loop_body_beside_a_placement() -> None:
    made = case(LOCAL, "store p in y")
    made.check()
    assert right(made)
