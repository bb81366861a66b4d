"""Values of the vector level as C expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from tdsl.codegen.by_lane import dot_by_group, fused_by_lane
from tdsl.codegen.casts import vector_cast
from tdsl.codegen.dots import dot, join, part, repeat, repeat_load
from tdsl.codegen.index import IndexPrinter
from tdsl.codegen.lanes import gather_lanes, load_lanes, per_lane, store_lanes
from tdsl.codegen.literals import literal
from tdsl.codegen.masks import first_lanes, reduce_mask, uniform
from tdsl.codegen.moves import stream_store
from tdsl.codegen.reduce import reduce_lanes
from tdsl.codegen.scalar import scalar_cast, scalar_op
from tdsl.codegen.text import C, binary, call, cast, ternary
from tdsl.codegen.unit import SCALARS, Unit, kept
from tdsl.codegen.vectors import choose, plain_op, splat, vector_op
from tdsl.elementary import is_elementary, is_large
from tdsl.ir.kernel import Const as IndexConst
from tdsl.ir.kernel import Expr
from tdsl.ir.types import F64, TYPES
from tdsl.ir.vector import (
    Cast,
    Choose,
    Column,
    Condition,
    Const,
    Dot,
    FirstLanes,
    Gather,
    Iota,
    Join,
    Load,
    Op,
    Part,
    Reduce,
    Ref,
    Repeat,
    Slide,
    Splat,
    Store,
    Value,
    VType,
)
from tdsl.ir.walk_vector import uniform_part


@dataclass(frozen=True)
class ValuePrinter:
    """`name(kind, name)` gives the C name of a buffer or variable; `by_value`: scalar arguments."""

    unit: Unit
    name: Callable[[str, str], str]
    index: IndexPrinter
    by_value: frozenset[str]

    def __call__(self, value: Value) -> C:
        unit, type = self.unit, value.type
        match value:
            case Const(number):
                if type.is_mask:
                    return uniform(unit, C("1" if number else "0"), type)
                scalar = literal(unit, number, type.elem)
                return scalar if type.lanes == 1 else splat(unit, scalar, type)
            case Ref(name):
                return C(self.name("value", name))
            case Iota(base, step):
                return self._iota(base, step, type)
            case Splat(arg) if type.is_mask and type.lanes > 1:
                return uniform(unit, self(arg), type)
            case Splat(arg):
                return splat(unit, self(arg), type) if type.lanes > 1 else self(arg)
            case Load():
                return self._load(value)
            case Gather(buffer, offset, _, mask):
                array = C(self.name("buffer", buffer))
                if type.lanes == 1:
                    element = C(f"{array.text}[{self(offset).text}]")
                    return element if mask is None else ternary(self(mask), element, C("0"))
                return gather_lanes(unit, type, array, self(offset), self._mask(mask))
            case Op(op, args):
                if (fused := fused_by_lane(unit, value, self)) is not None:
                    return fused
                printed = [self(a) for a in args]
                if is_elementary(op, type.elem):
                    return unit.elementary(op, type, printed[0])
                if is_large(op):
                    return self._large(op, printed[0], type)
                if type.lanes == 1:
                    return scalar_op(unit, op, printed, args[0].type.elem)
                return vector_op(unit, value, printed)
            case Cast(mode, arg):
                if type.lanes == 1:
                    return scalar_cast(unit, mode, self(arg), arg.type.elem, type.elem)
                return vector_cast(unit, mode, self(arg), arg.type, type)
            case Choose(mask, then, other):
                if type.lanes == 1:
                    return ternary(self(mask), self(then), self(other))
                return self._choose(mask, then, other, type)
            case FirstLanes(count):
                if type.lanes == 1:
                    return binary(">", 7, self.index(count), C("0"))
                return first_lanes(unit, self.index(count), type)
            case Condition(condition):
                printed_condition = self.index(condition)
                return (
                    printed_condition if type.lanes == 1 else uniform(unit, printed_condition, type)
                )
            case Reduce(op, arg):
                if arg.type.lanes == 1:
                    return self(arg)
                if arg.type.is_mask:
                    return reduce_mask(unit, op, self(arg), arg.type)
                return reduce_lanes(unit, op, self(arg), arg.type)
            case Repeat(Load(buffer, offset, of, None, None)):
                return repeat_load(unit, self.address(buffer, offset), of, type)
            case Repeat(arg):
                return repeat(unit, self(arg), arg.type, type)
            case Join(low, high):
                return join(unit, self(low), self(high), type)
            case Slide(low, high, start):
                parts = (self(low), self(high), C(str(start)))
                found = unit.apply("slide", kept(type.elem), type.lanes, *parts)
                assert found is not None, "vectors are slid where there is a row"
                return found
            case Part(arg, start):
                return part(unit, self(arg), start, arg.type, type)
            case Dot(acc, first, second):
                by_group = dot_by_group(unit, value, self)
                if by_group is not None:
                    return by_group
                return dot(unit, value, [self(acc), self(first), self(second)])
            case Column(rows, lane):
                return self._column(rows, lane, type)
            case _:
                assert_never(value)

    def address(self, buffer: str, offset: Expr) -> C:
        """`&x[offset]`."""
        return C(f"&{self.name('buffer', buffer)}[{self.index(offset).text}]", 11)

    def _column(self, rows: Sequence[Value], lane: int, type: VType) -> C:
        """One column alone, lane by lane."""
        of = rows[0].type
        name = f"tdsl_column_{kept(of.elem)}x{of.lanes}x{len(rows)}"
        elem, ctype = SCALARS[kept(of.elem)], self.unit.ctype(type)
        register, physical = self.unit.ctype(of), self.unit.physical(of.elem, of.lanes)
        count = self.unit.physical(type.elem, type.lanes)
        body = [
            f"{elem} ms[{len(rows)}][{physical}], vs[{count}] = {{0}};",
            f"{ctype} v;",
            "memcpy(ms, m, sizeof ms);",
            f"for (int l = 0; l < {len(rows)}; l++)",
            "    vs[l] = ms[l][lane];",
            "memcpy(&v, vs, sizeof v);",
            "return v;",
        ]
        self.unit.function(ctype, name, [f"const {register} *m", "int lane"], body)
        listed = ", ".join(self(row).text for row in rows)
        return call(name, C(f"({register}[]){{{listed}}}"), C(str(lane)))

    def _mask(self, mask: Value | None) -> tuple[C, VType] | None:
        return None if mask is None else (self(mask), mask.type)

    def _choose(self, mask: Value, then: Value, other: Value, type: VType) -> C:
        if type.is_mask:
            chosen = binary("&", 5, self(mask), self(then))
            rest = binary("&", 5, C(f"~{self(mask).at(11)}", 11), self(other))
            return binary("|", 3, chosen, rest)
        return choose(self.unit, self(mask), self(then), self(other), type)

    def _iota(self, base: Expr, step: int, type: VType) -> C:
        start = self.index(base)
        if type.lanes == 1:
            return start
        of = VType(TYPES["i64"], type.lanes)
        lanes = self.unit.physical(of.elem, of.lanes)
        plain = self.unit.gnu("i64", 8, lanes)
        steps = ", ".join(str(step * lane) for lane in range(lanes))
        offsets = C(f"({self.unit.ctype(of)})({plain}){{{steps}}}", 11)
        if isinstance(base, IndexConst) and base.value == 0:
            return offsets
        return plain_op(self.unit, "add", [splat(self.unit, start, of), offsets], of, of)

    def _large(self, op: str, arg: C, type: VType) -> C:
        """One f64 after the other."""

        def single(scalar: C) -> C:
            if type.elem == F64:
                return self.unit.elementary(op, VType(F64), scalar)
            return cast("float", self.unit.elementary(op, VType(F64), cast("double", scalar)))

        if type.lanes == 1:
            return single(arg)
        name = f"tdsl_{op}_{type}"
        return per_lane(self.unit, name, [arg], type, type, lambda s: single(s[0]))

    # ------------------------------------------------------------ memory

    def _load(self, load: Load) -> C:
        type, stride = load.type, load.stride
        if load.mask is not None and type.lanes > 1 and not self.unit.target.has_mask_registers:
            parts = uniform_part(load.mask)
            if parts is not None:
                # A test of one condition takes no register, and leaves a plain load.
                some = self._load(replace(load, mask=parts[1]))
                none = self(Const(0.0 if type.elem.is_float else 0, type))
                return ternary(self(parts[0]), some, none)
        mask = self._mask(load.mask)
        if load.buffer in self.by_value:
            return C(self.name("buffer", load.buffer))
        if type.lanes == 1:
            element = C(f"{self.name('buffer', load.buffer)}[{self.index(load.offset).text}]")
            return element if mask is None else ternary(mask[0], element, C("0"))
        address = self.address(load.buffer, load.offset)
        if stride is not None and stride != IndexConst(1, stride.type):
            return load_lanes(self.unit, type, address, stride=self.index(stride), mask=mask)
        elem, lanes = kept(type.elem), type.lanes
        found = None
        if mask is None:
            found = self.unit.apply("load", elem, lanes, address)
        else:
            usable = self._usable(mask, type)
            if usable is not None:
                physical = self.unit.physical(type.elem, lanes)
                found = self.unit.apply("maskload", elem, physical, address, usable)
        if found is not None:
            return found
        if mask is None:
            return self._part_load(type, address)
        return load_lanes(self.unit, type, address, stride=None, mask=mask)

    def _usable(self, mask: tuple[C, VType], type: VType) -> C | None:
        """The mask with no lane set beyond the type's, where that can be said."""
        physical = self.unit.physical(type.elem, type.lanes)
        if physical == type.lanes:
            return mask[0]
        if self.unit.target.has_mask_registers:
            return binary("&", 5, mask[0], C(f"0x{(1 << type.lanes) - 1:x}"))
        return None

    def _part_load(self, type: VType, address: C) -> C:
        """A vector narrower than any register."""
        elem, ctype = SCALARS[kept(type.elem)], self.unit.ctype(type)
        name = f"tdsl_load_{kept(type.elem)}x{type.lanes}"
        size = type.lanes * type.elem.bytes
        body = [f"{ctype} v = {{0}};", f"memcpy(&v, p, {size});", "return v;"]
        self.unit.function(ctype, name, [f"const {elem} *p"], body)
        return call(name, address)

    def store(self, store: Store) -> list[str]:
        """The statement that writes."""
        value, type, stride = self(store.value), store.value.type, store.stride
        mask = self._mask(store.mask)
        if type.lanes == 1:
            place = f"{self.name('buffer', store.buffer)}[{self.index(store.offset).text}]"
            line = f"{place} = {value.text};"
            return [line] if mask is None else [f"if ({mask[0].text})", f"    {line}"]
        address = self.address(store.buffer, store.offset)
        if stride is not None and stride != IndexConst(1, stride.type):
            step = self.index(stride)
            return [store_lanes(self.unit, type, address, value, stride=step, mask=mask).text + ";"]
        elem, lanes = kept(type.elem), type.lanes
        found = None
        if store.stream:
            found = stream_store(self.unit, type, address, value, aligned=store.aligned)
        if found is None and mask is None:
            found = self.unit.apply("store", elem, lanes, address, value)
        elif mask is not None:
            usable = self._usable(mask, type)
            if usable is not None:
                physical = self.unit.physical(type.elem, lanes)
                found = self.unit.apply("maskstore", elem, physical, address, usable, value)
        if found is None and mask is None:
            found = self._part_store(type, address, value)
        if found is None:
            found = store_lanes(self.unit, type, address, value, stride=None, mask=mask)
        return [found.text + ";"]

    def _part_store(self, type: VType, address: C, value: C) -> C:
        elem, ctype = SCALARS[kept(type.elem)], self.unit.ctype(type)
        name = f"tdsl_store_{kept(type.elem)}x{type.lanes}"
        size = type.lanes * type.elem.bytes
        self.unit.function("void", name, [f"{elem} *p", f"{ctype} v"], [f"memcpy(p, &v, {size});"])
        return call(name, address, value)
