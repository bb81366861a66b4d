"""Writes what a user asked for beside the sources: C, header, object, library, assembly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tdsl.runtime.build import assembly, build_object, build_shared
from tdsl.runtime.files import write_atomically
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.toolchain import find_compiler

KINDS = {"c": ".c", "h": ".h", "o": ".o", "so": ".so", "asm": ".s"}


def emit(request: BuildRequest, folder: Path, kinds: Sequence[str]) -> list[Path]:
    """Write NAME.c, NAME.h, NAME.o, NAME.so, NAME.s to `folder`, in the order of `kinds`.

    A compilation that fails is an error after the sources were written, which help to see why;
    where there is no compiler at all, nothing is written.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"there is no output {unknown[0]!r}; there are {', '.join(KINDS)}")
    if not {"c", "h"}.issuperset(kinds):
        find_compiler(request)
    for kind in sorted(kinds, key=list(KINDS).index):
        path = _path(request, folder, kind)
        match kind:
            case "c":
                write_atomically(path, request.c_source)
            case "h":
                write_atomically(path, request.header)
            case "o":
                build_object(request, path)
            case "so":
                build_shared(request, path)
            case _:
                write_atomically(path, assembly(request))
    return [_path(request, folder, kind) for kind in kinds]


def _path(request: BuildRequest, folder: Path, kind: str) -> Path:
    return folder / f"{request.name}{KINDS[kind]}"
