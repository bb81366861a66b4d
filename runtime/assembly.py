"""Generated assembly read for what a performance engineer looks for: innermost loops, and what
their instructions do.

The compiler writes it with line marks (`-g1`: which line of C an instruction comes from) and with
its own notes (`-fverbose-asm`: gcc marks its spill slots `%sfp`). An innermost loop is the text
from a label to a jump back to it in which no other such loop lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FLAGS = ("-g1", "-fverbose-asm")

_LABEL = re.compile(r"^([.\w$]+):")
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_SIZE = re.compile(r"^\s*\.size\s+([\w$.]+),")
_INSTRUCTION = re.compile(r"^\s+([a-z][\w.]*)\s*(.*)$")

_FMA = re.compile(r"^(vf(n?m)(add|sub)|fml[as]|fmadd|fmsub|bfml|fml)")
_DOT = re.compile(r"^(vpdp|vdpbf16|vpmaddwd|vpmaddubsw|(us?|su?|bf)(dot|mmla))")
_GATHER = re.compile(r"^(v?p?gather|vgather|vpgather|ld1[bhwd]$)")
_SPILL = "%sfp"


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: mnemonic, operands, the compiler's note, the C line (0: none)."""

    name: str
    operands: str
    note: str
    line: int
    text: str


@dataclass(frozen=True)
class Counts:
    """What one trip of a loop does. spills: accesses to slots for what found no register;
    masks: instructions under a mask register; loads, stores: accesses to memory but for spills."""

    instructions: int
    fma: int
    dot: int
    loads: int
    stores: int
    spills: int
    gathers: int
    masks: int


@dataclass(frozen=True)
class InnerLoop:
    """An innermost loop of a function: its label, first and last row of the text, instructions."""

    function: str
    label: str
    first: int
    last: int
    instructions: tuple[Instruction, ...]

    @property
    def lines(self) -> frozenset[int]:
        """The lines of C that its instructions come from."""
        return frozenset(i.line for i in self.instructions if i.line)

    @property
    def counts(self) -> Counts:
        """Instructions by kind."""
        each = [_kinds(i) for i in self.instructions]
        return Counts(
            len(each),
            *(sum(kind in kinds for kinds in each)
              for kind in ("fma", "dot", "load", "store", "spill", "gather", "mask")),
        )  # fmt: skip

    def uses(self, name: str) -> bool:
        """Whether an instruction of this name is in it."""
        return any(i.name == name for i in self.instructions)


def inner_loops(text: str) -> tuple[InnerLoop, ...]:
    """The innermost loops of all functions, in order."""
    rows = text.splitlines()
    found: list[InnerLoop] = []
    for name, first, last in _functions(rows):
        found += _of_function(name, rows, first, last)
    return tuple(found)


def _functions(rows: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Name, first and last row of each function: from its label to its `.size`."""
    starts: dict[str, int] = {}
    for number, row in enumerate(rows):
        if label := _LABEL.match(row):
            starts.setdefault(label[1], number)
        elif (size := _SIZE.match(row)) and size[1] in starts:
            yield size[1], starts[size[1]], number


def _of_function(name: str, rows: Sequence[str], first: int, last: int) -> list[InnerLoop]:
    labels: dict[str, int] = {}
    code: list[tuple[int, Instruction]] = []
    line = 0
    spans: list[tuple[str, int, int]] = []
    for number in range(first, last):
        row = rows[number]
        if label := _LABEL.match(row):
            labels[label[1]] = number
        elif mark := _LOC.match(row):
            line = int(mark[1])
        elif (found := _INSTRUCTION.match(row)) and not found[1].startswith("."):
            operands, note = _parted(found[2])
            instruction = Instruction(found[1], operands, note, line, row)
            code.append((number, instruction))
            target = operands.split(",")[-1].strip()
            if _jumps(found[1]) and target in labels:
                spans.append((target, labels[target], number))
    inner = [
        s for s in spans
        if not any(o is not s and s[1] <= o[1] and o[2] <= s[2] for o in spans)
    ]  # fmt: skip
    return [
        InnerLoop(name, label, a, b, tuple(i for n, i in code if a <= n <= b))
        for label, a, b in inner
    ]


def _parted(rest: str) -> tuple[str, str]:
    """Operands and the compiler's note behind them: `# ...` on x86, `// ...` on arm."""
    for sign in ("\t#", "\t//", " #", " //"):
        if sign in rest:
            operands, note = rest.split(sign, 1)
            return operands.strip(), note.strip()
    return rest.strip(), ""


def _jumps(name: str) -> bool:
    return name.startswith(("j", "b.")) or name in ("b", "cbz", "cbnz", "tbz", "tbnz")


def _kinds(i: Instruction) -> frozenset[str]:
    kinds = set()
    if _FMA.match(i.name):
        kinds.add("fma")
    if _DOT.match(i.name):
        kinds.add("dot")
    if _GATHER.match(i.name):
        kinds.add("gather")
    if re.search(r"\{%k[1-7]\}", i.operands):
        kinds.add("mask")
    access = _access(i)
    if access is not None:
        kinds.add("spill" if _SPILL in i.note or _stack_slot(i) else access)
    return frozenset(kinds)


def _access(i: Instruction) -> str | None:
    """Whether an instruction reads or writes memory."""
    if "(" in i.operands:  # AT&T: the destination comes last
        if i.name.startswith(("lea", "prefetch", "nop", "cmp", "test", "j")):
            return "load" if i.name.startswith(("cmp", "test")) else None
        return (
            "store"
            if i.operands.rstrip().endswith((")", ")}")) or re.search(r"\)\{%k[1-7]\}$", i.operands)
            else "load"
        )
    if "[" in i.operands and i.name.startswith(("ld", "st")):
        return "load" if i.name.startswith("ld") else "store"
    return None


def _stack_slot(i: Instruction) -> bool:
    """A vector register kept on the stack of an arm function: gcc notes no slots there."""
    return "[sp" in i.operands and i.operands.lstrip().startswith(("q", "d", "v", "{v"))


def annotated(text: str, source: Sequence[str], names: dict[int, str]) -> str:
    """The text with a comment over each innermost loop: what it is of, its line of C, its counts.

    source: the lines of C; names: line -> what the loop over it is of.
    """
    heads: dict[int, list[str]] = {}
    for loop in inner_loops(text):
        c = loop.counts
        of = sorted({names[n] for n in loop.lines if n in names})
        line = min(loop.lines, default=0)
        shown = source[line - 1].strip() if 0 < line <= len(source) else ""
        heads[loop.first] = [
            f"# ---- inner loop{' of ' + ', '.join(of) if of else ''}: line {line}: {shown}",
            f"# ---- a trip: {c.instructions} instructions, {c.fma} fma, {c.dot} dot, "
            f"{c.loads} loads, {c.stores} stores, {c.spills} spills, {c.gathers} gathers, "
            f"{c.masks} masked",
        ]
    rows: list[str] = []
    for number, row in enumerate(text.splitlines()):
        rows += heads.get(number, ())
        rows.append(row)
    return "\n".join(rows) + "\n"
