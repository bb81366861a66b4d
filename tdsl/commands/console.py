"""What the commands write: diagnostics and progress to standard error, results to standard output.

Colour and progress are for a terminal alone, and NO_COLOR takes the colour away.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import unicodedata
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from tdsl.diagnostics import Diagnostic, render

PATIENCE = 1.0  # seconds of silence before progress is shown

_STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
    "help": "bold green",
}


def show(diagnostics: Iterable[Diagnostic]) -> None:
    """Diagnostics in their order, to standard error."""
    for diagnostic in diagnostics:
        write(render(diagnostic))


def write(text: str) -> None:
    """A message to standard error, its first words in colour on a terminal."""
    text = harmless(text)
    if not on_terminal() or os.environ.get("NO_COLOR"):
        sys.stderr.write(text + "\n")
        return
    painted = Text()
    for line in text.split("\n"):
        painted.append(_painted(line)).append("\n")
    Console(stderr=True, soft_wrap=True, highlight=False).print(painted, end="")


def _painted(line: str) -> Text:
    word = line.split(":")[0].split("[")[0]
    if word in _STYLES and ":" in line:
        head = line.index(":") + 1
        return Text.assemble((line[:head], _STYLES[word]), (line[head:], "bold"))
    bare = line.strip()
    if bare.startswith("--> "):
        return Text(line, "blue")
    if bare.startswith("|") and bare.strip("|^ \t") == "":
        return Text(line, "red")
    return Text(line)


def on_terminal() -> bool:
    """Whether a person looks at standard error."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """The text without what a terminal would obey: a source may hold escape sequences, and marks
    that turn the direction of writing. One character stays one, for the carets' sake."""
    return "".join(_harmless(c) for c in text)


def _harmless(character: str) -> str:
    code = ord(character)
    if character in "\n\t" or character.isprintable():
        return character
    if code < 0x20:
        return chr(0x2400 + code)  # the pictures of control characters
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Tell on a terminal what takes so long, once it does."""
    if not on_terminal():
        yield
        return
    status = Console(stderr=True).status(what)
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
