"""Helpers that go lane by lane: for what a target has no instruction for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tdsl.codegen.text import C, call, wrap
from tdsl.codegen.unit import SCALARS, Unit, kept
from tdsl.ir.types import ElemType
from tdsl.ir.vector import VType


def per_lane(
    unit: Unit,
    name: str,
    args: Sequence[C],
    source: VType,
    result: VType,
    value: Callable[[Sequence[C]], C],
) -> C:
    """A helper that applies a scalar expression to each lane; lanes beyond are unspecified."""
    register, ctype = unit.ctype(source), unit.ctype(result)
    letters = "abc"[: len(args)]
    physical = unit.physical(source.elem, source.lanes)
    elem = SCALARS[kept(source.elem)]
    same = kept(source.elem) == kept(result.elem)
    body = []
    for letter in letters:
        body.append(f"{elem} {letter}s[{physical}];")
        body.append(f"memcpy({letter}s, &{letter}, sizeof {letter}s);")
    text = value([C(f"{letter}s[l]") for letter in letters]).text
    loop = f"for (int l = 0; l < {source.lanes}; l++)"
    if result.is_mask:
        body += _mask_of_lanes(unit, result, loop, text)
        unit.function(ctype, name, [f"{register} {letter}" for letter in letters], body)
        return call(name, *args)
    out = "as"
    if not same:
        out = "rs"
        count = unit.physical(result.elem, result.lanes)
        body += [f"{ctype} r;", f"{SCALARS[kept(result.elem)]} rs[{count}] = {{0}};"]
    body.append(loop)
    body += wrap(f"    {out}[l] = {text};")
    final = "a" if same else "r"
    body += [f"memcpy(&{final}, {out}, sizeof {final});", f"return {final};"]
    unit.function(ctype, name, [f"{register} {letter}" for letter in letters], body)
    return call(name, *args)


def _mask_of_lanes(unit: Unit, mask: VType, loop: str, test: str) -> list[str]:
    """Statements that make a mask `r` of a test of lane l, and return it."""
    ctype = unit.ctype(mask)
    if unit.target.has_mask_registers:
        return [
            f"{ctype} r = 0;", loop, *wrap(f"    r |= ({ctype})(({ctype})({test}) << l);"),
            "return r;",
        ]  # fmt: skip
    elem = unit.mask_elem(mask)
    count = unit.physical(elem, mask.lanes)
    return [
        f"{ctype} r;", f"{SCALARS[elem.name]} rs[{count}] = {{0}};", loop,
        *wrap(f"    rs[l] = ({SCALARS[elem.name]})-({test});"),
        "memcpy(&r, rs, sizeof r);", "return r;",
    ]  # fmt: skip


def mask_test(unit: Unit, mask: VType) -> tuple[list[str], str]:
    """Statements that make mask `m` readable, and the test of its lane l."""
    if unit.target.has_mask_registers:
        return [], "(m >> l & 1) != 0"
    elem = unit.mask_elem(mask)
    count = unit.physical(elem, mask.lanes)
    return [
        f"{SCALARS[elem.name]} ms[{count}];",
        "memcpy(ms, &m, sizeof ms);",
    ], "ms[l] != 0"


def load_lanes(
    unit: Unit, type: VType, address: C, *, stride: C | None, mask: tuple[C, VType] | None
) -> C:
    """A load that touches its lanes one by one, those of the mask alone; the others are 0."""
    name, parameters, args, body = _access("load", unit, type, address, stride, mask)
    elem, ctype = SCALARS[kept(type.elem)], unit.ctype(type)
    count = unit.physical(type.elem, type.lanes)
    place = "p[l * stride]" if stride is not None else "p[l]"
    body = [f"{ctype} v;", f"{elem} vs[{count}] = {{0}};", *body]
    body += _loop(unit, type.lanes, mask, f"vs[l] = {place};")
    body += ["memcpy(&v, vs, sizeof v);", "return v;"]
    parameters = [f"const {elem} *p", *parameters]
    unit.function(ctype, name, parameters, body)
    return call(name, *args)


def store_lanes(
    unit: Unit, type: VType, address: C, value: C, *, stride: C | None,
    mask: tuple[C, VType] | None,
) -> C:  # fmt: skip
    """A store that writes its lanes one by one, those of the mask alone."""
    name, parameters, args, body = _access("store", unit, type, address, stride, mask)
    elem, ctype = SCALARS[kept(type.elem)], unit.ctype(type)
    count = unit.physical(type.elem, type.lanes)
    place = "p[l * stride]" if stride is not None else "p[l]"
    body = [f"{elem} vs[{count}];", "memcpy(vs, &v, sizeof vs);", *body]
    body += _loop(unit, type.lanes, mask, f"{place} = vs[l];")
    parameters = [f"{elem} *p", *parameters, f"{ctype} v"]
    unit.function("void", name, parameters, body)
    return call(name, *args, value)


def gather_lanes(unit: Unit, type: VType, base: C, offset: C, mask: tuple[C, VType] | None) -> C:
    """Elements at offsets of their own."""
    name, parameters, args, body = _access("gather", unit, type, base, None, mask)
    elem, ctype = SCALARS[kept(type.elem)], unit.ctype(type)
    count = unit.physical(type.elem, type.lanes)
    index = VType(ElemType("i64", "int", 64), type.lanes)
    places = unit.physical(index.elem, index.lanes)
    body = [
        f"{ctype} v;",
        f"{elem} vs[{count}] = {{0}};",
        f"int64_t is[{places}];",
        "memcpy(is, &i, sizeof is);",
        *body,
    ]
    body += _loop(unit, type.lanes, mask, "vs[l] = p[is[l]];")
    body += ["memcpy(&v, vs, sizeof v);", "return v;"]
    parameters = [f"const {elem} *p", f"{unit.ctype(index)} i", *parameters]
    unit.function(ctype, name, parameters, body)
    return call(name, args[0], offset, *args[1:])


def _access(
    verb: str, unit: Unit, type: VType, address: C, stride: C | None,
    mask: tuple[C, VType] | None,
) -> tuple[str, list[str], list[C], list[str]]:  # fmt: skip
    """Name, parameters after the address, arguments, first statements."""
    name = f"tdsl_{'mask' if mask else ''}{verb}_{kept(type.elem)}x{type.lanes}"
    parameters: list[str] = []
    args, body = [address], list[str]()
    if stride is not None:
        name += "_strided"
        parameters.append("int64_t stride")
        args.append(stride)
    if mask is not None:
        parameters.append(f"{unit.ctype(mask[1])} m")
        args.append(mask[0])
        body = mask_test(unit, mask[1])[0]
    return name, parameters, args, body


def _loop(unit: Unit, lanes: int, mask: tuple[C, VType] | None, statement: str) -> list[str]:
    head = f"for (int l = 0; l < {lanes}; l++)"
    if mask is None:
        return [head, f"    {statement}"]
    return [head, f"    if ({mask_test(unit, mask[1])[1]})", f"        {statement}"]
