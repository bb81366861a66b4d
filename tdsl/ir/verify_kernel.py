"""The invariants of the kernel level. A breach is a defect of the compiler, not of a program.

- names of arrays, of sizes and of statements are unique;
- every name in an expression is a size, an array or an index of its statement;
- every expression has the type that its operation asks for;
- subscripts have the rank of their array; extents are of sizes alone;
- the domain bounds every index from below and from above, and speaks of no data;
- reductions: the reduced indices are the last ones, `outer` and the subscript do not use them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tdsl.ir.affine import linear
from tdsl.ir.kernel import (
    ARITHMETIC,
    BITS,
    COMPARISONS,
    INDEX,
    LOGIC,
    MATH,
    BodyItem,
    Cast,
    Const,
    Expr,
    Kernel,
    Nest,
    Op,
    Read,
    Select,
    Size,
    Statement,
    Var,
    children,
    walk,
)
from tdsl.ir.types import BOOL

_UPDATES = ("define", "add", "sub", "mul", "min", "max", "any", "all")
_UNARY = ("neg", "abs", "not", "bnot", *(m for m in MATH if m != "pow"))


class InvalidKernel(AssertionError):
    """An invariant of the kernel level does not hold."""


def verify_kernel(kernel: Kernel) -> None:
    """Raise InvalidKernel unless every invariant holds."""
    _Verifier(kernel).run()


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.arrays = {a.name: a for a in kernel.arrays}
        self.sizes = {*kernel.sizes, *(s for a in kernel.arrays for s in a.free_strides)}

    def run(self) -> None:
        kernel = self.kernel
        _unique("array", [a.name for a in kernel.arrays])
        _unique("size", kernel.sizes)
        _unique("statement", [s.name for s in kernel.statements])
        for condition in kernel.assumptions:
            self._condition(condition, set(), "assumption")
        for array in kernel.arrays:
            for extent in array.shape:
                self._index(extent, set(), f"extent of {array.name}")
            rank = len(array.shape)
            for stride in array.strides or ():
                if not isinstance(stride, str):
                    self._index(stride, set(), f"stride of {array.name}")
            _check(array.strides is None or len(array.strides) == rank, f"strides of {array.name}")
            _check(not array.groups or sum(array.groups) == rank, f"groups of {array.name}")
            if array.values is not None:
                count = 1
                for extent in array.shape:
                    _check(isinstance(extent, Const), f"table {array.name} has a symbolic extent")
                    count *= int(extent.value) if isinstance(extent, Const) else 1
                _check(
                    len(array.values) == count, f"table {array.name} has {len(array.values)} values"
                )
        self._body(kernel.body, ())

    def _body(self, items: tuple[BodyItem, ...], nest: tuple[str, ...]) -> None:
        for item in items:
            match item:
                case Statement():
                    self._statement(item, nest)
                case Nest(index, lo, hi, _, step, body):
                    _check(index not in nest, f"loop {index} hides another one")
                    _check(step >= 1, f"loop {index} has step {step}")
                    for end in (lo, hi):
                        self._index(end, set(nest), f"range of {index}")
                    self._body(body, (*nest, index))

    def _statement(self, s: Statement, nest: tuple[str, ...]) -> None:
        _unique(f"index of {s.name}", s.indices)
        _check(s.indices[: len(nest)] == nest, f"{s.name}: the nest's indices come first")
        _check(s.op in _UPDATES, f"{s.name}: operation {s.op}")
        _check(s.array in self.arrays, f"{s.name} writes unknown array {s.array}")
        count = len(s.reduction)
        _check(
            s.indices[len(s.indices) - count :] == s.reduction, f"{s.name}: reduced indices last"
        )
        free = set(s.free)
        array = self.arrays[s.array]
        _check(
            array.role not in ("in", "const", "table"), f"{s.name} writes {array.role} {s.array}"
        )
        _check(len(s.subscript) == len(array.shape), f"{s.name}: rank of {s.array}")
        for part in s.subscript:
            self._index(part, free, f"subscript of {s.name}")
        for condition in s.domain:
            self._condition(condition, set(s.indices), f"domain of {s.name}")
        for condition in s.outer:
            self._condition(condition, free, f"outer domain of {s.name}")
        for index in s.indices:
            _bounded(index, s.domain, s.name)
        self._expr(s.value, set(s.indices), s.name)
        _check(s.value.type == array.type, f"{s.name}: {s.value.type} into {array.type} {s.array}")
        if s.init is not None:
            _check(bool(s.reduction), f"{s.name} has an initial value and reduces nothing")
            _check(s.init.type == array.type, f"{s.name}: type of the initial value")
        if s.op in ("any", "all"):
            _check(array.type == BOOL, f"{s.name}: {s.op} of {array.type}")

    # ------------------------------------------------------------ expressions

    def _index(self, expr: Expr, visible: set[str], where: str) -> None:
        _check(expr.type == INDEX, f"{where}: {expr.type} where an index is wanted")
        self._expr(expr, visible, where)

    def _condition(self, expr: Expr, visible: set[str], where: str) -> None:
        _check(expr.type == BOOL, f"{where}: {expr.type} where a condition is wanted")
        _check(not any(isinstance(e, Read) for e in walk(expr)), f"{where} reads data")
        self._expr(expr, visible, where)

    def _expr(self, expr: Expr, visible: set[str], where: str) -> None:
        for child in children(expr):
            self._expr(child, visible, where)
        match expr:
            case Const(value, type_):
                _check(_fits(value, expr), f"{where}: {value!r} as {type_}")
            case Var(name):
                _check(name in visible, f"{where}: unknown index {name}")
            case Size(name):
                _check(name in self.sizes, f"{where}: unknown size {name}")
            case Read(name, indices, type_):
                _check(name in self.arrays, f"{where}: unknown array {name}")
                _check(len(indices) == len(self.arrays[name].shape), f"{where}: rank of {name}")
                _check(type_ == self.arrays[name].type, f"{where}: {name} read as {type_}")
                _check(all(i.type == INDEX for i in indices), f"{where}: index types of {name}")
            case Op(op, args, _):
                self._operation(op, args, expr, where)
            case Cast(mode, arg, type_):
                _check(mode in ("convert", "saturate", "bitcast"), f"{where}: cast {mode}")
                if mode == "bitcast":
                    _check(arg.type.bits == type_.bits, f"{where}: bitcast {arg.type} to {type_}")
            case Select(condition, then, other, type_):
                _check(condition.type == BOOL, f"{where}: select by {condition.type}")
                _check(then.type == other.type == type_, f"{where}: arms of a select")

    def _operation(self, op: str, args: tuple[Expr, ...], expr: Expr, where: str) -> None:
        types = {a.type for a in args}
        _check(len(types) == 1, f"{where}: {op} of {', '.join(sorted(map(str, types)))}")
        (type_,) = types
        count = len(args) == 1 if op in _UNARY else len(args) == 2 or op in LOGIC
        _check(count, f"{where}: {op} of {len(args)} arguments")
        result = BOOL if op in COMPARISONS or op in LOGIC else type_
        _check(expr.type == result, f"{where}: {op} gives {expr.type}")
        if op in LOGIC:
            _check(type_ == BOOL, f"{where}: {op} of {type_}")
        elif op in MATH or op == "div":
            _check(type_.is_float, f"{where}: {op} of {type_}")
        elif op in BITS:
            _check(type_.is_integer and type_ != INDEX, f"{where}: {op} of {type_}")
        elif op in ("floordiv", "mod"):
            _check(type_.is_integer, f"{where}: {op} of {type_}")
        else:
            _check(op in ARITHMETIC or op in COMPARISONS, f"{where}: unknown operation {op}")
            _check(type_ != BOOL or op in ("eq", "ne"), f"{where}: {op} of truth values")


def _fits(value: int | float | bool, expr: Expr) -> bool:
    if expr.type == BOOL:
        return isinstance(value, bool)
    return isinstance(value, float) if expr.type.is_float else type(value) is int


def _bounded(index: str, domain: tuple[Expr, ...], where: str) -> None:
    """Some condition bounds the index from below, and some from above."""
    if any(isinstance(c, Const) and not c.value for c in domain):
        return  # no instances at all
    below = above = False
    for condition in domain:
        match condition:
            case Op(("le" | "lt" | "ge" | "gt" | "eq") as op, (a, b)) if a.type == INDEX:
                form = linear(b).plus(linear(a), -1)
                coefficient = form.terms.get(Var(index), 0)
                coefficient = -coefficient if op in ("ge", "gt") else coefficient
                below |= coefficient > 0 or (op == "eq" and coefficient != 0)
                above |= coefficient < 0 or (op == "eq" and coefficient != 0)
    _check(below and above, f"{where}: nothing bounds {index}")


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        _check(name not in seen, f"two {what}s are called {name}")
        seen.add(name)


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidKernel(message)
