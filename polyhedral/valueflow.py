"""Value flow: after instances, copies or storage changed, every read still gets the same value.

base:  for i { P: p[i] = x[i] }  for i { C: y[i] = p[i] + p[i + 1] }
final: for io { for i in 8 io..8 io + 9 { P: q[i - 8 io] = x[i] }  for ii { C: ... q[...] ... } }

Every final instance stands for one of the base (`Stmt.origin`) or is a pure copy. Shown is, in the
order of the final tree:

1. What the place that is read holds is what was written last to the element that it stands for.
   The write says for which: an element of the base, not of memory. A copy is a fresh one: between
   it and the read, nothing else writes that element. By induction over time no chain of copies
   has to be followed, however long: every copy reads under the same condition.
2. The last definition of that element before the read stands for the last one in the base, and
   the updates since then are those of the base, each once.
3. Of two updates that may not change places, the first in the base is first.

The end of the program reads all that arguments hold. So instances that matter run, and values
agree by induction over the reads. Arrays that no placement touched are left to `in_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.edit import find
from tdsl.polyhedral.flowgroup import Group
from tdsl.polyhedral.flowholds import Holds
from tdsl.polyhedral.flowmatch import matched
from tdsl.polyhedral.flowparts import Elsewhere, Side, groups, in_order, unmoved
from tdsl.polyhedral.flowreads import Reader
from tdsl.polyhedral.flowterms import Terms
from tdsl.polyhedral.flowtext import FlowChanged, changed
from tdsl.polyhedral.lastwrites import Clock, Inconsistent
from tdsl.polyhedral.legality import check_once
from tdsl.polyhedral.program import Program, accesses_to
from tdsl.polyhedral.samevalue import OtherValue
from tdsl.polyhedral.tree import Loop, Node, Seq, statements

__all__ = ["FlowChanged", "check"]

Named = tuple[str, str]  # a loop: a statement below it, and its name


@bounded("whether every read still gets its value")
def check(
    base: Program,
    base_tree: Node,
    final: Program,
    final_tree: Node,
    reassociate: frozenset[str] = frozenset(),
    *,
    private: Mapping[str, Sequence[Named]] | None = None,
    strict_fp: bool = False,
) -> None:
    """Raises FlowChanged where a read of the final program gets another value than in the base,
    or where that is not seen; BudgetExceeded if undecided.

    Both trees have the first terms of reductions in their places. private: array -> the loops
    in each of whose iterations its memory is new.
    """
    homes = _homes(final_tree, private or {})
    old, new = Side(base, {}), Side(final, homes)
    before, after = Clock(base, base_tree), Clock(final, final_tree)
    try:
        found = matched(base, final, after)
        _placed(final, final_tree, found.changed)
        reader = Reader(old, before, new, after, found)
        for arrays in groups(final):
            first = next(iter(arrays))
            same = unmoved(base, new, found.origins, first) if len(arrays) == 1 else None
            if same is not None:
                if not any(s.write.array == first for s in base.statements.values()):
                    continue
                sides = (base, base_tree, final, final_tree)
                if in_order(*sides, first, same, found.origins, reassociate, strict_fp):
                    continue
            if len(arrays) == 1 and _data_decide(base, final, first):
                continue
            group = Group(old, before, new, after, arrays, found, reader.reads(arrays))
            _through(group, Terms(group, reassociate, strict_fp))
    except (OtherValue, Elsewhere, Inconsistent) as error:
        raise FlowChanged(str(error)) from None


def _data_decide(base: Program, final: Program, array: str) -> bool:
    """Whether data decide which elements of a `for` body's temp are touched, by statements that
    no placement made. Then no write is known to be the last one; its memory was chosen for this
    order with all dependences that it adds (`tdsl.polyhedral.fresh`), so nothing is left to show.
    """
    if array not in base.arrays or base.arrays[array].local is None:
        return False
    users = [s for s in final.statements.values() if accesses_to(s, array)]
    inexact = any(not a.exact for s in users for a in accesses_to(s, array))
    return inexact and all(s.origin is None and s.copies is None for s in users)


def _through(group: Group, terms: Terms) -> None:
    """Value flow through one group of arrays."""
    base = group.old.program.statements.values()
    for stmt in (*group.writers, *(s for s in base if s.write.array in group.bases)):
        if not stmt.write.exact:
            raise FlowChanged(f"data decide which elements {stmt.name} updates", stmt.name)
    holds = Holds(group)
    for read in group.reads:
        if group.constant and group.written(read):
            continue
        if read.kind != "copy":
            without = holds.without(read)
            if not without.is_empty():
                raise changed(group, read, without)
        if read.base is not None:
            other = terms.other(read, holds.wanted(read))
            if other is not None:
                raise changed(group, read, other)
    for array in group.bases:
        terms.check_order(array)


def _homes(tree: Node, private: Mapping[str, Sequence[Named]]) -> dict[str, tuple[Loop, ...]]:
    return {array: tuple(find(tree, *at) for at in named) for array, named in private.items()}


def _placed(final: Program, tree: Node, names: Iterable[str]) -> None:
    """Every statement stands in the tree once, what is prepared before all else."""
    for violation in check_once(final, tree, names):
        raise FlowChanged(f"{violation.source} does not run exactly once")
    if not final.prepared:
        return
    children: Iterable[Node] = tree.children if isinstance(tree, Seq) else (tree,)
    late = False
    for child in children:
        for name in statements(child):
            first = name in final.prepared or final.statements[name].init_of in final.prepared
            if first and late:
                raise FlowChanged(f"{name} is prepared, but stands behind what is not")
            late = late or not first
    for stmt in final.statements.values():
        first = stmt.name in final.prepared or stmt.init_of in final.prepared
        if final.arrays[stmt.write.array].role == "prepared" and not first:
            raise FlowChanged(f"{stmt.name} writes {stmt.write.array}, which is prepared once")
