"""Text, methods and values are one thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest

from tdsl.diagnostics import Error, IllegalSchedule, ParseError
from tdsl.schedule import directives as d
from tdsl.schedule.builder import Schedule
from tdsl.schedule.printer import print_tree
from tdsl.syntax import tree as surface
from tdsl.syntax.parser import parse, parse_directives
from tests.schedule.run import MATMUL, front, target

MADE = front(MATMUL + "recipe rows(P, i, F = 8) { on P { split i by F -> io, ii } }")


def new(on: str = "avx512") -> Schedule:
    return Schedule(MADE.program, target(on), recipes=MADE.recipes)


def text_of(s: Schedule) -> tuple[object, ...]:
    (item,) = parse(str(s)).items
    assert isinstance(item, surface.Schedule)
    return item.directives


def test_methods_make_what_the_text_says() -> None:
    s = new()
    s.tune("MR", 6, 8)
    s.let("NR", "4 * lanes(f32)")
    s.require("MR * 4 + 4 + 1 <= registers")
    s.reassociate("C")
    with s.on("C") as c:
        c.tile("j", "i", by=("NR", "MR"), into=("jo", "io", "ji", "ii"), tail="cases")
        c.reorder("jo", "io", "k", "ii", "ji")
        c.unroll("ii")
        c.unroll("k", by=4, plain=True)
        c.vectorize("ji")
    s.split("Y.i", by=8, into=("io", "ii"), tail=("peel", "balanced"))
    s.vectorize("Y.j", by=8)
    s.stage("C", at="C.k", memory="registers")
    s.parallel("Y.io", "jo")
    assert s.directives == parse_directives(
        """
        let MR = tune(6, 8)
        let NR = 4 * lanes(f32)
        require MR * 4 + 4 + 1 <= registers
        reassociate C
        on C {
            tile j, i by NR, MR -> jo, io, ji, ii tail cases
            reorder jo, io, k, ii, ji
            unroll ii
            unroll k by 4 plain
            vectorize ji
        }
        split Y.i by 8 -> io, ii tail peel, balanced
        vectorize Y.j by 8
        stage C at C.k in registers
        parallel Y.io, jo
        """
    )
    assert text_of(s) == s.directives
    assert s.knobs == {"MR": 6}
    assert str(s).startswith("schedule matmul for avx512 {\n    let MR = tune(6, 8)\n")


def test_every_directive_has_a_method() -> None:
    names = {c.__name__.lower() for c in get_args(d.Directive)}
    assert "compute" in names and not {n for n in names if not hasattr(Schedule, n)}


def test_stages_by_methods() -> None:
    s = new()
    s.split("C.k", by=4, into=("ko", "kk"))
    s.finish("Y", at="C.j")
    assert s.directives == parse_directives("split C.k by 4 -> ko, kk  finish Y at C.j")
    s = new()
    s.tile("Y.i", "Y.j", by=(4, 16), into=("io", "jo", "ii", "ji"))
    s.compute("C", at="Y.jo", memory="registers")
    s.expect("scratch == 0")
    assert s.directives == parse_directives(
        """
        tile Y.i, Y.j by 4, 16 -> io, jo, ii, ji
        compute C at Y.jo in registers
        expect scratch == 0
        """
    )
    assert text_of(s) == s.directives
    with pytest.raises(IllegalSchedule, match="innermost"):
        s.dot("C.i")


def test_every_method_prints_and_parses() -> None:
    s = new()
    s.use("rows", "C", "i", F=4)
    s.collapse("Y.i", "Y.j", into="ij")
    s.skew("C.k", by="io")
    s.shift("C.j", by=2)
    s.reverse("C.j")
    assert text_of(s) == s.directives
    t = new()
    t.fuse("C.i", "Y.i", into="r")
    t.distribute("r")
    assert text_of(t) == t.directives


def test_packs_by_method() -> None:
    s = new()
    s.split("C.j", by=16, into=("jo", "ji"))
    s.reorder("C.jo", "C.i", "C.k", "C.ji")
    s.pack("C.B", "C.jo", ("k", "ji"), into="Bp", memory="scratch")
    s.pack("A", "root", ("i % 4", "k", "i // 4"), dims=("i", "k"), into="Ap", type="f64")
    assert s.directives == parse_directives(
        """
        split C.j by 16 -> jo, ji
        reorder C.jo, C.i, C.k, C.ji
        pack C.B at C.jo as Bp[k, ji] in scratch
        pack A[i, k] at root as Ap: f64[i % 4, k, i // 4]
        """
    )
    assert text_of(s) == s.directives
    assert {"Bp", "Ap"} <= set(s.complete().program.arrays)
    with pytest.raises(TypeError, match="into="):
        s.pack("A", "root", ("i", "k"), type="f64")


def test_a_refused_directive_changes_nothing() -> None:
    s = new()
    s.split("C.i", by=8, into=("io", "ii"))
    before, tree = s.directives, s.tree
    with pytest.raises(IllegalSchedule, match="at the same time") as caught:
        s.parallel("C.k")
    assert caught.value.violations
    with pytest.raises(IllegalSchedule, match="at least 1"):
        s.split("C.j", by=0, into=("a", "b"))
    with pytest.raises(Error):
        s.vectorize("C.k.l")
    assert s.directives == before and s.tree == tree
    s.split("C.j", by=8, into=("jo", "ji"))
    assert len(s.directives) == 2


def test_a_refusal_inside_on_changes_nothing() -> None:
    s = new()
    c = s.on("C")
    c.split("i", by=8, into=("io", "ii"))
    with pytest.raises(IllegalSchedule):
        c.vectorize("k")
    c.unroll("ii")
    assert s.directives == parse_directives("on C { split i by 8 -> io, ii  unroll ii }")


def test_blocks_are_apart_where_something_is_between() -> None:
    s = new()
    c = s.on("C")
    c.split("i", by=8, into=("io", "ii"))
    s.parallel("Y.i")
    c.unroll("ii")
    assert s.directives == parse_directives(
        "on C { split i by 8 -> io, ii }  parallel Y.i  on C { unroll ii }"
    )


def test_a_later_requirement_changes_knobs_and_what_was_applied() -> None:
    s = new("avx2")
    s.tune("F", 8, 4)
    s.split("C.i", by="F", into=("io", "ii"))
    assert s.knobs == {"F": 8}
    s.require("F < 8")
    assert s.knobs == {"F": 4}
    (step, *_) = s.complete().trail
    assert step[0] == parse_directives("split C.i by 4 -> io, ii")[0]


def test_messages_show_the_directive() -> None:
    with pytest.raises(IllegalSchedule) as caught:
        new().split("C.q", by=8, into=("a", "b"))
    span = caught.value.diagnostics[0].span
    assert span is not None and span.text == "C.q"


def test_names_cannot_smuggle_text() -> None:
    with pytest.raises(ParseError):
        new().split("C.i", by=8, into=("a", "b\nparallel C.j"))
    with pytest.raises(ParseError):
        new().split("C.i by 4 -> x, y parallel C.j", by=8, into=("a", "b"))


def test_an_expression_ends_where_its_text_does() -> None:
    with pytest.raises(ParseError, match="expected the end of the text, found `y`"):
        new().split("C.i", by="x y", into=("a", "b"))


def test_text_may_be_added() -> None:
    s = new()
    s.add("split C.i by 8 -> io, ii\nunroll ii")
    assert s.directives == parse_directives("split C.i by 8 -> io, ii\nunroll ii")


def test_print_tree() -> None:
    s = new()
    with s.on("C") as c:
        c.tile("i", "j", by=(6, 64), into=("io", "jo", "ii", "ji"), tail="mask")
        c.reorder("io", "jo", "k", "ii", "ji")
        c.unroll("ii")
        c.vectorize("ji", by=8)
    s.parallel("Y.i")
    assert print_tree(MADE.program, s.tree) == (
        "for io = i // 6\n"
        "    for jo = j // 64\n"
        "        for k\n"
        "            unroll ii = i tail mask\n"
        "                vector ji = j by 8 tail mask\n"
        "                    C[i, j] += ...\n"
        "parallel i\n"
        "    for j\n"
        "        Y[i, j] = ...\n"
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s: s.vectorize("C.j", 8), "numbers stand behind a keyword, as in by=8"),
        (lambda s: s.vectorize("C.j", by=8.0), "expected an integer"),
        (lambda s: s.vectorize("C.j", by=True), "expected an integer"),
        (lambda s: s.reorder(1, 2), "are named by text, got 1"),
        (lambda s: s.split("C.i", by=8, into="io"), "into= takes a sequence of names"),
        (lambda s: s.split("C.i", by=8, into=("a", "b", "c")), "into= takes 2 names, got 3"),
        (lambda s: s.tile("C.i", "C.j", by=8, into=("a", "b", "c", "d")), "a factor for each"),
        (lambda s: s.add(None), "expected directives as text"),
    ],
)
def test_values_of_other_types_are_refused_in_words(call: Callable[[Any], None], said: str) -> None:
    s = new()
    with pytest.raises(TypeError, match=said):
        call(s)
    assert s.directives == ()


def test_integers_of_numpy_are_integers() -> None:
    s = new()
    s.split("C.i", by=np.int64(8), into=["io", "ii"])
    assert s.directives == parse_directives("split C.i by 8 -> io, ii")
