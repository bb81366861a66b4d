"""Random surface trees that the grammar can say: expressions, directives, files.

Names include contextual keywords, since those must not get in the way of anything.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tdsl.schedule import directives as d
from tdsl.syntax import tree as t
from tdsl.syntax.build_schedule import MEMORIES, TAILS

# fmt: off
_WORDS = (
    "a", "b", "c", "i", "j", "k", "n", "x1", "acc", "do", "in_", "let_", "f32", "exp", "at", "by",
    "tail", "when", "step", "type", "first", "plain", "fold", "as", "split", "kernel", "tile",
    "select", "identity", "give", "range", "align", "schedule", "unroll", "on", "def", "otherwise",
)
# fmt: on

names = st.sampled_from(_WORDS)


def _named(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The strategy without its description, which grows with every use of it."""
    return st.just(None).flatmap(lambda _: strategy)


def tuples_of(
    items: st.SearchStrategy[Any], least: int = 1, most: int = 3, unique: bool = False
) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=least, max_size=most, unique=unique).map(tuple)


new_names = tuples_of(names, unique=True)

# ---------------------------------------------------------------- expressions

numbers = st.one_of(
    st.integers(0, 2**64).map(lambda n: t.Number(Fraction(n), False)),
    st.builds(
        lambda n, places: t.Number(Fraction(n, 10**places), True),
        st.integers(0, 10**9),
        st.integers(0, 30),
    ),
    st.integers(0, 2**60).map(lambda n: t.Number(Fraction(n) * Fraction(2) ** -20, True)),
)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"'))
name_exprs = st.one_of(names, st.sampled_from(("inf", "true", "false", "sum", "max"))).map(t.Name)
leaves = st.one_of(numbers, name_exprs, name_exprs, texts.map(t.Text))

_BINARY = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "and", "or")
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")


