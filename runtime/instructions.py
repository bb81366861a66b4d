"""What single instructions of generated assembly do: x86 in AT&T syntax, and AArch64.

Compilers note what they put on the stack for want of a register: gcc `%sfp` (a slot of its frame),
clang `64-byte Spill`, `64-byte Reload`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_FMA = re.compile(r"vfn?m(add|sub)|fml[as]$|fn?m(add|sub)$|bfml|fml[as]l")
_DOT = re.compile(r"vpdp|vdpbf16|vpmaddwd|vpmaddubsw|([us]|us|su|bf)(dot|mmla)$")
_GATHER = re.compile(r"v?p?gather")
_LANE = re.compile(r"v?(insertps|pinsr[bwdq]|mov[hl]p[sd])$")  # with memory: a load of one lane
_ARM_LANE = re.compile(r"\{\s*v\d+\.\w+\s*\}\[")
_STACK = re.compile(r"\(%rsp|\[sp")
_MASK = re.compile(r"\{%k[1-7]\}")
_MASKED_MOVE = re.compile(r"v(p?maskmov)")
_SPILL = re.compile(r"%sfp|\b(Spill|Reload)\b")
_SCALAR = re.compile(r"v?\w*?(?P<kind>s[sd])$")
_MOVES = re.compile(
    r"v?(mov|lddqu|broadcast|pbroadcast|perm|shuf|pshuf|unpck|punpck|insert|extract|pinsr|pextr"
    r"|pxor|xorp|cmp|pcmp|ptestm|maskmov|pmaskmov|align|palign)|k(mov|and|or|xor|not|unpck)"
    r"|ld|st|mov|dup|ins$|umov|smov|trn|zip|uzp|ext$"
)
_NO_ACCESS = ("lea", "nop", "prefetch", "j", "call")
_ARM_WIDTH = {"q": 16, "v": 16, "d": 8, "s": 4, "h": 2, "b": 1}


@dataclass(frozen=True)
class Instruction:
    """One machine instruction: mnemonic, operands, the compiler's note, the line of C that it
    comes from (0: of a header), its row in the text and that row's number. by_lane: it stands in
    a loop over the lanes of one vector."""

    name: str
    operands: str
    note: str
    line: int
    text: str
    row: int
    by_lane: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        """fma, dot, load, store, spill, gather, mask: what it is of these."""
        kinds = set()
        if _FMA.match(self.name):
            kinds.add("fma")
        if _DOT.match(self.name):
            kinds.add("dot")
        access = self._access
        if _GATHER.match(self.name) or (access == "load" and _one_lane(self)):
            kinds.add("gather")
        if _MASK.search(self.operands) or _MASKED_MOVE.match(self.name):
            kinds.add("mask")
        if access is not None:
            # An address that waits on the stack is a load like others; a vector is not.
            slot = _SPILL.search(self.note) is not None and self.width > 0
            kinds.add("spill" if slot else access)
        return frozenset(kinds)

    @property
    def _access(self) -> str | None:
        """Whether it reads or writes memory; one that does both is a store."""
        if "[" in self.operands and self.name.startswith(("ld", "st")):
            return self.name[:2].replace("ld", "load").replace("st", "store")
        if "(" not in self.operands or self.name.startswith(_NO_ACCESS):
            return None
        if self.name.startswith(("cmp", "test", "ucomis", "comis", "vucomis", "vcomis", "bt")):
            return "load"
        # AT&T: the destination comes last.
        last = _MASK.sub("", self.operands).rstrip()
        return "store" if last.endswith(")") else "load"

    @property
    def width(self) -> int:
        """Bytes of the vector that it works on; 0 where it is none."""
        if scalar := _SCALAR.fullmatch(self.name):
            return 4 if scalar["kind"] == "ss" else 8
        for sign, size in (("%zmm", 64), ("%ymm", 32), ("%xmm", 16)):
            if sign in self.operands:
                return size
        first = re.match(r"\{?\s*([qvdshb])\d+", self.operands)
        return _ARM_WIDTH[first[1]] if first else 0

    @property
    def computes(self) -> bool:
        """Whether it computes on vectors, beyond moving and rearranging them."""
        return self.width > 0 and not _MOVES.match(self.name)


def _one_lane(i: Instruction) -> bool:
    if _LANE.match(i.name) or (i.by_lane and not _STACK.search(i.operands)):
        return True
    return i.name == "ld1" and _ARM_LANE.search(i.operands) is not None


@dataclass(frozen=True)
class Counts:
    """Instructions of one trip of a loop. spills: accesses to slots for vectors that found no
    register; masks: those under a mask; gathers: loads by a vector of addresses, or lane by lane;
    loads and stores: accesses to memory but for spills."""

    instructions: int
    fma: int
    dot: int
    loads: int
    stores: int
    spills: int
    gathers: int
    masks: int

    def __str__(self) -> str:
        return (
            f"{self.instructions} instructions, {self.fma} fma, {self.dot} dot, "
            f"{self.loads} loads, {self.stores} stores, {self.spills} spills, "
            f"{self.gathers} gathers, {self.masks} masked"
        )


def count(instructions: Iterable[Instruction]) -> Counts:
    """How many there are of each kind."""
    each = [i.kinds for i in instructions]
    kinds = ("fma", "dot", "load", "store", "spill", "gather", "mask")
    return Counts(len(each), *(sum(kind in found for found in each) for kind in kinds))
