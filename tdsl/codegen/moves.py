"""Data movement in C: stores past the caches, hints to fetch lines."""

from __future__ import annotations

from tdsl.codegen.text import PRODUCT, C, binary, call
from tdsl.codegen.unit import SCALARS, Unit, kept
from tdsl.ir.vector import VType

LINE = 64  # bytes of a cache line
MOST_HINTS = 8  # without a loop

PREFETCH = """static inline void {name}(uintptr_t first, int64_t bytes)
{{
    const uintptr_t end = first + (uintptr_t)bytes;
    for (uintptr_t line = first & ~(uintptr_t){last}; bytes > 0 && line < end; line += {line})
        __builtin_prefetch((const void *)line, {write}, 3);
}}"""


def few(bytes: int) -> bool:
    """Whether the hints for so many bytes are written out."""
    return 0 < bytes <= MOST_HINTS * LINE


def prefetch_few(unit: Unit, buffer: str, offset: C, count: C, size: int, *, write: bool) -> C:
    """As `prefetch`, without a loop: `count` is a number, of a `few` bytes.

    Elements that start inside a line end in one more, which is not asked for: most often the next
    hint begins there, and a hint too many costs more than one too few.
    """
    bytes = int(count.text) * size
    name = f"tdsl_prefetch_{'write' if write else 'read'}_{bytes}"
    hints = [
        f"    __builtin_prefetch((const void *)(first + {at}), {int(write)}, 3);"
        for at in range(0, bytes, LINE)
    ]
    unit.helper(name, "\n".join([f"static inline void {name}(uintptr_t first)", "{", *hints, "}"]))
    return call(name, C(f"(uintptr_t){buffer} + (uintptr_t)({offset.text}) * {size}"))


def prefetch(unit: Unit, buffer: str, offset: C, count: C, size: int, *, write: bool) -> C:
    """Hints for the lines of `count` elements. The addresses may lie outside the array: they are
    numbers, so that C defines their arithmetic."""
    name = "tdsl_prefetch_write" if write else "tdsl_prefetch_read"
    text = PREFETCH.format(name=name, last=LINE - 1, line=LINE, write=int(write))
    unit.helper(name, text)
    first = f"(uintptr_t){buffer} + (uintptr_t)({offset.text}) * {size}"
    return call(name, C(first), binary("*", PRODUCT, count, C(str(size))))


def misaligned(address: C, bytes: int, size: int) -> C:
    """Elements from the last multiple of `bytes` up to an address."""
    return C(f"(int64_t)((uintptr_t){address.text} % {bytes} / {size})", 11)


def stream_store(unit: Unit, type: VType, address: C, value: C, *, aligned: bool) -> C | None:
    """A store past the caches: where the address has to be tested, by a helper. None where the
    target has none."""
    elem = kept(type.elem)
    found = unit.apply("stream", elem, type.lanes, address, value)
    if found is None or aligned:
        return found
    name = f"tdsl_stream_{elem}x{type.lanes}"
    bytes = type.elem.bytes * type.lanes
    p, v = C("p"), C("v")
    direct = unit.apply("stream", elem, type.lanes, p, v)
    plain = unit.apply("store", elem, type.lanes, p, v)
    assert direct is not None and plain is not None
    body = [
        f"if ((uintptr_t)p % {bytes} == 0)",
        f"    {direct.text};",
        "else",
        f"    {plain.text};",
    ]
    unit.function("void", name, [f"{SCALARS[elem]} *p", f"{unit.ctype(type)} v"], body)
    return call(name, address, value)


def fence(unit: Unit) -> list[str]:
    """The instruction that orders stores past the caches; none where there are no such stores."""
    found = unit.apply("stream.fence", "u8", 1)
    return [] if found is None else [f"{found.text};"]