def _kwargs(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(names, inner, max_size=2).map(lambda kwargs: tuple(kwargs.items()))


def ranges(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[t.IndexRange]:
    """Ranges of a reduction."""
    return st.one_of(
        names.map(t.IndexRange), st.builds(t.IndexRange, name=names, lo=inner, hi=inner)
    )


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bases = inner.filter(lambda e: not isinstance(e, t.Subscript))
    return st.one_of(
        st.builds(t.Binary, st.sampled_from(_BINARY), inner, inner),
        st.builds(t.Unary, st.sampled_from(("-", "~", "not")), inner),
        st.builds(t.Compare, inner, tuples_of(st.tuples(st.sampled_from(_COMPARE), inner), most=2)),
        st.builds(t.Subscript, bases, tuples_of(inner)),
        st.builds(t.Field, inner, names),
        st.builds(t.Call, names, tuples_of(inner, 0), kwargs=_kwargs(inner)),
        st.builds(t.Call, names, tuples_of(inner), st.tuples(names), _kwargs(inner)),
        st.builds(
            t.Reduce,
            st.sampled_from(("sum", "argmax", "merge")),
            tuples_of(ranges(inner)),
            st.none() | inner,
            tuples_of(inner, most=2),
        ),
    )


exprs = _named(st.recursive(leaves, _extend, max_leaves=12))
small = _named(st.recursive(leaves, _extend, max_leaves=4))
some = tuples_of(small)
tables = st.recursive(small, lambda inner: tuples_of(inner).map(t.ListLit), max_leaves=6)

# ---------------------------------------------------------------- directives

refs = st.builds(d.LoopRef, st.none() | names, names)
loops = tuples_of(refs)
places = st.one_of(refs, st.sampled_from(("root", "prepare")))
memories = st.none() | st.sampled_from(MEMORIES)
tails = tuples_of(st.sampled_from(TAILS), 0, 2)
arrays = st.builds(d.ArrayRef, names, st.none() | names, tuples_of(small, 0, 2))
maybe = st.none() | small


def _tile(count: int) -> st.SearchStrategy[d.Tile]:
    return st.builds(
        d.Tile,
        tuples_of(refs, count, count),
        tuples_of(small, count, count),
        tuples_of(names, 2 * count, 2 * count, unique=True),
        tails,
    )


def _peel(values: tuple[Any, Any, Any]) -> d.Peel:
    loop, first, last = values
    return d.Peel(loop, first if first is not None or last is not None else t.Name("n"), last)


_orders = st.builds(
    d.Order,
    tuples_of(st.tuples(names, tuples_of(names, 0, unique=True), some)),
    tuples_of(names, 0, unique=True),
)

_plain_directives = _named(
    st.one_of(
        st.builds(d.Split, loops, small, names, names, tails),
        st.integers(1, 3).flatmap(_tile),
        st.builds(d.Reorder, loops),
        st.builds(d.Collapse, loops, names),
        st.builds(d.Fuse, loops, names),
        st.builds(d.Distribute, refs),
        st.builds(d.Skew, refs, small),
        st.builds(d.Shift, refs, small),
        st.builds(d.Reverse, loops),
        st.builds(d.Wavefront, refs, refs, names, names),
        st.tuples(refs, maybe, maybe).map(_peel),
        st.builds(d.Extend, names, names, small),
        st.builds(d.Sequence, tuples_of(names)),
        _orders,
        st.builds(d.Vectorize, loops, maybe),
        st.builds(d.Unroll, loops, maybe, st.booleans()),
        st.builds(d.Parallel, loops),
        st.builds(d.Dot, loops),
        st.builds(d.Inline, tuples_of(names)),
        st.builds(d.Compute, names, places, memories),
        st.builds(d.Finish, names, refs),
        st.builds(d.Store, names, places, memories, tuples_of(st.tuples(names, small), 0, 2)),
        st.builds(d.Store, names, layout=some),
        st.builds(d.Store, names, inside=names),
        st.builds(d.Stage, arrays, refs, st.none() | some, memories),
        st.builds(d.Pack, arrays, places, some, memory=memories),
        st.builds(d.Pack, arrays, places, some, names, st.none() | names, memories),
        st.builds(d.Transpose, refs, refs),
        st.builds(d.Layout, names, new_names, some),
        st.builds(d.Prefetch, arrays, refs, maybe),
        st.builds(d.Stream, names),
        st.builds(d.Reassociate, tuples_of(names)),
        st.builds(d.Factor, refs, names),
        st.builds(d.Expect, some),
        st.builds(d.Let, names, small),
        st.builds(d.Require, some),
        st.builds(d.Use, names, tuples_of(small, 0), _kwargs(small)),
    )
)
directives = st.recursive(
    _plain_directives,
    lambda inner: st.builds(d.On, tuples_of(names), tuples_of(inner, 0)),
    max_leaves=4,
)

# ---------------------------------------------------------------- files

params = st.builds(t.Param, names, maybe, st.booleans())
shapes = tuples_of(small | tuples_of(small, 2, 3), 0)
roles = st.sampled_from(("in", "out", "inout", "const", "temp"))
declarations = st.builds(
    t.ArrayDecl,
    roles,
    new_names,
    names,
    shapes,
    strides=st.none() | some,
    align=maybe,
    range=st.none() | st.tuples(small, small),
)
table_declarations = st.builds(
    t.ArrayDecl, st.just("table"), st.tuples(names), names, shapes, tables
)
targets = st.one_of(names.map(t.Name), st.builds(t.Subscript, names.map(t.Name), some))
equations = st.builds(
    t.Equation,
    st.none() | names,
    tuples_of(targets, most=2),
    st.sampled_from(("=", "+=", "-=", "*=", "min=", "max=")),
    exprs,
    maybe,
)
size_lets = st.builds(t.SizeLet, names, small)
assumptions = st.builds(t.Assume, some)
for_ranges = st.builds(t.IndexRange, names, small, small, st.booleans(), maybe)
kernel_items = st.recursive(
    st.one_of(size_lets, assumptions, declarations, table_declarations, equations),
    lambda inner: st.builds(t.For, tuples_of(for_ranges), tuples_of(inner, 0), st.booleans()),
    max_leaves=4,
)
kernels = st.builds(
    t.Kernel,
    names,
    tuples_of(params, 0),
    tuples_of(names, 0, unique=True),
    tuples_of(kernel_items, 0, 5),
)
targets_of_schedules = st.lists(names, min_size=1, max_size=2).map("+".join)
graph_inputs = st.builds(t.ArrayDecl, st.sampled_from(("in", "const")), new_names, names, shapes)
file_items = st.one_of(
    kernels,
    table_declarations,
    st.builds(t.Def, names, tuples_of(names, 0, unique=True), exprs),
    st.builds(t.Combine, names, new_names, new_names, some, tuples_of(size_lets, 0), some),
    st.builds(t.Record, names, tuples_of(st.tuples(names, names, maybe))),
    st.builds(t.Import, names),
    st.builds(
        t.Schedule,
        names,
        st.none() | names,
        tuples_of(targets_of_schedules),
        maybe,
        tuples_of(directives, 0, 5),
    ),
    st.builds(t.Recipe, names, tuples_of(params, 0), tuples_of(directives, 0, 5)),
    st.builds(
        t.Graph,
        names,
        tuples_of(params, 0),
        tuples_of(
            graph_inputs
            | table_declarations
            | st.builds(t.GraphLet, new_names, small, st.booleans()),
            0,
            4,
        ),
    ),
    st.builds(t.Select, names, tuples_of(st.tuples(names, maybe))),
)
files = st.builds(t.File, tuples_of(file_items, 0, 3))
