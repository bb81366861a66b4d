"""Reading what a user names as a kernel file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 4_000_000  # bytes: what the parser takes at most, in UTF-8


def read_source(path: str) -> tuple[str, str]:
    """(name for messages, text) of a file; `-` is standard input.

    Raises OSError where it cannot be read, and UnicodeDecodeError (a ValueError) where it is no
    text. No more is read than could be parsed, so that an endless file ends.
    """
    if path == "-":
        return "<stdin>", sys.stdin.buffer.read(LONGEST + 1).decode()
    with Path(path).open("rb") as file:
        return path, file.read(LONGEST + 1).decode()


def module_name(source: str) -> str:
    """The name of the C files that are made of a source: its stem, as a plain file name."""
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(source).stem).lstrip(".-")
    return "stdin" if source == "<stdin>" else stem or "kernels"
