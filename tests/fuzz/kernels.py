"""Random kernels as text, of several shapes: maps, reductions, stencils, chains, loops in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.fuzz.expressions import FLOATS, INTEGERS, TYPES, Read, Writer

NAMES = ("M", "N", "K")
INDICES = ("i", "j", "k")


@dataclass(frozen=True)
class Drawn:
    """A kernel's text. `loops`: those of each statement, in the program's order. `floats`: whether
    some reduction is of floating-point numbers."""

    text: str
    sizes: tuple[str, ...]
    loops: dict[str, list[str]]
    least: int  # of the sizes
    square: bool = False  # all sizes are best equal


@dataclass
class Draft:
    """A kernel being written."""

    rng: Random
    exact: bool
    rank: int
    declarations: list[str] = field(default_factory=list)
    arrays: int = 0

    def read(self, indices: list[str], type_: str) -> Read:
        """A new input, read somewhere inside by `indices`, whose extents are M, N, K."""
        name = f"x{self.arrays}"
        self.arrays += 1
        chosen = [i for i in indices if self.rng.random() < 0.8] or [self.rng.choice(indices)]
        if self.rng.random() < 0.25:
            self.rng.shuffle(chosen)
        places, extents = [], []
        outside = self.rng.random() < 0.3
        for index in chosen:
            place, extent = self.subscript(index, indices, outside)
            places.append(place)
            extents.append(extent)
        self.declarations.append(f"in {name}: {type_}[{', '.join(extents)}]")
        text = f"{name}[{', '.join(places)}]"
        if outside:
            value = {"bool": "false"}.get(type_, "0.0" if type_ in FLOATS else "1")
            text = f"padded({text}, {value})"
        return Read(text, type_)

    def subscript(self, index: str, indices: list[str], outside: bool) -> tuple[str, str]:
        size = NAMES[INDICES.index(index)]
        if outside:
            return self.rng.choice(
                ((index, size), (f"{index} - 1", size), (f"{index} + 1", size),
                 (f"2 * {index} - 1", size), (f"{size} - {index}", size))
            )  # fmt: skip
        other = self.rng.choice(indices)
        more = NAMES[INDICES.index(other)]
        offset = self.rng.randint(1, 3)
        plain = [(index, size)] * 8
        return self.rng.choice(
            [
                *plain,
                (f"{index} + {offset}", f"{size} + {offset}"),
                (f"2 * {index} + 1", f"2 * {size}"),
                (f"3 * {index}", f"3 * {size}"),
                (f"{size} - 1 - {index}", size),
                (f"{index} // 2", f"{size} + 1"),
                (f"{index} % 3", "3"),
                (f"{index} + {other}", f"{size} + {more}"),
                (f"clamp({index} - 1, 0, {size} - 1)", size),
                (f"wrap({index} + 1, {size})", size),
                ("0", "1"),
            ]
        )

    def reads(self, indices: list[str], types: list[str]) -> list[Read]:
        return [self.read(indices, t) for t in types]


def types(rng: Random) -> list[str]:
    """Of one to three inputs; often alike."""
    main = rng.choice(TYPES)
    return [main if rng.random() < 0.6 else rng.choice(TYPES) for _ in range(rng.randint(1, 3))]


def drawn(rng: Random, *, exact: bool) -> Drawn:
    """A kernel named `kernel_name`, to be replaced."""
    shape = rng.choice((elementwise, reduction, reduction, chain, ordered, pieces))
    return shape(rng, exact)


def _kernel(draft: Draft, outputs: list[str], body: list[str], loops: dict[str, list[str]],
            *, least: int = 0, square: bool = False) -> Drawn:  # fmt: skip
    sizes = NAMES[: draft.rank]
    assume = [f"assume {', '.join(f'{s} >= {least}' for s in sizes)}"] if least else []
    lines = [*assume, *draft.declarations, *outputs, *body]
    text = f"kernel NAME({', '.join(sizes)}) {{\n" + "".join(f"    {x}\n" for x in lines) + "}\n"
    return Drawn(text, sizes, loops, least, square)


def elementwise(rng: Random, exact: bool) -> Drawn:
    draft = Draft(rng, exact, rng.choice((1, 1, 2, 2, 3)))
    indices = list(INDICES[: draft.rank])
    type_ = rng.choice(TYPES)
    writer = Writer(rng, draft.reads(indices, [*types(rng), type_]), indices, exact)
    left = indices[::-1] if rng.random() < 0.15 else indices
    extents = ", ".join(NAMES[INDICES.index(i)] for i in left)
    value = writer.expression(type_, rng.randint(1, 3))
    body = [f"S: y[{', '.join(left)}] = {value}"]
    return _kernel(draft, [f"out y: {type_}[{extents}]"], body, {"S": list(left)})


def pieces(rng: Random, exact: bool) -> Drawn:
    """Two definitions with disjoint domains."""
    draft = Draft(rng, exact, 2)
    type_ = rng.choice(TYPES)
    writer = Writer(rng, draft.reads(["i", "j"], [*types(rng), type_]), ["i", "j"], exact)
    at, beside = rng.choice(
        (("j <= i", "j > i"), ("i + j < 7", "i + j >= 7"), ("i % 2 == 0", "i % 2 == 1"),
         ("j >= 2", "j < 2"), ("i == j", "i != j"))
    )  # fmt: skip
    body = [
        f"S: y[i, j] = {writer.expression(type_, 2)} where {at}",
        f"T: y[i, j] = {writer.expression(type_, 1)} where {beside}",
    ]
    loops = {"S": ["i", "j"], "T": ["i", "j"]}
    return _kernel(draft, [f"out y: {type_}[M, N]"], body, loops)


def reduction(rng: Random, exact: bool) -> Drawn:
    draft = Draft(rng, exact, rng.choice((1, 2, 2, 3, 3)))
    indices = list(INDICES[: draft.rank])
    count = min(draft.rank, rng.choice((1, 1, 2)))
    over = rng.sample(indices, count)
    kept = [i for i in indices if i not in over]
    word = rng.choice(("sum", "sum", "sum", "prod", "max", "min", "any", "all"))
    type_ = "bool" if word in ("any", "all") else rng.choice((*FLOATS, *FLOATS, *INTEGERS))
    if word == "prod" and exact and type_ in FLOATS:
        type_ = "i32"
    writer = Writer(rng, draft.reads(indices, [*types(rng), type_]), indices, exact)
    ranges, limit = [], ""
    for index in over:
        size = NAMES[INDICES.index(index)]
        choices = [f"0..{size}"] * 4
        if kept and word not in ("max", "min"):
            choices += [f"0..min({kept[0]} + 1, {size})", f"1..{size}", "0..2"]
        ranges.append(f"{index} in {rng.choice(choices)}")
        if ranges[-1].endswith("0..2"):
            ranges[-1] = f"{index} in 0..min(2, {size})"
    if word not in ("max", "min") and kept and rng.random() < 0.2:
        limit = f" where {over[0]} {rng.choice(('<=', '!=', '>'))} {kept[0]}"
    value = f"{word}[{', '.join(ranges)}{limit}]({writer.expression(type_, rng.randint(0, 2))})"
    loops = {"S": [*kept, *over]}
    extents = ", ".join(NAMES[INDICES.index(i)] for i in kept)
    body = [f"S: y[{', '.join(kept)}] = {value}" if kept else f"S: y = {value}"]
    if kept and rng.random() < 0.2 and type_ != "bool":
        outer = Writer(rng, draft.reads(kept, [type_]), kept, exact)
        body = [f"S: y[{', '.join(kept)}] = {value} + {outer.leaf(type_)}"]
        loops = {"S": kept, "S_r1": [*kept, *over]}
    shape = f"[{extents}]" if kept else ""
    least = 1 if word in ("max", "min") else 0
    return _kernel(draft, [f"out y: {type_}{shape}"], body, loops, least=least)


def chain(rng: Random, exact: bool) -> Drawn:
    """Two or three stages over the same indices, with neighbours now and then."""
    draft = Draft(rng, exact, rng.choice((1, 2, 2)))
    indices = list(INDICES[: draft.rank])
    extents = ", ".join(NAMES[: draft.rank])
    type_ = rng.choice(TYPES)
    reads = draft.reads(indices, [*types(rng), type_])
    body, loops = [], {}
    last: Read | None = None
    stages = rng.choice((2, 2, 3))
    outputs = [f"temp t{n}: {type_}[{extents}]" for n in range(stages - 1)]
    for n in range(stages):
        known = [*reads, last, last] if last else reads
        writer = Writer(rng, known, indices, exact)
        name = "y" if n == stages - 1 else f"t{n}"
        value = writer.expression(type_, 2)
        if last is not None and last.text not in value:
            value = f"select({writer.condition(1)}, {value}, {last.text})"
        body.append(f"S{n}: {name}[{', '.join(indices)}] = {value}")
        loops[f"S{n}"] = list(indices)
        at = list(indices)
        text = f"{name}[{', '.join(at)}]"
        if rng.random() < 0.35:
            place = rng.randrange(draft.rank)
            at[place] = f"{at[place]} {rng.choice(('- 1', '+ 1'))}"
            zero = {"bool": "true"}.get(type_, "0.0" if type_ in FLOATS else "0")
            text = f"padded({name}[{', '.join(at)}], {zero})"
        last = Read(text, type_)
    return _kernel(draft, [*outputs, f"out y: {type_}[{extents}]"], body, loops)


def ordered(rng: Random, exact: bool) -> Drawn:
    """Updates in place inside `for`."""
    draft = Draft(rng, exact, 2)
    type_ = rng.choice(("f32", "f64", "i32", "u8", "i16", "i64"))
    reads = draft.reads(["i", "j"], [type_])
    offsets = (-1, 0, 0, 1)
    near = []
    for _ in range(rng.randint(1, 2)):
        di, dj = rng.choice(offsets), rng.choice(offsets)
        near.append(Read(f"A[i + {di + 1}, j + {dj + 1}]", type_))
    writer = Writer(rng, [*reads, *near, *near], ["i", "j"], True)
    first, second = rng.choice(
        (("i in 0..M", "j in 0..N"), ("i in M - 1 downto 0", "j in 0..N"),
         ("i in 0..M", "j in N - 1 downto 0"), ("j in 0..N", "i in 0..M"),
         ("i in 0..M step 2", "j in 0..N"), ("i in 0..M", "j in i..N"))
    )  # fmt: skip
    sign = rng.choice(("=", "=", "+=", "-=", "max=", "min="))
    value = rng.choice(
        (f"({near[0].text} + {reads[0].text})", writer.expression(type_, 1), near[0].text)
    )
    order = [r.split()[0] for r in (first, second)]
    inside = [f"S: A[i + 1, j + 1] {sign} {value}"]
    loops = {"S": order}
    if rng.random() < 0.4:
        inside.append(f"T: B[i, j] = {writer.expression(type_, 1)}")
        loops["T"] = order
    lines = "  ".join(inside)
    body = [f"for {first}, {second} {{ {lines} }}"]
    if rng.random() < 0.3 and len(inside) > 1:
        body = [f"for {first} {{ for {second} {{ {inside[0]} }} for {second} {{ {inside[1]} }} }}"]
    outputs = [f"inout A: {type_}[M + 2, N + 2]"]
    outputs += [f"inout B: {type_}[M, N]"] if len(inside) > 1 else []
    return _kernel(draft, outputs, body, loops)
