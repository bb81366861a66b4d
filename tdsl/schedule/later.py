"""Directives that this version does not apply: one plain sentence each, from one table."""

from __future__ import annotations

LATER: dict[str, str] = {
    "Layout": "`layout` stores an argument in another order and is not applied yet",
}
