"""Where a computed array lives: a box for one iteration of its home loop, a ring, a layout.

before: for io { for i in 8 io..8 io + 10 { P: p[i] = x[i] }  for ii { C: y[ii] = p[ii + 2] } }
after   `localize` at io: the same over q[0..10], P: q[i - 8 io] = x[i], C: y[ii] = q[ii + 2 - 8 io]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tdsl.polyhedral.box import MOST_BYTES, Box, CannotPlace, Layout, box, touched
from tdsl.polyhedral.budget import bounded
from tdsl.polyhedral.program import Program, accesses_to
from tdsl.polyhedral.tree import Loop, Node, statements


@bounded("the memory of a computed array")
def localize(
    program: Program,
    tree: Node,
    array: str,
    home: tuple[Loop, ...],
    *,
    fold: Mapping[int, int] | None = None,
    layout: Layout | None = None,
    memory: str | None = None,
) -> Program:
    """The program with the array in memory of its own in each iteration of the last loop of
    `home`, the loops from the root; () is one for all time, of the extents that it has.

    `tree` has the first terms of reductions in their places; its loops may be those of `home`.
    `fold`: dimension -> length of its ring (whether that is long enough is for
    `tdsl.polyhedral.rings` to say); memory: as in `role_of`. Raises CannotPlace.
    """
    users = [s for s in program.statements.values() if accesses_to(s, array)]
    found = None
    if home:
        below = set(statements(home[-1].body))
        outside = [s.name for s in users if s.name not in below]
        if outside:
            raise CannotPlace(f"{outside[0]} uses {array} outside {home[-1].name}")
        accesses = [(s, a) for s in users for a in accesses_to(s, array)]
        found = touched(program, home, array, accesses)
    tuple_name = program.extents[array].get_tuple_name()
    smaller = box(
        program, array, home, found, name=array, tuple_name=tuple_name, fold=fold, layout=layout
    )
    prepared = any(s.write.array == array and s.name in program.prepared for s in users)
    role = "prepared" if prepared else role_of(smaller, memory, at_root=not home)
    changed = {s.name: smaller.redirected(s) for s in users}
    elements = smaller.elements
    for stmt in changed.values():
        for access in accesses_to(stmt, array):
            assert access.map.range().intersect_params(program.context).is_subset(elements), array
    return replace(
        program,
        statements={n: changed.get(n, s) for n, s in program.statements.items()},
        arrays={**program.arrays, array: smaller.array(role)},
        extents={**program.extents, array: elements},
    )


def role_of(smaller: Box, memory: str | None, *, at_root: bool = False) -> str:
    """Where a box is: "stack" where it is small, else "scratch"; at the root "temp".

    memory: "stack" (must be small), "registers" (the same: its elements get there later),
    "scratch" and "heap" (the workspace), or None. Raises CannotPlace.
    """
    count = smaller.bytes
    if memory in ("stack", "registers"):
        if count is None:
            raise CannotPlace(
                "its extents are not constant",
                "split the loops that index it and go inside one, or leave it to the workspace: "
                "`in scratch`",
            )
        if count > MOST_BYTES:
            raise CannotPlace(
                f"it takes {count} bytes, and {MOST_BYTES} is the limit",
                "make the blocks smaller, or leave it to the workspace: `in scratch`",
            )
        return "stack"
    if at_root:
        return "temp"
    small = memory is None and count is not None and count <= MOST_BYTES
    return "stack" if small else "scratch"
