"""Arguments that a schedule stores in another order.

before: S: y[n, c] = x[n, c]           x is N x C
after:  S: y[n, c] = x[n, c // 16, c % 16]   under `layout x[n, c] as [n, c // 16, c % 16]`

The last change of a program: all above it speaks of an argument's own indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tdsl.lower.storage import Stored
from tdsl.polyhedral.box import Layout, box
from tdsl.polyhedral.program import Program, accesses_to
from tdsl.polyhedral.rebuild import Miscompiled
from tdsl.polyhedral.samevalue import says_so


def with_layouts(stored: Stored, layouts: Mapping[str, Layout]) -> Stored:
    """The same with these arguments in their storage order."""
    program = stored.program
    for array, layout in layouts.items():
        program = _with_layout(program, array, layout)
    return stored if program is stored.program else replace(stored, program=program)


def _with_layout(program: Program, array: str, layout: Layout) -> Program:
    source, old = program.arrays[array], program.extents[array]
    tuple_name = old.get_tuple_name()
    whole = box(program, array, (), None, name=array, tuple_name=tuple_name, layout=layout)
    made = replace(source, shape=whole.shape, groups=(), layout=(layout.names, layout.storage))
    result = replace(
        program,
        statements={n: whole.redirected(s) for n, s in program.statements.items()},
        arrays={**program.arrays, array: made},
        extents={**program.extents, array: whole.elements},
    )
    for stmt in result.statements.values():
        for access in accesses_to(stmt, array):
            if not says_so(result, stmt, access):
                raise Miscompiled(f"{stmt.name} does not find {array} where it is laid out")
    return result
