"""The text of the loops level, one node of each kind."""

from tdsl.ir.index import add, const, minimum, scale
from tdsl.ir.kernel import Op, Size, Var
from tdsl.ir.loops import Block, Dim, For, If, Instance, Scope, Switch
from tdsl.ir.print_loops import print_loops
from tdsl.ir.types import BOOL

N = Size("N")
I = Var("i")  # noqa: E741
LESS = Op("lt", (I, N), BOOL)


def leaf(name: str = "S", **options: object) -> Block:
    return Block((Instance(name, (("i", I),), **options),))  # type: ignore[arg-type]


def test_loops_of_every_mark() -> None:
    plain = For("i", "i", const(0), N, leaf())
    copies = For("i", "i", const(0), N, leaf(), mark="unroll", by=4)
    threads = For("i", "i_2", const(1), N, leaf(), step=8, mark="parallel")
    assert print_loops(Block((plain, copies, threads))) == (
        "for i in 0..N\n"
        "    S(i)\n"
        "copies of i in 0..N by 4\n"
        "    S(i)\n"
        "parallel for i_2 in 1..N step 8  # i\n"
        "    S(i)\n"
    )


def test_tests_and_switches() -> None:
    chosen = If(LESS, leaf("S"), leaf("T"))
    cases = Switch(N, ((1, leaf("S")), (2, leaf("T"))), leaf("U"))
    assert print_loops(Block((chosen, cases))) == (
        "if i < N\n"
        "    S(i)\n"
        "else\n"
        "    T(i)\n"
        "switch N\n"
        "case 1\n"
        "    S(i)\n"
        "case 2\n"
        "    T(i)\n"
        "default\n"
        "    U(i)\n"
    )


def test_registers_blocks_and_statements_without_loops() -> None:
    alone = Block((Instance("Q", ()),))
    assert print_loops(Block((Scope("C", Block((alone,))), If(LESS, alone)))) == (
        "keep C in registers\n    Q\nif i < N\n    Q\n"
    )


def test_dimensions_of_a_statement() -> None:
    rest = minimum(const(4), add(N, scale(-4, I)))
    copies = Dim("ii", "ii", 4, "unroll", rest, "cases")
    lanes = Dim("ji", "ji", 16, "vector", None, "", 8)
    body = leaf(dims=(copies, lanes), guard=LESS)
    assert print_loops(body) == (
        "S(i)    over unroll ii in 0..4 of which min(4, N - 4 * i) run (tail cases), "
        "vector ji in 0..16 by 8    if i < N\n"
    )
