"""Habits of other languages that show only at a later token; more rules for `mistakes`."""

from __future__ import annotations

from tdsl.diagnostics import Span
from tdsl.syntax.scene import Answer, Scene
from tdsl.syntax.vocabulary import ELEMENT_WORDS, FILE_ITEMS, REDUCTIONS


def _target(scene: Scene) -> tuple[int, Span] | None:
    """What stands where an item could start: `x` or `x[i]`, and its place among the tokens."""
    if "+=" not in scene.expected or not scene.before:
        return None
    start = _opening(scene, len(scene.before) - 1)
    return start, scene.before[start].to(scene.before[-1])


def _opening(scene: Scene, place: int) -> int:
    """Back from a `]` to the name in front of its `[`; from another token, that token."""
    depth = 0
    while place > 0 and (depth or scene.before[place].text == "]"):
        depth += {"]": 1, "[": -1}.get(scene.before[place].text, 0)
        place -= 1
    return place


def nested_item(scene: Scene) -> Answer | None:
    """A `schedule` in the block of a kernel."""
    found = _target(scene)
    if found is None or found[1].text not in FILE_ITEMS or scene.block() != "kernel":
        return None
    word = found[1]
    if not (scene.kind == "NAME" or (word.text == "schedule" and scene.text == "{")):
        return None
    words = [s.text for s in scene.before]
    help = "close the kernel with `}` before it"
    if word.text == "schedule":
        kernel = next(
            b for a, b in zip(words[::-1][1:], words[::-1], strict=False) if a == "kernel"
        )
        help += f", and write `schedule {kernel} for any {{ ... }}`"
    return Answer(f"a `{word.text}` stands beside a kernel, not in it", help, word)


def bare_term(scene: Scene) -> Answer | None:
    """`sum[i] x[i]`."""
    found = _target(scene)
    if found is None or not found[0] or scene.before[found[0] - 1].text != "]":
        return None
    start = _opening(scene, found[0] - 1)
    if scene.before[start].text not in REDUCTIONS:
        return None
    head = scene.before[start].to(scene.before[found[0] - 1]).text
    return Answer(
        f"the term of `{head}` stands in parentheses",
        f"write `{head}({found[1].text})`, with the whole term in them",
        found[1],
    )


def cast(scene: Scene) -> Answer | None:
    """`(f32)x[i]`."""
    found = _target(scene)
    if found is None or found[0] < 3:
        return None
    first, word, last = scene.before[found[0] - 3 : found[0]]
    if (first.text, last.text) != ("(", ")") or word.text not in ELEMENT_WORDS:
        return None
    return Answer(
        "a conversion is written like a call of the type",
        f"write `{_TYPES.get(word.text, word.text)}({found[1].text})`",
        first.to(found[1]),
    )


_TYPES = {
    "float": "f32", "double": "f64", "int": "i32", "char": "i8", "short": "i16", "long": "i64",
    "unsigned": "u32", "size_t": "u64",
}  # fmt: skip


def dimensions(scene: Scene) -> Answer | None:
    """`x[i][j]`, also of extents."""
    if scene.text != "[" or scene.word(1) != "]":
        return None
    return Answer("one pair of brackets holds all dimensions", "write `[M, N]` for `[M][N]`")


def method(scene: Scene) -> Answer | None:
    """`np.sum(x)`, `x[i].astype(f32)`."""
    if scene.text != "(" or scene.word(2) != "." or scene.block() not in ("kernel", "def"):
        return None
    name = scene.word(1)
    if name == "astype":
        help = "convert by the name of the type: `f32(x[i])`"
    elif name in REDUCTIONS:
        help = f"write `{name}[i](x[i])`"
    else:
        help = f"write `{name}(...)`, where that is a function of the language or a `def`"
    return Answer(
        "there are no methods and no modules", help, scene.before[-2].to(scene.before[-1])
    )


def factor_by_comma(scene: Scene) -> Answer | None:
    """`vectorize j, 8`."""
    if scene.kind != "NUMBER" or scene.word(1) != "," or scene.block() not in _SCHEDULES:
        return None
    used = next((w for w in reversed(scene.line()) if w in _BY), None)
    if used is None or "NUMBER" in scene.expected:
        return None
    return Answer("a number stands behind `by`", f"write for example `{_BY[used]}`", scene.span)


_SCHEDULES = ("schedule", "recipe")
_BY = {
    "vectorize": "vectorize j by 8",
    "unroll": "unroll i by 4",
    "split": "split i by 8 -> io, ii",
    "tile": "tile i, j by 32, 64 -> io, jo, ii, ji",
}


def list_of_loops(scene: Scene) -> Answer | None:
    """`tile [i, j] by [8, 8]`."""
    if scene.text != "[" or scene.block() not in _SCHEDULES or "[" in scene.expected:
        return None
    if scene.word(1) not in (*_BY, "reorder", "by", "->"):
        return None
    return Answer(
        "lists in a directive have no brackets",
        "write for example `tile i, j by 32, 64 -> io, jo, ii, ji`",
    )
