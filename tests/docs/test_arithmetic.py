"""The table of arithmetic in docs/language.md, in the interpreter and compiled."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tdsl
from tests.docs.pages import ROOT

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "i8": np.int8,
    "i32": np.int32,
    "u8": np.uint8,
    "u32": np.uint32,
}
_ROW = re.compile(
    r"^\| (?P<of>\w+)(?: to (?P<to>\w+))? \| `(?P<text>[^`]*)` \| (?P<a>\S+) \| (?P<b>\S*) ?\| "
    r"(?P<result>\S+) \|$",
    re.MULTILINE,
)


def rows() -> list[re.Match[str]]:
    text = (ROOT / "docs" / "language.md").read_text("utf-8")
    return list(_ROW.finditer(text[text.index("\n## Arithmetic") : text.index("\n## What is")]))


def program() -> str:
    """One kernel with an output for each row."""
    ins, outs, equations = [], [], []
    for n, row in enumerate(rows()):
        text = re.sub(r"\b([ab])\b", rf"\g<1>{n}", row["text"])
        ins += [f"    in {name}{n}: {row['of']}" for name in "ab" if row[name]]
        outs.append(f"    out y{n}: {row['to'] or row['of']}")
        equations.append(f"    y{n} = {text}")
    return "kernel table() {\n" + "\n".join((*ins, *outs, *equations)) + "\n}\n"


def values() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n, row in enumerate(rows()):
        made = TYPES[row["of"]]
        for name in "ab":
            if text := row[name]:
                found[f"{name}{n}"] = made(float(text)) if made is np.float32 else made(int(text))
    return found


def hold(results: Any) -> None:
    for n, row in enumerate(rows()):
        got = getattr(results, f"y{n}")
        expected = np.asarray(float(row["result"])).astype(TYPES[row["to"] or row["of"]])
        np.testing.assert_array_equal(got, expected, err_msg=row[0], strict=True)


def test_the_table_is_read() -> None:
    assert len(rows()) == 29


def test_the_interpreter_does_what_the_table_says() -> None:
    hold(tdsl.parse(program())["table"].reference(**values()))


@pytest.mark.parametrize("strict_fp", [False, True])
def test_compiled_code_does_what_the_table_says(strict_fp: bool) -> None:
    kernel = tdsl.parse(program())["table"]
    with pytest.warns(tdsl.CompileWarning, match="program's own order"):
        fast = kernel.compile(target="c", strict_fp=strict_fp)
    hold(fast(**values()))
