"""f16 and bf16 in C: their bits in a uint16_t, converted by integer arithmetic."""

from __future__ import annotations

from tdsl.codegen.text import C, call
from tdsl.codegen.unit import Unit
from tdsl.ir.types import ElemType

_TO_F32 = {
    "f16": """static inline float tdsl_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t magnitude = h & 0x7fff;
    uint32_t bits = (magnitude << 13) + 0x38000000;
    float x;
    if (magnitude >= 0x7c00)
        bits += 0x38000000;
    else if (magnitude < 0x0400) {
        x = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &x, sizeof bits);
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}""",
    "bf16": """static inline float tdsl_bf16_to_f32(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}""",
}
_FROM_F32 = {
    "f16": """static inline uint16_t tdsl_f32_to_f16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) {
        float y;
        memcpy(&y, &bits, sizeof y);
        y += 0.5f;
        memcpy(&bits, &y, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((bits - 0x38000000 + 0x0fff + (bits >> 13 & 1)) >> 13));
}""",
    "bf16": """static inline uint16_t tdsl_f32_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}""",
}


def to_f32(unit: Unit, arg: C, elem: ElemType) -> C:
    """The float that these bits are."""
    name = f"tdsl_{elem}_to_f32"
    unit.helper(name, _TO_F32[elem.name])
    return call(name, arg)


def from_f32(unit: Unit, arg: C, elem: ElemType) -> C:
    """The bits of the nearest value, ties to even."""
    name = f"tdsl_f32_to_{elem}"
    unit.helper(name, _FROM_F32[elem.name])
    return call(name, arg)
