"""Generated assembly read for what a performance engineer looks for: loops, and what they do.

The compiler writes it with line marks (`-g1`) and notes of its own (`-fverbose-asm`). A loop is the
text from a label to the last jump back to it; what stands in a loop inside it is not its own.

Intrinsics are functions of the compiler's headers, so that most instructions say a line of a
header. A loop's control does come from the C: the test and the step of `for (...)` say its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tdsl.runtime.instructions import Counts, Instruction, count

FLAGS = ("-g1", "-fverbose-asm")

_LABEL = re.compile(r"^([.\w$]+):")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_LOCAL = re.compile(r"\.?L(F[BE]|VL|BB|func_begin|func_end|C|tmp)?\d+|\.L.*")
_JUMPS = ("j", "b", "cb", "tb")  # no other instruction names a label of its function last
_INSTRUCTION = re.compile(r"^\s+([a-z][\w.]*)\s*(.*)$")
_NOISE = re.compile(
    r"^\s*\.(loc|file|cfi_\w+|addrsig\w*)\b|^\.L?(LB[BEI]|LVL|LF[BE]|Ltext|Letext)\w*:"
    r"|^#(NO_)?APP\b|^# \d+ \""  # around what is written in assembly
)
_ECHO = re.compile(r"^\s*(#|//) (\S+):\d+:(\s*__asm__\()?")
_SECTION = re.compile(r"^\s*\.(section\s+(\S+?)(,|\s|$)|text\b|data\b|ident\b)")


@dataclass(frozen=True)
class Loop:
    """A loop of a function, or the function itself where `label` is its name: first and last row
    of its text, and the instructions that are in no loop inside it."""

    function: str
    label: str
    first: int
    last: int
    instructions: tuple[Instruction, ...]
    innermost: bool

    @property
    def is_function(self) -> bool:
        return self.label == self.function

    @property
    def lines(self) -> frozenset[int]:
        """The lines of the C file that its own instructions come from."""
        return frozenset(i.line for i in self.instructions if i.line)

    @property
    def counts(self) -> Counts:
        """Its own instructions by kind."""
        return count(self.instructions)

    def of_kind(self, kind: str) -> tuple[Instruction, ...]:
        """Its own instructions of a kind: see `Instruction.kinds`."""
        return tuple(i for i in self.instructions if kind in i.kinds)

    def uses(self, name: str) -> bool:
        """Whether an instruction of this name is in it."""
        return any(i.name == name for i in self.instructions)


def loops(text: str, source: str) -> tuple[Loop, ...]:
    """All functions and loops of the assembly of the C file named `source`; what is outside comes
    before what is inside."""
    rows = text.splitlines()
    files = {m[1] for m in map(_FILE.match, rows) if m and m[2].rsplit("/", 1)[-1] == source}
    return tuple(
        loop
        for name, first, last in _functions(rows)
        for loop in _of_function(name, rows, first, last, files)
    )


def _functions(rows: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Name, first and last row of each function."""
    name, start = "", 0
    for number, row in enumerate(rows):
        label = _LABEL.match(row)
        if label and not _LOCAL.fullmatch(label[1]):
            name, start = label[1], number
        elif row.strip() == ".cfi_endproc" and name:
            yield name, start, number
            name = ""


def _of_function(
    name: str, rows: Sequence[str], first: int, last: int, files: set[str]
) -> list[Loop]:
    labels: dict[str, int] = {}
    code: list[Instruction] = []
    spans = {name: (first, last)}
    line = 0
    for number in range(first, last):
        row = rows[number]
        if label := _LABEL.match(row):
            labels[label[1]] = number
        elif mark := _LOC.match(row):
            line = int(mark[2]) if mark[1] in files else 0
        elif (found := _INSTRUCTION.match(row)) and not found[1].startswith("."):
            operands, note = _parted(found[2])
            code.append(Instruction(found[1], operands, note, line, row, number))
            target = operands.split(",")[-1].strip()
            if found[1].startswith(_JUMPS) and target in labels and target != name:
                spans[target] = (labels[target], number)
    return list(_nested(name, spans, code))


def _nested(
    name: str, spans: Mapping[str, tuple[int, int]], code: Sequence[Instruction]
) -> Iterator[Loop]:
    """Each instruction goes to the innermost loop around it."""
    order = sorted(spans.items(), key=lambda s: (s[1][0], -s[1][1]))
    own: dict[str, list[Instruction]] = {label: [] for label in spans}
    outer: set[str] = set()
    around: list[str] = []
    waiting = iter(order)
    coming = next(waiting, None)
    for i in code:
        while coming is not None and coming[1][0] <= i.row:
            around = [label for label in around if spans[label][1] >= coming[1][0]]
            outer |= {label for label in around if spans[label][1] >= coming[1][1]}
            around.append(coming[0])
            coming = next(waiting, None)
        around = [label for label in around if spans[label][1] >= i.row]
        own[around[-1]].append(i)
    for label, (first, last) in order:
        yield Loop(name, label, first, last, tuple(own[label]), label not in outer)


def _parted(rest: str) -> tuple[str, str]:
    """Operands and the compiler's note behind them: `# ...` on x86, `// ...` on arm."""
    found = re.search(r"\s(#|//)", f" {rest}")
    if found is None:
        return rest.strip(), ""
    at = found.start()
    return rest[: max(0, at - 1)].strip(), rest[at + len(found[1]) :].strip()


def readable(text: str, source: str) -> Iterator[tuple[int, str]]:
    """The rows that a person reads, with their numbers: code, constants and the lines of the C file
    as comments, but no debugging information."""
    debugging = False
    for number, row in enumerate(text.splitlines()):
        if section := _SECTION.match(row):
            debugging = (section[2] or "").strip('"').startswith((".debug", "__DWARF"))
        echo = _ECHO.match(row)
        if debugging or _NOISE.match(row):
            continue
        if echo and (echo[2].rsplit("/", 1)[-1] != source or echo[3]):
            continue  # a line of a header, or one whose instruction follows
        yield number, row
