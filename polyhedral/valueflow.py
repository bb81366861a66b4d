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
from tdsl.polyhedral.flowparts import Elsewhere, Side, groups, in_order, unmoved
from tdsl.polyhedral.flowreads import Reads, matched
from tdsl.polyhedral.flowtext import FlowChanged
from tdsl.polyhedral.lastwrites import Clock
from tdsl.polyhedral.legality import check_once
from tdsl.polyhedral.program import Program
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
        reads = matched(old, before, new, after)
        _placed(final, final_tree, reads)
        for arrays in groups(final):
            first = next(iter(arrays))
            if len(arrays) == 1 and unmoved(base, new, first):
                if not any(s.write.array == first for s in base.statements.values()):
                    continue
                given = (first, reassociate, strict_fp)
                if in_order(base, base_tree, final, final_tree, *given):
                    continue
            Group(old, before, new, after, arrays, reads, reassociate, strict_fp).check()
    except (OtherValue, Elsewhere) as error:
        raise FlowChanged(str(error)) from None


def _homes(tree: Node, private: Mapping[str, Sequence[Named]]) -> dict[str, tuple[Loop, ...]]:
    return {array: tuple(find(tree, *at) for at in named) for array, named in private.items()}


def _placed(final: Program, tree: Node, reads: Reads) -> None:
    """Every statement stands in the tree once, what is prepared before all else."""
    for violation in check_once(final, tree, reads.changed):
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
