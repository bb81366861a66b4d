"""Random expressions as text, of a wanted element type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

FLOATS = ("f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
TYPES = (*FLOATS, *INTEGERS, "bool")


@dataclass(frozen=True)
class Read:
    """An access in the words of the language, and the type of what it reads."""

    text: str
    type: str


@dataclass(frozen=True)
class Writer:
    """Writes expressions over some reads. `exact`: only floating-point operations whose results
    are exact for small integers, so that a fused multiply-add changes nothing."""

    rng: Random
    reads: Sequence[Read]
    indices: Sequence[str]
    exact: bool

    def expression(self, type_: str, depth: int) -> str:
        if type_ == "bool":
            return self.condition(depth)
        if depth <= 0 or self.rng.random() < 0.15:
            return self.leaf(type_)
        if type_ in FLOATS:
            return self.floating(type_, depth - 1)
        return self.integer(type_, depth - 1)

    def leaf(self, type_: str) -> str:
        """A read, converted where none has this type, or an index."""
        same = [r for r in self.reads if r.type == type_]
        if same and self.rng.random() < 0.85:
            return self.rng.choice(same).text
        if self.indices and self.rng.random() < 0.2:
            return f"{type_}({self.rng.choice(self.indices)})"
        read = self.rng.choice(self.reads)
        if read.type == type_:
            return read.text
        if read.type == "bool":
            return f"select({read.text}, {self.anchor(type_)}, {self.literal(type_)})"
        how = f"saturate<{type_}>" if self.rng.random() < 0.3 else type_
        return f"{how}({read.text})"

    def anchor(self, type_: str) -> str:
        """Something that has its type without a context."""
        same = [r.text for r in self.reads if r.type == type_]
        return self.rng.choice(same) if same else f"{type_}({self.rng.randint(0, 5)})"

    def literal(self, type_: str) -> str:
        if type_ in FLOATS:
            return self.rng.choice(("0.0", "1.0", "2.0", "0.5", "3.0"))
        return str(self.rng.choice((0, 1, 2, 3, 7, 100)))

    def floating(self, type_: str, depth: int) -> str:
        left = self.expression(type_, depth)
        right = self.rng.choice((self.expression(type_, depth), self.literal(type_)))
        choices = ["+", "-", "+", "-", "max", "min", "abs", "neg", "select", "scale", "round"]
        choices += ["*"] if not self.exact or depth == 0 else []
        choices += [] if self.exact else ["/", "sqrt", "floor", "ceil", "trunc"]
        match self.rng.choice(choices):
            case "+" | "-" | "*" | "/" as sign:
                return f"({left} {sign} {right})"
            case "max" | "min" as name:
                return f"{name}({left}, {right})"
            case "neg":
                return f"(-{left})"
            case "scale":
                return f"({left} * {self.rng.choice(('2.0', '0.5'))})"
            case "select":
                return f"select({self.condition(depth - 1)}, {left}, {right})"
            case name:
                return f"{name}({left})"

    def integer(self, type_: str, depth: int) -> str:
        left = self.expression(type_, depth)
        right = self.rng.choice((self.expression(type_, depth), self.literal(type_)))
        signs = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"]
        match self.rng.choice((*signs, *signs, "max", "min", "abs", "not", "select", "cast")):
            case "max" | "min" as name:
                return f"{name}({left}, {right})"
            case "abs":
                return f"abs({left})"
            case "not":
                return f"(~{left})"
            case "select":
                return f"select({self.condition(depth - 1)}, {left}, {right})"
            case "cast":
                other = self.rng.choice([t for t in TYPES if t not in ("bool", type_)])
                how = f"saturate<{type_}>" if self.rng.random() < 0.3 else type_
                return f"{how}({self.expression(other, depth - 1)})"
            case sign:
                return f"({left} {sign} {right})"

    def condition(self, depth: int) -> str:
        booleans = [r.text for r in self.reads if r.type == "bool"]
        if booleans and self.rng.random() < 0.4:
            return self.rng.choice(booleans)
        if depth > 0 and self.rng.random() < 0.3:
            word = self.rng.choice(("and", "or"))
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if depth > 0 and self.rng.random() < 0.2:
            return f"(not {self.condition(depth - 1)})"
        if self.indices and self.rng.random() < 0.15:
            sign = self.rng.choice(("<", ">=", "=="))
            return f"({self.rng.choice(self.indices)} {sign} {self.rng.randint(0, 5)})"
        numbers = [r for r in self.reads if r.type != "bool"]
        if not numbers:
            return self.rng.choice(booleans)
        type_ = self.rng.choice(numbers).type
        sign = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        left = self.rng.choice([r.text for r in numbers if r.type == type_])
        return f"({left} {sign} {self.rng.choice((self.leaf(type_), self.literal(type_)))})"
