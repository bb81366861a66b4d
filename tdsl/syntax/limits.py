"""Reductions over temps that are defined in a part of their dimensions.

    s[i, j] = ...             where j <= i
    m[i]    = max[j](s[i, j])

`m` has the terms with j <= i: a term that would read an element of which the `where` of its
definition says that there is none is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tdsl.ir.kernel import Array
from tdsl.syntax import tree
from tdsl.syntax.drafts import Draft, array_name, names_in
from tdsl.syntax.expand import children, rebuild


def limited(drafts: Sequence[Draft], declared: Mapping[str, Array]) -> list[Draft]:
    """The drafts, reductions with the conditions that their temps are defined under."""
    kept = {name for name, a in declared.items() if a.role != "temp"}
    parts = {n: d for n, d in _partly_defined(drafts).items() if n not in kept}
    return [_limited(d, parts) if d.ranges and parts else d for d in drafts]


def _partly_defined(drafts: Sequence[Draft]) -> dict[str, Draft]:
    """Arrays with one definition, indexed by plain names, that has a `where`."""
    definitions: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.op == "define":
            definitions.setdefault(draft.array, []).append(draft)
    return {
        name: found[0]
        for name, found in definitions.items()
        if len(found) == 1 and found[0].where and _plain(found[0].subscript) is not None
    }


def _plain(indices: Sequence[tree.Expr]) -> tuple[str, ...] | None:
    names = tuple(i.id for i in indices if isinstance(i, tree.Name))
    return names if len(names) == len(indices) == len(set(names)) else None


def _limited(draft: Draft, parts: Mapping[str, Draft]) -> Draft:
    limits = list(draft.limits)
    for term in (draft.value, *draft.also):
        for access in _certain(term):
            source = parts.get(array_name(access) or "")
            names = _plain(access.indices)
            if source is None or names is None or source.name == draft.name:
                continue
            if draft.nest[: len(source.nest)] != source.nest or not {*names} <= {*draft.order}:
                continue
            own = dict(zip(_plain(source.subscript) or (), access.indices, strict=True))
            for condition in source.where:
                here = _renamed(condition, own)
                if names_in(here) & set(draft.reduced) and here not in limits:
                    limits.append(here)
    return replace(draft, limits=tuple(limits))


def _certain(expr: tree.Expr) -> Iterator[tree.Subscript]:
    """Elements that every term reads: those that `select` and `padded` choose are apart."""
    match expr:
        case tree.Call("select", (condition, *_)):
            yield from _certain(condition)
        case tree.Call("padded" | "inside"):
            return
        case tree.Subscript():
            yield expr
            for index in expr.indices:
                yield from _certain(index)
        case _:
            for child in children(expr):
                yield from _certain(child)


def _renamed(expr: tree.Expr, names: Mapping[str, tree.Expr]) -> tree.Expr:
    if isinstance(expr, tree.Name):
        return names.get(expr.id, expr)
    return rebuild(expr, lambda e: _renamed(e, names))
