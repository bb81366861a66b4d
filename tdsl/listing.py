"""Generated C beside the assembly that a compiler made of it: which loop is whose.

A loop of assembly is found in the C by the line of its `for`, since what intrinsics do stands
under lines of headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tdsl.codegen.lines import CLoop, Written, c_loops
from tdsl.codegen.module import CModule
from tdsl.runtime.assembly import Loop, loops, readable

Made = tuple[Loop, CLoop]


@dataclass(frozen=True)
class Listing:
    """`made`: each loop of the assembly with the one of C that it came from; `functions` of it."""

    name: str
    source: Sequence[str]
    written: tuple[Written, ...]
    loops: tuple[CLoop, ...]
    made: tuple[tuple[Loop, CLoop], ...]
    functions: tuple[Loop, ...]

    @classmethod
    def of(cls, module: CModule, assembly: str) -> Listing:
        source = module.c_source.splitlines()
        c, every = c_loops(source), loops(assembly, f"{module.name}.c")
        pairs = ((loop, _c_loop(loop, c)) for loop in every if not loop.is_function)
        known = [(loop, of) for loop, of in pairs if of is not None]
        first = min((w.line for w in module.written), default=0)
        return cls(
            f"{module.name}.c",
            source,
            module.written,
            c,
            tuple(_with_helpers(known, first)),
            tuple(loop for loop in every if loop.is_function),
        )

    def innermost(self, function: int, statements: Sequence[str]) -> tuple[Loop, ...]:
        """The innermost loops of statements, in the order of the text."""
        lines = [
            w.line for w in self.written if w.function == function and w.statement in statements
        ]
        found: dict[Loop, None] = {}
        for line in lines:
            around = [(loop, c) for loop, c in self.made if line in c]
            if around:
                least = min(c.last - c.first for _, c in around)
                found.update((loop, None) for loop, c in around if c.last - c.first == least)
        inner = [loop for loop in found if loop.innermost]
        if inner or found:
            return tuple(inner or found)
        return tuple(f for f in self.functions if f.lines & set(lines))

    def head(self, loop: Loop) -> str:
        """`matmul.c:95: for (int64_t k = 0; k < K; k++)`."""
        of = next((c for made, c in self.made if made is loop), None)
        line = min(loop.lines, default=1) if of is None else of.first
        return f"{self.name}:{line}: {self.source[line - 1].strip().rstrip('{ ')}"

    def statements(self, loop: Loop) -> tuple[str, ...]:
        """The statements whose innermost loop it is."""
        c = next((c for made, c in self.made if made is loop), None)
        if c is None:
            return ()
        nested = [n for n in self.loops if n.first > c.first and n.last < c.last]
        own = [w for w in self.written if w.line in c and not any(w.line in n for n in nested)]
        return tuple(dict.fromkeys(w.statement for w in own))

    def annotated(self, assembly: str, sign: str) -> Iterator[str]:
        """The assembly for a reader, over each innermost loop of a statement a comment that says
        whose it is, where in the C, and what a trip does. `sign`: what begins a comment."""
        heads = {
            loop.first: (
                f"{sign} ---- innermost loop of {', '.join(self.statements(loop))}",
                f"{sign} ---- {self.head(loop)}",
                f"{sign} ---- a trip: {loop.counts}",
            )
            for loop, _ in self.made
            if loop.innermost and self.statements(loop)
        }
        for number, row in readable(assembly, self.name):
            yield from heads.get(number, ())
            yield row


def _with_helpers(made: Sequence[Made], first: int) -> Iterator[Made]:
    """Loops with those of helpers inside them, which run over the lanes of one vector. The C of
    helpers ends before the line `first`."""
    for loop, c in made:
        if c.last < first:
            continue
        inside = [(x, of) for x, of in made if x is not loop and _lies_in(x, loop)]
        lanes = [x for x, of in inside if of.last < first and not _between(x, inside, first)]
        more = [replace(i, by_lane=True) for x in lanes for i in x.instructions]
        alone = len(lanes) == len(inside)
        everything = (*loop.instructions, *more)
        yield replace(loop, instructions=everything, innermost=alone), c


def _between(loop: Loop, around: Sequence[Made], first: int) -> bool:
    """Whether one of these loops, not of a helper, is around a loop."""
    return any(of.last >= first and _lies_in(loop, x) for x, of in around)


def _lies_in(loop: Loop, other: Loop) -> bool:
    return other.first <= loop.first and loop.last <= other.last and loop is not other


def _c_loop(loop: Loop, every: Sequence[CLoop]) -> CLoop | None:
    """The `for` that a loop of assembly came from: the outermost whose head it mentions, since
    loops inside it may have been unrolled; else the one around its last instruction."""
    lines = loop.lines
    heads = [c for c in every if any(c.first <= line <= c.head for line in lines)]
    if heads:
        return min(heads, key=lambda c: (c.first, -c.last))
    around = [c for c in every if loop.instructions and loop.instructions[-1].line in c]
    return max(around, key=lambda c: c.first, default=None)
