"""Writing a formula of one argument as code of the vector level.

    f = Formula(F32, 16, fused=True)
    square = f.let("square", f.x * f.x)
    f.result(square + 1.0)

gives `square = x * x; result = square + 1` on sixteen lanes. The same formula serves scalars,
vectors and tails, whose results are therefore equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tdsl.ir.types import BOOL, TYPES, ElemType
from tdsl.ir.vector import (
    Assign,
    Block,
    Cast,
    Choose,
    Const,
    Declare,
    Gather,
    If,
    Item,
    Let,
    Op,
    Reduce,
    Ref,
    Value,
    VType,
)

ARGUMENT = "x"
RESULT = "result"


@dataclass(frozen=True)
class Term:
    """A value with operators; numbers beside it become constants of its type."""

    value: Value

    @property
    def type(self) -> VType:
        return self.value.type

    def _with(self, op: str, *others: Term | float, result: VType | None = None) -> Term:
        args = (self.value, *(self.like(o).value for o in others))
        return Term(Op(op, args, result or self.type))

    def like(self, other: Term | float) -> Term:
        """The number as a constant of this term's type."""
        return other if isinstance(other, Term) else Term(Const(other, self.type))

    def __add__(self, other: Term | float) -> Term:
        return self._with("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self._with("sub", other)

    def __mul__(self, other: Term | float) -> Term:
        return self._with("mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self._with("div", other)

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __neg__(self) -> Term:
        return self._with("neg")

    def __abs__(self) -> Term:
        return self._with("abs")

    def __and__(self, other: Term | int) -> Term:
        return self._with("band", other)

    def __or__(self, other: Term | int) -> Term:
        return self._with("bor", other)

    def __xor__(self, other: Term | int) -> Term:
        return self._with("bxor", other)

    def __lshift__(self, count: int) -> Term:
        return self._with("shl", count)

    def __rshift__(self, count: int) -> Term:
        return self._with("shr", count)

    def shifted_left(self, count: Term) -> Term:
        """By a count that may be the width: then it is 0."""
        return self._with("shl", count)

    def shifted_right(self, count: Term) -> Term:
        """By a count that may be the width: then it is 0."""
        return self._with("shr", count)

    def at_least(self, other: float) -> Term:
        """The greater; a NaN stays."""
        return self._with("max", other)

    def at_most(self, other: float) -> Term:
        """The lesser; a NaN stays."""
        return self._with("min", other)

    def _compare(self, op: str, other: Term | float) -> Term:
        lanes = self.type.lanes
        bits = self.type.elem.bits if lanes > 1 else 0
        return self._with(op, other, result=VType(BOOL, lanes, bits))

    def __lt__(self, other: Term | float) -> Term:
        return self._compare("lt", other)

    def __le__(self, other: Term | float) -> Term:
        return self._compare("le", other)

    def __gt__(self, other: Term | float) -> Term:
        return self._compare("gt", other)

    def __ge__(self, other: Term | float) -> Term:
        return self._compare("ge", other)

    def equals(self, other: Term | float) -> Term:
        return self._compare("eq", other)

    def differs(self, other: Term | float) -> Term:
        return self._compare("ne", other)


class Formula:
    """Code in the making.

    fused: products that are added or subtracted are rounded once. strict: functions that this
    one calls are the strict ones. scales: the target has "scale" for these lanes.
    """

    def __init__(
        self,
        elem: ElemType,
        lanes: int,
        *,
        fused: bool,
        strict: bool = False,
        scales: bool = False,
    ) -> None:
        self.elem, self.fused, self.strict, self.scales = elem, fused, strict, scales
        self.type = VType(elem, lanes)
        self.x = Term(Ref(ARGUMENT, self.type))
        self._items: list[Item] = []

    # ------------------------------------------------------------ the type's numbers

    @property
    def name(self) -> str:
        """f32 or f64: the key of tables of constants."""
        return self.elem.name

    @property
    def mantissa(self) -> int:
        """Bits of the significand that are stored."""
        return 23 if self.elem.bits == 32 else 52

    @property
    def bias(self) -> int:
        """Of the exponent."""
        return 127 if self.elem.bits == 32 else 1023

    @property
    def shifter(self) -> float:
        """Added to a small number it leaves the nearest whole one in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    # ------------------------------------------------------------ code

    def let(self, name: str, term: Term) -> Term:
        """A name for a value that is used more than once."""
        self._items.append(Let(name, term.value))
        return Term(Ref(name, term.type))

    def result(self, term: Term) -> Block:
        """The whole code."""
        return Block((*self._items, Let(RESULT, term.value)))

    def result_unless(self, rare: Term, term: Term, instead: Term) -> Block:
        """As `result`; where `rare` holds in some lane, `instead` is computed and taken there."""
        kept = Term(Ref(RESULT, self.type))
        some = Reduce("any", rare.value, VType(BOOL))
        taken = Assign(RESULT, self.choose(rare, instead, kept).value)
        declared = Declare(RESULT, self.type, term.value)
        return Block((*self._items, declared, If(some, Block((taken,)))))

    # ------------------------------------------------------------ values

    def fma(self, a: Term, b: Term | float, c: Term | float) -> Term:
        """a * b + c."""
        return self.exact_fma(a, b, c) if self.fused else a * b + c

    def fnma(self, a: Term, b: Term | float, c: Term | float) -> Term:
        """c - a * b."""
        if not self.fused:
            return a.like(c) - a * b
        return Term(Op("fnma", (a.value, a.like(b).value, a.like(c).value), self.type))

    def exact_fma(self, a: Term, b: Term | float, c: Term | float) -> Term:
        """a * b + c rounded once, also where nothing else is fused."""
        return Term(Op("fma", (a.value, a.like(b).value, a.like(c).value), self.type))

    def scaled(self, value: Term, k: Term) -> Term:
        """value * 2^k for a whole k, rounded once: where the target `scales`."""
        return Term(Op("scale", (value.value, k.value), self.type))

    def polynomial(self, at: Term, coefficients: Sequence[float]) -> Term:
        """By Horner's rule; the constant comes first."""
        found = at.like(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            found = self.fma(found, at, coefficient)
        return found

    def choose(self, mask: Term, then: Term | float, other: Term | float) -> Term:
        """then where the mask holds, else other."""
        return self.choose_like(mask, self.x.like(then), other)

    def choose_like(self, mask: Term, then: Term, other: Term | float) -> Term:
        """The same for any type."""
        return Term(Choose(mask.value, then.value, then.like(other).value, then.type))

    def element(self, table: str, index: Term) -> Term:
        """An element of a table of words."""
        return Term(Gather(table, index.value, index.type))

    def call(self, op: str, arg: Term) -> Term:
        """Another elementary function."""
        return Term(Op(op + ("_strict" if self.strict else ""), (arg.value,), self.type))

    def bits(self, term: Term) -> Term:
        """The bits of a float as an unsigned integer."""
        unsigned = VType(TYPES[f"u{self.elem.bits}"], self.type.lanes)
        return Term(Cast("bitcast", term.value, unsigned))

    def from_bits(self, term: Term) -> Term:
        """The float of these bits."""
        return Term(Cast("bitcast", term.value, self.type))

    @property
    def sign_bit(self) -> int:
        return 1 << (self.elem.bits - 1)

    def with_sign(self, magnitude: Term, sign: Term) -> Term:
        """A magnitude of either sign made negative where the sign bit of `sign` is set."""
        lower = self.sign_bit - 1
        kept = self.bits(magnitude) & lower
        return self.from_bits(kept | (self.bits(sign) & self.sign_bit))

    def two_sum(self, name: str, a: Term, b: Term) -> tuple[Term, Term]:
        """The rounded sum and what it lost, exactly (Knuth, The Art of Computer Programming 2)."""
        total = self.let(name, a + b)
        part = self.let(f"{name}_b", total - a)
        return total, self.let(f"{name}_low", (a - (total - part)) + (b - part))
