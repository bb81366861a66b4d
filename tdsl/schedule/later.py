"""Directives that this version does not apply: one plain sentence each, from one table."""

from __future__ import annotations

LATER: dict[str, str] = {
    "Layout": "`layout` stores an argument in another order and is not applied yet",
    "Prefetch": "`prefetch` asks for the lines of a later iteration and is not applied yet",
    "Stream": "`stream` writes past the caches and is not applied yet",
    "Transpose": "`transpose` turns a small copy in registers and is not applied yet",
}
