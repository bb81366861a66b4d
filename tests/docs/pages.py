"""Fenced blocks of the documents, and what their first line says about them.

    ```tdsl [error] [file=NAME]    a whole file; `error`: it must be refused
    ```text STAGE [TARGET [V]]     what `tdsl show` prints of the file above (or part of it, where
                                   lines `...` stand for what is left out)
    ```text                        behind `tdsl error`: what is said about that file
    ```c [TARGET [V]]              lines that stand together in the C of the file above
    ```c header                    the same, in its header
    ```console [error]             commands behind `$` and what they print; `error`: status 1
    ```python                      run as it stands, beside the files named so far

A page is read from above, and names what it needs before it uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("kernel", "program", "tree", "loops", "vector")
_FENCE = re.compile(r"^```(?P<info>[a-z][^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is where its text starts."""

    page: str
    line: int
    kind: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str:
        """The name that the page gives the file, or one for messages."""
        named = [w.removeprefix("file=") for w in self.words if w.startswith("file=")]
        return named[0] if named else "example.tdsl"

    @property
    def is_error(self) -> bool:
        return self.kind == "tdsl" and "error" in self.words


def pages() -> list[Path]:
    """Every page of the reference, and the pages at the root."""
    names = ("README.md", "ARCHITECTURE.md")
    return [*(ROOT / name for name in names), *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    text = page.read_text("utf-8")
    return [
        Block(
            page.relative_to(ROOT).as_posix(),
            text.count("\n", 0, m.start()) + 2,
            m["info"].split()[0],
            tuple(m["info"].split()[1:]),
            m["body"],
        )
        for m in _FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page)]


def with_source() -> Iterator[tuple[Block, Block]]:
    """(file, output) for every block that quotes what is made of the file above it."""
    for page in pages():
        source: Block | None = None
        for block in blocks_of(page):
            if block.kind == "tdsl":
                source = block
            elif source is not None and (block.kind == "c" or _is_output(block, source)):
                yield source, block


def _is_output(block: Block, source: Block) -> bool:
    if block.kind != "text":
        return False
    if source.is_error:
        return not block.words
    return block.words[:1] != () and block.words[0] in STAGES


def agrees(said: str, quoted: str) -> bool:
    """Whether the quotation is what was said; a line `...` stands for any lines left out."""
    parts = re.split(r"^[ \t]*\.\.\.\n", quoted, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*?".join(re.escape(p).replace(r"\.\.\.", ".*") for p in parts)
    return re.fullmatch(pattern, said) is not None


def function_of(c_source: str) -> str:
    """The function of the kernel, without the entry that checks its arguments."""
    start = c_source.rindex("\n", 0, c_source.index("_run(")) + 1
    return c_source[start : c_source.index("\n}\n", start) + 3]


def replace_block(block: Block, text: str) -> None:
    """Put other text into a block of its page."""
    path = ROOT / block.page
    lines = path.read_text("utf-8").splitlines(keepends=True)
    start = block.line - 1
    end = start + len(block.text.splitlines())
    lines[start:end] = text.splitlines(keepends=True)
    path.write_text("".join(lines), "utf-8")
