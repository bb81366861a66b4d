"""The status that a kernel's C function returns, in words."""

from __future__ import annotations

from tdsl.diagnostics import UnsupportedTarget
from tdsl.runtime.interface import Entry


def status_error(entry: Entry, status: int) -> Exception:
    """The exception for a status that is not 0."""
    name = entry.name
    match status:
        case 1:
            return ValueError(f"{name}: a size is negative, or too large for these arrays")
        case 2:
            stated = f": it assumes {', '.join(entry.assumptions)}" if entry.assumptions else ""
            return ValueError(f"{name}: the arguments do not satisfy the assumptions{stated}")
        case 3:
            return ValueError(f"{name}: an array's address is null or not aligned as promised")
        case 4:
            return ValueError(f"{name}: an array that is written shares memory with another")
        case 5:
            return MemoryError(f"{name}: no memory for the scratch space")
        case 6:
            return UnsupportedTarget.at(
                None,
                f"this processor lacks instructions that {name} was compiled for",
                help="compile for the target native",
            )
        case 7:
            return ValueError(f"{name}: the workspace is too small or not aligned")
        case _:
            return RuntimeError(f"{name}: the C function returned the unknown status {status}")
