"""Random schedules, grown directive by directive: those that are refused are left out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

TAILS = ("", "", "", " tail guard", " tail mask", " tail peel", " tail cases", " tail narrow",
         " tail balanced", " tail cases, mask")  # fmt: skip
FACTORS = ("2", "3", "4", "5", "8", "16", "20", "lanes(f32)", "2 * lanes(f32)", "lanes(i8)")


@dataclass
class Grower:
    """The loops of each statement as the accepted directives leave them."""

    rng: Random
    loops: dict[str, list[str]]
    made: int = 0
    lines: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        self.made += 1
        return f"l{self.made}"

    def some(self) -> tuple[str, str]:
        statement = self.rng.choice([s for s, loops in self.loops.items() if loops] or [""])
        return statement, self.rng.choice(self.loops[statement]) if statement else ""

    def replace(self, statement: str, loop: str, names: list[str]) -> Callable[[], None]:
        def change() -> None:
            for name, loops in self.loops.items():
                if name == statement and loop in loops:
                    at = loops.index(loop)
                    loops[at : at + 1] = names

        return change

    def propose(self) -> tuple[str, Callable[[], None]]:
        """A directive, and what to do where it is accepted."""
        nothing: Callable[[], None] = lambda: None  # noqa: E731
        statement, loop = self.some()
        if not statement:
            return "", nothing
        rng, loops = self.rng, self.loops[statement]
        match rng.choice(
            ("split", "split", "split", "tile", "reorder", "reorder", "vectorize", "vectorize",
             "vectorize", "unroll", "unroll", "unroll", "fuse", "fuse", "collapse", "parallel",
             "stage", "reassociate", "reverse", "skew", "shift", "distribute", "stream",
             "prefetch", "transpose")
        ):  # fmt: skip
            case "split":
                names = [self.fresh(), self.fresh()]
                tail = rng.choice(TAILS)
                line = (
                    f"split {statement}.{loop} by {rng.choice(FACTORS)} -> {names[0]}, {names[1]}"
                )
                return line + tail, self.replace(statement, loop, names)
            case "tile" if len(loops) >= 2:
                a, b = rng.sample(loops, 2)
                names = [self.fresh() for _ in range(4)]
                line = (
                    f"tile {statement}.{a}, {statement}.{b} by {rng.choice(FACTORS)}, "
                    f"{rng.choice(FACTORS)} -> {', '.join(names)}{rng.choice(TAILS)}"
                )

                def change() -> None:
                    first = min(loops.index(a), loops.index(b))
                    rest = [x for x in loops if x not in (a, b)]
                    loops[:] = [*rest[:first], *names, *rest[first:]]

                return line, change
            case "reorder" if len(loops) >= 2:
                order = rng.sample(loops, rng.randint(2, len(loops)))

                def permute() -> None:
                    places = sorted(loops.index(x) for x in order)
                    for place, name in zip(places, order, strict=True):
                        loops[place] = name

                return f"reorder {', '.join(f'{statement}.{x}' for x in order)}", permute
            case "vectorize":
                loop = rng.choice((loop, loops[-1]))
                by = rng.choice(("", "", "", " by 4", " by lanes(f32)", " by 16"))
                return f"vectorize {statement}.{loop}{by}", nothing
            case "unroll":
                by = rng.choice(("", "", "", " plain", " by 2", " by 3", " by 4 plain"))
                return f"unroll {statement}.{loop}{by}", nothing
            case "fuse" if len(self.loops) >= 2:
                one, two = rng.sample(sorted(self.loops), 2)
                if rng.random() < 0.8:
                    one, two = sorted((one, two))
                if not self.loops[one] or not self.loops[two]:
                    return "", nothing
                place = rng.choice((0, 0, rng.randrange(len(self.loops[one]))))
                a = self.loops[one][place]
                b = self.loops[two][min(place, len(self.loops[two]) - 1)]
                name = self.fresh()

                def fused() -> None:
                    self.replace(one, a, [name])()
                    self.replace(two, b, [name])()

                return f"fuse {one}.{a}, {two}.{b} -> {name}", fused
            case "collapse" if len(loops) >= 2:
                at = rng.randrange(len(loops) - 1)
                name = self.fresh()

                def joined() -> None:
                    loops[at : at + 2] = [name]

                return (
                    f"collapse {statement}.{loops[at]}, {statement}.{loops[at + 1]} -> {name}",
                    joined,
                )
            case "parallel":
                return f"parallel {statement}.{rng.choice((loop, loops[0]))}", nothing
            case "stage":
                array = rng.choice(("x0", "x1", "x2", "y", "A", "t0"))
                where = rng.choice(("", "", " in registers"))
                return f"stage {array} at {statement}.{loop}{where}", nothing
            case "stream":
                return (
                    f"stream {rng.choice(('y', 'A', 'y2', statement.partition('_')[0]))}",
                    nothing,
                )
            case "prefetch":
                array = rng.choice(("x0", "x1", "x2", "y", "A", "t0"))
                return f"prefetch {array} at {statement}.{loop} ahead {rng.randint(0, 3)}", nothing
            case "transpose" if len(loops) >= 2:
                return f"transpose {statement}.{loops[-2]}, {statement}.{loops[-1]}", nothing
            case "reassociate":
                return f"reassociate {statement}", nothing
            case "reverse":
                return f"reverse {statement}.{loop}", nothing
            case "distribute":
                return f"distribute {statement}.{loop}", nothing
            case "skew" if len(loops) >= 2:
                a, b = rng.sample(loops, 2)
                return f"skew {statement}.{a} by {b}", nothing
            case "shift":
                return f"shift {statement}.{loop} by {rng.choice((1, -1, 2))}", nothing
        return "", nothing

    def grow(self, count: int, accepts: Callable[[list[str]], bool], seconds: float) -> None:
        """Try `count` directives; `accepts` says whether a schedule is legal."""
        end = time.monotonic() + seconds
        for _ in range(count):
            line, change = self.propose()
            # Copies under a parallel loop are refused late today, by the validation.
            words = " ".join([*self.lines, line])
            if "stage" in words and "parallel" in words:
                continue
            if line and time.monotonic() < end and accepts([*self.lines, line]):
                self.lines.append(line)
                change()
