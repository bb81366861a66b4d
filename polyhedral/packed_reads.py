"""Where a statement reads an array that is to be packed, and which element of the copy that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import islpy as isl

from tdsl.ir.index import simplify, substitute
from tdsl.ir.kernel import Cast, Const, Expr, Read, Select, Var, children, walk
from tdsl.polyhedral.affine import NotAffine, Scope, pw_aff, region
from tdsl.polyhedral.model import scope_of
from tdsl.polyhedral.pieces import coalesced
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.text import expr_text
from tdsl.polyhedral.tree import Node, loops_of

OUT = isl.dim_type.out


class CannotPack(Exception):
    """Why the copy cannot be made, in words for the user, and what would help."""

    def __init__(self, reason: str, help: str | None = None) -> None:
        super().__init__(reason)
        self.help = help


@dataclass(frozen=True)
class Dim:
    """One dimension of the copy: a loop of the readers, or an expression of A's indices.

    loop: the name that was written; `by_reader`: what that loop is called around a reader, where
    it was merged with another. Where there is no loop any more, since it ran once, it is the
    reader's index of that name. expr: over Var(indices); extent: of all its values, where the
    expression alone says so (a remainder).
    """

    loop: str | None
    by_reader: Mapping[str, str] = field(default_factory=dict)
    expr: Expr | None = None
    indices: tuple[str, ...] = ()
    extent: int = 0

    def loop_of(self, reader: str) -> str | None:
        return self.by_reader.get(reader, self.loop)

    @property
    def text(self) -> str:
        """As it was written."""
        return self.loop if self.expr is None else expr_text(self.expr)  # type: ignore[return-value]

    @property
    def loops(self) -> tuple[str, ...]:
        if self.loop is None:
            return ()
        return (self.loop, *self.by_reader.values())

    def of_element(self, subscript: Sequence[Expr]) -> Expr:
        """The index of an element of A."""
        assert self.expr is not None
        return simplify(substitute(self.expr, dict(zip(self.indices, subscript, strict=True))))


@dataclass(frozen=True)
class Site:
    """One occurrence of the array in a statement's value.

    expr: what the copy replaces, the read or the `padded` around it; inside: the instances that
    read an element, where `condition` holds, outside: those that take `other`, the value around
    the array. exact: data do not decide whether it is read.
    """

    expr: Expr
    read: Read
    other: Expr | None
    inside: isl.Set
    outside: isl.Set
    element: isl.Map
    condition: Expr | None = None
    exact: bool = True

    @property
    def domain(self) -> isl.Set:
        """Where it happens."""
        return coalesced(self.inside.union(self.outside))


def sites(program: Program, name: str, array: str) -> tuple[Site, ...]:
    """All occurrences of the array in the value of a statement. Raises CannotPack where data
    decide the element."""
    stmt = program.statements[name]
    for part in stmt.write.subscript:
        if _names(part, array):
            raise CannotPack(f"{name} takes from {array} which element it writes")
    if stmt.value is None:
        return ()
    finder = _Finder(program, name, array, scope_of(program, name))
    return tuple(finder.find(stmt.value, stmt.domain, True))


def _names(expr: Expr, array: str) -> bool:
    return any(isinstance(e, Read) and e.array == array for e in walk(expr))


@dataclass(frozen=True)
class _Finder:
    program: Program
    name: str
    array: str
    where: Scope

    def find(self, expr: Expr, domain: isl.Set, exact: bool) -> Iterator[Site]:
        match expr:
            case Read() if expr.array == self.array:
                nowhere = isl.Set.empty(domain.get_space())
                yield self._site(expr, expr, (None, None), domain, nowhere, exact)
            case Select(condition, Read() as read, other) if (
                read.array == self.array
                and self._is_constant(other)
                and region(condition, self.where).exact
            ):
                inside = region(condition, self.where).may
                yield self._site(
                    expr,
                    read,
                    (condition, other),
                    domain.intersect(inside),
                    domain.subtract(inside),
                    exact,
                )
            case Select(condition, then, other):
                yield from self.find(condition, domain, exact)
                chosen = region(condition, self.where)
                exact = exact and chosen.exact
                for arm, taken in ((then, chosen), (other, chosen.negated())):
                    part = domain.intersect(taken.may)
                    if not part.is_empty():
                        yield from self.find(arm, part, exact)
            case _:
                for child in children(expr):
                    yield from self.find(child, domain, exact)

    def _is_constant(self, expr: Expr) -> bool:
        """Whether an expression is the same everywhere: a number, or a scalar argument."""
        match expr:
            case Const():
                return True
            case Read(array, ()):
                return self.program.arrays[array].role in ("in", "const", "table")
            case _:
                return False

    def _site(
        self,
        expr: Expr,
        read: Read,
        around: tuple[Expr | None, Expr | None],
        inside: isl.Set,
        outside: isl.Set,
        exact: bool,
    ) -> Site:
        element = isl.Map.from_domain(inside)
        for index in read.indices:
            try:
                part = pw_aff(index, self.where)
            except NotAffine:
                raise CannotPack(
                    f"data decide which element of {self.array} {self.name} reads"
                ) from None
            element = element.flat_range_product(part.as_map())
        name = self.program.extents[self.array].get_tuple_name()
        element = coalesced(element.set_tuple_name(OUT, name))
        condition, other = around
        inside, outside = coalesced(inside), coalesced(outside)
        return Site(expr, read, other, inside, outside, element, condition, exact)


def keys_of(
    program: Program,
    tree: Node,
    name: str,
    site: Site,
    path: Sequence[str],
    dims: Sequence[Dim],
    more: Sequence[str] = (),
) -> isl.Map:
    """Instance of a reader -> coordinates of the loops of the path and of `more`, then the values
    of the listed dimensions."""
    around = {x.name: x for x in loops_of(tree, name)}
    where = scope_of(program, name)
    result = isl.Map.from_domain(where.universe)
    for loop in (*path, *more):
        result = result.flat_range_product(around[loop].coords[name].as_map())
    for dim in dims:
        loop_name = dim.loop_of(name)
        if loop_name is not None and loop_name in around:
            value = around[loop_name].coords[name]
        elif loop_name is not None:
            value = where.index(where.indices[loop_name])
        else:
            value = pw_aff(dim.of_element(site.read.indices), where)
        result = result.flat_range_product(value.as_map())
    return result


@dataclass(frozen=True)
class Seen:
    """A site seen from the keys: those at which it happens, the elements that it reads there and
    the keys at which it is padded. at: the reader's indices as functions of the key, those that
    the element depends on; None where the key does not tell each of them."""

    site: Site
    keys: isl.Set
    elements: isl.Map
    pads: isl.Set
    at: Mapping[str, isl.PwAff] | None


def seen(program: Program, name: str, site: Site, key: isl.Map) -> Seen:
    """`key`: instance of the reader -> key, for the instances where the site happens."""
    keys = coalesced(key.range())
    used = {e.name for x in (*site.read.indices, site.condition) if x is not None
            for e in walk(x) if isinstance(e, Var)}  # fmt: skip
    at = _indices(program, name, key, keys, used)
    if at is None:
        back = key.reverse()
        elements = coalesced(back.intersect_range(site.inside).apply_range(site.element))
        pads = coalesced(back.intersect_range(site.outside).domain())
        return Seen(site, keys, elements, pads, None)
    where = Scope(keys.get_space(), {}, program.params, at)
    inside = keys
    if site.condition is not None:
        inside = coalesced(keys.intersect(region(site.condition, where).may))
    elements = isl.Map.from_domain(inside)
    for index in site.read.indices:
        elements = elements.flat_range_product(pw_aff(index, where).as_map())
    tuple_name = program.extents[site.read.array].get_tuple_name()
    elements = coalesced(elements.set_tuple_name(OUT, tuple_name))
    return Seen(site, keys, elements, coalesced(keys.subtract(inside)), at)


def _indices(
    program: Program, name: str, key: isl.Map, keys: isl.Set, used: Collection[str]
) -> dict[str, isl.PwAff] | None:
    result = {}
    indices = program.statements[name].indices
    for k, index in enumerate(indices):
        if index in used:
            column = key.reverse().project_out(OUT, k + 1, len(indices) - k - 1)
            column = column.project_out(OUT, 0, k)
            if not column.is_single_valued():
                return None
            value = coalesced(isl.PwMultiAff.from_map(column).gist(keys).get_at(0))
            pieces = value.get_pieces()
            if len(pieces) == 1:
                value = isl.PwAff.from_aff(pieces[0][1])
            result[index] = value
    return result


def several(
    program: Program,
    tree: Node,
    array: str,
    readers: Sequence[str],
    path: Sequence[str],
    dims: Sequence[Dim],
) -> CannotPack:
    """Why one iteration reads several elements: a loop that is missing, a window, or readers that
    differ."""

    def single(names: Sequence[str], more: Sequence[str]) -> bool:
        found = [(s, site) for s in names for site in sites(program, s, array)]
        keyed = [(keys_of(program, tree, s, x, path, dims, more), x) for s, x in found]
        reads = [k.intersect_domain(x.inside).reverse().apply_range(x.element) for k, x in keyed]
        elements = reduce(isl.Map.union, reads).intersect_params(program.context)
        pads = reduce(isl.Set.union, (k.intersect_domain(x.outside).range() for k, x in keyed))
        alone = pads.intersect_params(program.context).is_disjoint(elements.domain())
        return bool(elements.is_single_valued() and alone)

    listed = ", ".join(dim.text for dim in dims)
    where = f"at one [{listed}]"
    if path:
        where = f"in one iteration of {path[-1]} and {where}"
    for s in readers:
        if single([s], ()):
            continue
        known = {*path, *(dim.loop_of(s) for dim in dims)}
        missing = [x.name for x in loops_of(tree, s) if x.name not in known]
        if not single([s], missing):
            read = sites(program, s, array)
            places = list(dict.fromkeys(f"{array}[{_text(x.read.indices)}]" for x in read))
            what = _listing(places) if len(places) > 1 else f"several elements of {array}"
            return CannotPack(
                f"{s} reads {what} {where}, and the copy has one element there",
                f"`stage {array} at ...` copies a window",
            )
        for name in tuple(missing):
            rest = [x for x in missing if x != name]
            if single([s], rest):
                missing = rest
        if any(dim.expr is not None for dim in dims):
            return CannotPack(
                f"{s} reads several elements of {array} {where}",
                "list expressions that tell all elements apart",
            )
        verb = "is" if len(missing) == 1 else "are"
        return CannotPack(
            f"{s} reads several elements of {array} {where}: {_listing(missing)} {verb} "
            "missing from the list",
            f"list {_listing(missing)} too: [{', '.join([listed, *missing])}]",
        )
    return CannotPack(
        f"{_listing(readers)} read different elements of {array} {where}",
        f"one reader alone has a copy with `pack {readers[0]}.{array} at ...`",
    )


def _listing(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _text(indices: Sequence[Expr]) -> str:
    return ", ".join(expr_text(i) for i in indices)


def reading(program: Program, stmt: Stmt) -> isl.Set | None:
    """The instances of a copy that read, where its value asks for that by index alone; None: it
    does not ask."""
    value = stmt.value.arg if isinstance(stmt.value, Cast) else stmt.value
    if stmt.copies is None or not isinstance(value, Select):
        return None
    where, result = scope_of(program, stmt.name), stmt.domain
    while isinstance(value, Select):
        chosen = region(value.condition, where)
        if not chosen.exact:
            return None
        result = result.intersect(chosen.may)
        value = value.then
    return coalesced(result)


def read_alone(value: Expr) -> Expr:
    """What a copy writes where it reads: the value without what it asks for."""
    if isinstance(value, Cast) and isinstance(value.arg, Select):
        return Cast(value.mode, read_alone(value.arg), value.type, span=value.span)
    while isinstance(value, Select):
        value = value.then
    return value
