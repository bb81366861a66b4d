"""The parser that lark makes of `grammar/tdsl.lark`, made once and kept between runs.

Building the tables takes a fifth of a second, loading them a tenth of that. They are kept in a
folder that only the user can write (they are a pickle), under a name that is a digest of what
they are made from; a file is complete or absent, so that processes may race. Where there is no
such folder the tables are built anew.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import stat
import sys
import tempfile
from importlib import resources
from pathlib import Path

import lark

from tdsl.syntax.lexer import TdslLexer

START = ("file", "directives", "expression")


@functools.cache
def parser() -> lark.Lark:
    """The parser for each of `START`."""
    text = grammar()
    folder = cache_folder()
    if folder is None:
        return _build(text)
    key = "\0".join((text, lark.__version__, sys.version, *START))
    path = folder / f"grammar-{hashlib.sha256(key.encode()).hexdigest()[:32]}.pickle"
    return _load(path) or _build_and_keep(text, path)


def grammar() -> str:
    """The text of the grammar file."""
    return resources.files("tdsl.grammar").joinpath("tdsl.lark").read_text(encoding="utf-8")


def spellings() -> dict[str, str]:
    """How the grammar's keywords and signs are written, by the names that lark gives them."""
    terminals = parser().terminals
    return {t.name: t.pattern.value for t in terminals if t.pattern.type == "str"}


def cache_folder() -> Path | None:
    """The user's own folder for the tables, made if absent; None if it is not private."""
    base = os.environ.get("TDSL_CACHE_DIR")
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) if base else Path(root) / "tdsl"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return None if shared or status.st_uid != os.getuid() else folder


def _load(path: Path) -> lark.Lark | None:
    try:
        data = path.read_bytes()
        digest, tables = data[:32], data[32:]
        if hashlib.sha256(tables).digest() != digest:
            return None
        return lark.Lark.load(io.BytesIO(tables))
    except Exception:  # whatever is wrong with a cached file, building anew is right
        return None


def _build_and_keep(text: str, path: Path) -> lark.Lark:
    made = _build(text)
    buffer = io.BytesIO()
    made.save(buffer)
    tables = buffer.getvalue()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(tables).digest() + tables)
        os.replace(name, path)
    except OSError:
        pass
    return made


def _build(text: str) -> lark.Lark:
    return lark.Lark(
        text,
        parser="lalr",
        lexer=TdslLexer,
        start=list(START),
        propagate_positions=True,
        maybe_placeholders=True,
    )
