"""Edits of hand-built trees, against the orders that they are meant to give."""

from __future__ import annotations

import pytest

from tdsl.polyhedral import edit
from tdsl.polyhedral.extent import extent, least, rectangular
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, Tail, loops_of
from tests.schedule import programs as p


def names(tree: Node, statement: str) -> list[str]:
    return [loop.name for loop in loops_of(tree, statement)]


SQUARE = p.program({"S": ("i, j", "0 <= i < p0 and 0 <= j < 6")})


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 8, 13])
def test_split_blocks_from_the_least_coordinate(size: int) -> None:
    made = p.program({"S": ("i", "2 <= i < p0 + 2")})
    tree = edit.split(made, p.program_tree(made), "S", "i", 4, "io", "ii")
    assert names(tree, "S") == ["io", "ii"]
    seen = p.loop_values(made, tree, "S", {"N": size})
    assert seen == {(i,): ((i - 2) // 4, i) for i in range(2, size + 2)}


def test_anchor_is_zero_where_the_least_coordinate_is_no_single_expression() -> None:
    made = p.program({"S": ("i", "(3 <= i < p0 and p0 > 10) or (5 <= i < p0 and p0 <= 10)")})
    tree = p.program_tree(made)
    loop = edit.find(tree, "S", "i")
    assert least(made, loop) is None
    seen = p.loop_values(made, edit.split(made, tree, "S", "i", 4, "io", "ii"), "S", {"N": 13})
    assert seen == {(i,): (i // 4, i) for i in range(3, 13)}


def test_anchor_may_be_a_size() -> None:
    made = p.program({"S": ("i", "p0 <= i < 3 * p0")})
    tree = edit.split(made, p.program_tree(made), "S", "i", 4, "io", "ii")
    seen = p.loop_values(made, tree, "S", {"N": 7})
    assert seen == {(i,): ((i - 7) // 4, i) for i in range(7, 21)}


@pytest.mark.parametrize("size", range(23))
def test_balanced_blocks(size: int) -> None:
    made = p.program({"S": ("i", "1 <= i < p0 + 1")})
    tail = Tail("", balanced=True)
    tree = edit.split(made, p.program_tree(made), "S", "i", 5, "io", "ii", tail)
    blocks: dict[int, list[int]] = {}
    for (i,), (o, _) in sorted(p.loop_values(made, tree, "S", {"N": size}).items()):
        blocks.setdefault(o, []).append(i)
    count = -(-size // 5)
    assert sorted(blocks) == list(range(count))
    assert [i for o in sorted(blocks) for i in blocks[o]] == list(range(1, size + 1))
    lengths = [len(blocks[o]) for o in sorted(blocks)]
    assert all(n == 5 for n in lengths[:-2])
    if count >= 2:
        assert 0 <= lengths[-2] - lengths[-1] <= 1


def test_balanced_needs_an_extent_of_its_own() -> None:
    ragged = p.program({"S": ("i", "0 <= i < p0 and (i <= 4 or p0 <= 9)")})
    with pytest.raises(edit.EditError, match="cannot be balanced"):
        edit.split(ragged, p.program_tree(ragged), "S", "i", 4, "io", "ii", Tail("", balanced=True))


def test_splitting_a_block_again_keeps_the_partners_names() -> None:
    tree = p.program_tree(SQUARE)
    tree = edit.split(SQUARE, tree, "S", "i", 8, "io", "ii")
    tree = edit.split(SQUARE, tree, "S", "io", 4, "a", "b")
    assert names(tree, "S") == ["a", "b", "ii", "j"]
    b, ii = edit.find(tree, "S", "b"), edit.find(tree, "S", "ii")
    assert b.outer_of is not None and b.outer_of.outer == "b"
    assert ii.inner_of is not None and ii.inner_of.outer == "b"
    assert p.order(SQUARE, tree, {"N": 70}) == [("S", x) for x in p.box(70, 6)]


def test_permute_keeps_the_places() -> None:
    made = p.program({"S": ("i, j, k", "0 <= i < p0 and 0 <= j < 3 and 0 <= k < 4")})
    tree = edit.permute(p.program_tree(made), "S", ["k", "i"])
    assert names(tree, "S") == ["k", "j", "i"]
    expected = [(i, j, k) for k in range(4) for j in range(3) for i in range(2)]
    assert p.order(made, tree, {"N": 2}) == [("S", x) for x in expected]


def test_permute_stops_at_a_sequence() -> None:
    made = p.program({"S": ("i, j", "0 <= i < p0 and 0 <= j < 3"), "T": ("i", "0 <= i < p0")})
    s, t = p.nest(made, "S"), p.nest(made, "T")
    assert isinstance(s, Loop) and isinstance(t, Loop)
    shared: Node = Loop("i", {**s.coords, **t.coords}, Seq((s.body, Leaf("T"))))
    with pytest.raises(edit.EditError, match="between i and j stands a sequence of S, T"):
        edit.permute(shared, "S", ["j", "i"])
    apart = edit.distribute(shared, "S", "i")
    moved = edit.permute(apart, "S", ["j", "i"])
    assert names(moved, "S") == ["j", "i"] and names(moved, "T") == ["i"]
    expected = [("S", (i, j)) for j in range(3) for i in range(2)] + [("T", (0,)), ("T", (1,))]
    assert p.order(made, moved, {"N": 2}) == expected


def test_fuse_runs_equal_coordinates_together() -> None:
    made = p.program(dict.fromkeys(("S", "M", "T"), ("i", "0 <= i < p0")))
    tree = edit.fuse(p.program_tree(made), [("S", "i"), ("T", "i")], "n")
    assert p.order(made, tree, {"N": 2}) == [
        ("S", (0,)), ("T", (0,)), ("S", (1,)), ("T", (1,)), ("M", (0,)), ("M", (1,)),
    ]  # fmt: skip
    with pytest.raises(edit.EditError, match="no sequence"):
        edit.fuse(p.program_tree(SQUARE), [("S", "i")], "n")


def test_collapse_counts_both() -> None:
    tree = p.program_tree(SQUARE)
    i, j = loops_of(tree, "S")
    assert rectangular(SQUARE, [], i, j)
    tree = edit.collapse(SQUARE, tree, "S", "i", "j", "ij", 6)
    assert p.loop_values(SQUARE, tree, "S", {"N": 5}) == {
        (i, j): (6 * i + j,) for i, j in p.box(5, 6)
    }


def test_a_triangle_is_not_rectangular() -> None:
    made = p.program({"S": ("i, j", "0 <= i < p0 and 0 <= j <= i")})
    i, j = loops_of(p.program_tree(made), "S")
    assert not rectangular(made, [], i, j)


def test_extents() -> None:
    tree = p.program_tree(SQUARE)
    assert extent(SQUARE, tree, "S", "i") is None
    assert extent(SQUARE, tree, "S", "j") == 6
    tree = edit.split(SQUARE, tree, "S", "i", 8, "io", "ii")
    assert extent(SQUARE, tree, "S", "ii") == 8
    assert extent(SQUARE, tree, "S", "io") is None
    band = p.program({"S": ("i, j", "0 <= i < p0 and i <= j < i + 3")})
    assert extent(band, p.program_tree(band), "S", "j") == 3


def test_skew_shift_and_reverse() -> None:
    tree = edit.skew(p.program_tree(SQUARE), "S", "j", [(2, "i")], 1)
    tree = edit.shift(tree, "S", "j", 3)
    tree = edit.reverse(tree, "S", "i")
    seen = p.loop_values(SQUARE, tree, "S", {"N": 3})
    assert seen == {(i, j): (-i, j + 2 * i + 4) for i, j in p.box(3, 6)}
