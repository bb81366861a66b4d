"""Instructions of NEON that multiply by one lane of a vector, or by one group of lanes."""

from __future__ import annotations

from tdsl.targets.target import Target

# Element -> suffix: `fma` and `fnma` of whole registers.
_FUSED = {"f32": "f32", "f64": "f64"}
# (first, second, the one of which a group is taken): C over the sum, the other one, this one and
# the number of the group; what the processor must have. Sums of integers are s32.
_UNSIGNED = "vreinterpretq_s32_u32(vdotq_laneq_u32(vreinterpretq_u32_s32({0}), {1}, {2}, {3}))"
_BF16 = "vbfdotq_laneq_f32({0}, vreinterpretq_bf16_u16({1}), vreinterpretq_bf16_u16({2}), {3})"
_DOTS = {
    ("i8", "i8", 0): ("vdotq_laneq_s32({0}, {1}, {2}, {3})", "dotprod"),
    ("i8", "i8", 1): ("vdotq_laneq_s32({0}, {1}, {2}, {3})", "dotprod"),
    ("u8", "u8", 0): (_UNSIGNED, "dotprod"),
    ("u8", "u8", 1): (_UNSIGNED, "dotprod"),
    ("u8", "i8", 0): ("vsudotq_laneq_s32({0}, {1}, {2}, {3})", "i8mm"),
    ("u8", "i8", 1): ("vusdotq_laneq_s32({0}, {1}, {2}, {3})", "i8mm"),
    ("bf16", "bf16", 0): (_BF16, "bf16"),
    ("bf16", "bf16", 1): (_BF16, "bf16"),
}
REGISTER = 16  # bytes


def fused_by_lane(target: Target, op: str, elem: str) -> str | None:
    """`fma` or `fnma` by a lane: C over what is added to, the vector, the other one, the lane."""
    if target.family != "neon" or op not in ("fma", "fnma") or elem not in _FUSED:
        return None
    name = "vfmaq" if op == "fma" else "vfmsq"
    return f"{name}_laneq_{_FUSED[elem]}({{0}}, {{1}}, {{2}}, {{3}})"


def dot_by_group(target: Target, first: str, second: str, which: int) -> tuple[str, str] | None:
    """A sum of groups of products where operand `which` is one group: C, and what it needs."""
    found = _DOTS.get((first, second, which)) if target.family == "neon" else None
    return found if found is not None and found[1] in target.features else None
