"""Unrolled sums with constant coefficients, under `reassociate`, become short straight-line code.

before: V_r0 = 0; V_r0 := fma(4, x_0, V_r0); V_r0 := fma(0, x_1, V_r0); V_r0 := fma(-5, x_2, V_r0)
after:  V_r0 = fnma(5, x_2, mul(4, x_0))

What registers hold at the end of a run of straight-line code is a linear form of what the run
loads (`tdsl.lower.linear`). A coefficient 0 drops its term, 1 and -1 add, and sums that share
terms share sub-sums. Sums that share nothing follow each other, each behind its loads and before
its stores, so that few registers are live. The instances of the sums are no longer told apart, so
the code as it was before is what is checked against them; here the forms are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tdsl.ir import vector as v
from tdsl.ir.kernel import Const, Read
from tdsl.ir.kernel import walk as walk_expr
from tdsl.ir.walk_vector import item_values, operands, values_in, with_blocks
from tdsl.ir.walk_vector import items as walk
from tdsl.lower.builder import Names, apart, buffers, rebuild
from tdsl.lower.linear import (
    Form,
    NotLinear,
    has_coefficient,
    linear,
    representable,
    shared,
    value_of,
)
from tdsl.polyhedral.program import Program

STRAIGHT = (v.Let, v.Declare, v.Assign, v.Store)


def sums_of_constants(program: Program, reassociate: frozenset[str]) -> frozenset[str]:
    """Those of the statements that multiply by constants, with their first terms."""
    found = set()
    for name in reassociate:
        stmt = program.statements.get(name)
        parts = [] if stmt is None or stmt.value is None else list(walk_expr(stmt.value))
        tables = (e for e in parts if isinstance(e, Read))
        if any(isinstance(e, Const) and e.type.is_float for e in parts) or any(
            program.arrays[e.array].values is not None for e in tables
        ):
            found |= {name, f"{name}.init"}
    return frozenset(found)


@dataclass(frozen=True)
class Folder:
    """statements: those whose order of terms may change, and their first terms."""

    statements: frozenset[str]
    fma: bool

    def fold(self, block: v.Block, names: Names) -> v.Block:
        """The block with all such sums folded; the same one where there are none."""
        items = self._flat(block, names)
        result: list[v.Item] = []
        seen = 0
        for run in _runs(items):
            if not isinstance(run, list):
                seen += 1
                result.append(self._inside(run, names))
                continue
            for part in _parts(run):
                seen += len(part)
                if not any(self.may(i) for i in part):
                    result += part
                    continue
                later = _used(v.Block(tuple(items[seen:])))
                result += _Run(self, part, names, later).folded()
        same = len(result) == len(block.items) and all(
            a is b for a, b in zip(result, block.items, strict=True)
        )
        return block if same else v.Block(tuple(result))

    def _inside(self, item: v.Item, names: Names) -> v.Item:
        return with_blocks(item, lambda block: self.fold(block, names.inside()))

    def _flat(self, block: v.Block, names: Names) -> list[v.Item]:
        """The items, those of straight-line blocks with such sums under names of their own."""
        result: list[v.Item] = []
        for item in block.items:
            if isinstance(item, v.Block) and self._sums(item):
                result += _renamed(item, names)
            else:
                result.append(item)
        return result

    def _sums(self, block: v.Block) -> bool:
        return all(isinstance(i, STRAIGHT) for i in block.items) and any(
            self.may(i) for i in block.items
        )

    def may(self, item: v.Item) -> bool:
        """Whether an item writes terms that may be added in any order."""
        match item:
            case v.Declare(origin=v.Origin(name)) | v.Assign(origin=v.Origin(name)):
                return name in self.statements
            case _:
                return False


def _runs(items: Sequence[v.Item]) -> Iterator[list[v.Item] | v.Item]:
    run: list[v.Item] = []
    for item in items:
        if isinstance(item, STRAIGHT):
            run.append(item)
            continue
        if run:
            yield run
        run = []
        yield item
    if run:
        yield run


def _renamed(block: v.Block, names: Names) -> list[v.Item]:
    defined = [i.name for i in block.items if isinstance(i, v.Let | v.Declare)]
    new = {name: names.fresh(name.rpartition("_")[0] or name) for name in defined}
    result: list[v.Item] = []
    for item in block.items:
        item = _with_names(item, new)
        if isinstance(item, v.Let | v.Declare | v.Assign):
            item = replace(item, name=new.get(item.name, item.name))
        result.append(item)
    return result


def _with_names(item: v.Item, new: Mapping[str, str]) -> v.Item:
    """The item with other names for the variables that it reads."""

    def value(old: v.Value) -> v.Value:
        if isinstance(old, v.Ref):
            return v.Ref(new[old.name], old.type) if old.name in new else old
        return rebuild(old, [value(a) for a in operands(old)])

    match item:
        case v.Let() | v.Assign():
            return replace(item, value=value(item.value))
        case v.Declare() if item.value is not None:
            return replace(item, value=value(item.value))
        case v.Store():
            mask = None if item.mask is None else value(item.mask)
            return replace(item, value=value(item.value), mask=mask)
        case _:
            return item


def _used(block: v.Block) -> frozenset[str]:
    """Names of the variables that some code reads or assigns to."""
    inside = list(walk(block))
    return _references(inside) | {i.name for i in inside if isinstance(i, v.Assign)}


def _references(items: Iterable[v.Item]) -> frozenset[str]:
    """Names of the variables that some items read."""
    values = (x for item in items for top in item_values(item) for x in values_in(top))
    return frozenset(x.name for x in values if isinstance(x, v.Ref))


def _parts(run: list[v.Item]) -> Iterator[list[v.Item]]:
    """The run in parts that load from no buffer that they store to."""
    part: list[v.Item] = []
    loaded: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    for item in run:
        reads = frozenset(b for value in item_values(item) for b in buffers(value))
        writes = frozenset([item.buffer]) if isinstance(item, v.Store) else frozenset()
        if (reads & stored) or (writes & (loaded | reads)):
            start = len(part)
            while start and isinstance(part[start - 1], v.Declare):
                start -= 1  # registers begin where their sums do
            yield part[:start]
            part, loaded, stored = part[start:], frozenset(), frozenset()
        part.append(item)
        loaded, stored = loaded | reads, stored | writes
    yield part


# ---------------------------------------------------------------- one run


@dataclass(frozen=True)
class _Uses:
    """stores: of a register, which may move behind its sum; first_read: where else it is read."""

    stores: Sequence[int]
    first_read: int


class _Run:
    """Straight-line items; their loads give the same wherever they stand.

    later: names of variables that are read behind the run.
    """

    def __init__(
        self, folder: Folder, items: list[v.Item], names: Names, later: frozenset[str]
    ) -> None:
        self._folder = folder
        self._original = items
        self._items = _made_once(items, later)
        self._names = names
        self._later = later
        self._made: set[str] = set()
        self._sums: set[str] = set()  # registers that are declared with all of their sum
        self._writes: dict[str, list[int]] = {}
        for k, item in enumerate(self._items):
            if isinstance(item, v.Declare | v.Assign):
                self._writes.setdefault(item.name, []).append(k)

    def folded(self) -> list[v.Item]:
        forms = {n: f for n in self._writes if (f := self._form(n)) is not None}
        uses = {n: self._uses(n) for n in forms}
        while True:
            groups = _groups(forms)
            ends = {n: max(self._writes[m][-1] for m in g) for g in groups for n in g}
            early = {n for n in forms if uses[n].first_read <= ends[n]}
            if not early:
                break
            forms = {n: f for n, f in forms.items() if n not in early}
        if not forms:
            return self._original
        stores = {n: uses[n].stores for n in forms}
        made = {ends[g[0]]: self._computed(g, forms, stores) for g in groups}
        gone = {k for n in forms for k in (*self._writes[n], *stores[n])}
        result: list[v.Item] = []
        for k, item in enumerate(self._items):
            if k not in gone:
                result.append(item)
            result += made.get(k, ())
        self._compare(forms, result)
        return self._on_demand(result)

    # ---------------------------------------------------------------- which registers

    def _form(self, name: str) -> Form | None:
        """What a register of such sums holds at the end; None for others."""
        items = [self._items[k] for k in self._writes[name]]
        begun = isinstance(items[0], v.Declare) and items[0].origin is None
        sums = items[1:] if begun else items
        values = [x for i in items for x in item_values(i)]
        if not sums or not all(self._folder.may(i) for i in sums) or len(values) != len(items):
            return None
        elem = values[0].type.elem
        if not elem.is_float or elem.bits < 32 or not any(has_coefficient(x) for x in values):
            return None
        here: dict[str, Form] = {}
        try:
            for value in values:
                here[name] = linear(value, here)
        except NotLinear:
            return None
        form = here[name]
        changing = self._writes.keys() - ({name} if isinstance(items[0], v.Assign) else set())
        names = {x.name for top in form for x in values_in(top) if isinstance(x, v.Ref)}
        if names & changing or not all(representable(c, elem) for c in form.values()):
            return None
        return form

    def _uses(self, name: str) -> _Uses:
        """Where a register is read, but for its own sum."""
        own = set(self._writes[name])
        stores, first = [], len(self._items)
        for k, item in enumerate(self._items):
            if k in own or name not in _references([item]):
                continue
            moves = (
                isinstance(item, v.Store)
                and item.value == v.Ref(name, item.value.type)
                and self._alone(item)
            )
            if moves and k > max(own):
                stores.append(k)
            else:
                first = min(first, k)
        return _Uses(stores, first)

    def _alone(self, store: v.Store) -> bool:
        """Whether no other store here may go to the same element."""
        return all(
            other is store or other.buffer != store.buffer or apart(other, store)
            for other in self._items
            if isinstance(other, v.Store)
        )

    # ---------------------------------------------------------------- new code

    def _computed(
        self, group: Sequence[str], forms: Mapping[str, Form], stores: Mapping[str, Sequence[int]]
    ) -> list[v.Item]:
        """The sums of registers that share terms, each with its stores."""
        first = self._items[self._writes[group[0]][0]]
        (some,) = item_values(first)
        type, fma = some.type, self._folder.fma
        made, rows = shared(
            [forms[n] for n in group], type.elem, lambda: v.Ref(self._names.fresh("t"), type)
        )
        self._made.update(r.name for r, _ in made)
        result: list[v.Item] = [v.Let(r.name, value_of(f, type, fma=fma)) for r, f in made]
        for name, row in zip(group, rows, strict=True):
            value, old = value_of(row, type, fma=fma), self._items[self._writes[name][0]]
            if isinstance(old, v.Declare):
                result.append(replace(old, value=value, origin=None))
                self._sums.add(name)
            else:
                result.append(v.Assign(name, value))
            result += [self._items[k] for k in stores[name]]
        return result

    def _compare(self, forms: Mapping[str, Form], items: Sequence[v.Item]) -> None:
        """The new code computes the forms of the old one."""
        known: dict[str, Form] = {}
        for item in items:
            if isinstance(item, v.Let) and item.name in self._made:
                known[item.name] = linear(item.value, known)
            elif isinstance(item, v.Declare | v.Assign) and item.name in forms:
                (value,) = item_values(item)
                if linear(value, known) != forms[item.name]:
                    raise AssertionError(f"{item.name} is another sum than before")

    def _on_demand(self, items: list[v.Item]) -> list[v.Item]:
        """The same items, with names made just before they are read first, if they are."""
        moving = {
            i.name: i
            for i in items
            if (isinstance(i, v.Let) and not _references([i]) & self._writes.keys())
            or (isinstance(i, v.Declare) and i.name in self._sums)
        }
        result: list[v.Item] = []

        def need(item: v.Item) -> None:
            for name in _ordered(item):
                if name in moving:
                    need(moving.pop(name))
            result.append(item)

        done = set(moving)
        for item in items:
            if not isinstance(item, v.Let | v.Declare) or item.name not in done:
                need(item)
        for name in [n for n in moving if n in self._later]:
            if name in moving:
                need(moving.pop(name))
        return result


def _ordered(item: v.Item) -> list[str]:
    """Names of the variables that an item reads, in order."""
    values = (x for top in item_values(item) for x in values_in(top))
    return list(dict.fromkeys(x.name for x in values if isinstance(x, v.Ref)))


def _made_once(items: Sequence[v.Item], later: frozenset[str]) -> list[v.Item]:
    """Equal values under one name, but for those that are read behind the run."""
    changing = {i.name for i in items if isinstance(i, v.Declare | v.Assign)}
    known: dict[v.Value, str] = {}
    new: dict[str, str] = {}
    result: list[v.Item] = []
    for item in items:
        item = _with_names(item, new)
        if isinstance(item, v.Let) and not _references([item]) & changing:
            first = known.setdefault(item.value, item.name)
            if first != item.name and item.name not in later:
                new[item.name] = first
                continue
        result.append(item)
    return result


def _groups(forms: Mapping[str, Form]) -> list[list[str]]:
    """The registers whose sums are linked by common terms, in order."""
    groups: list[tuple[list[str], set[v.Value]]] = []
    for name, form in forms.items():
        terms: set[v.Value] = {x for x in form if not isinstance(x, v.Const)}
        linked = [g for g in groups if g[1] & terms]
        others = [g for g in groups if not g[1] & terms]
        names = [n for g in linked for n in g[0]]
        groups = [*others, ([*names, name], terms.union(*(g[1] for g in linked)))]
    return [names for names, _ in groups]
