"""Mistakes that have an answer of their own, most of them habits of other languages.

A rule looks at the scene and answers None where it is not its mistake.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from tdsl.diagnostics import Note
from tdsl.syntax import habits
from tdsl.syntax.lexer import RESERVED
from tdsl.syntax.scene import CLOSER, Answer, Scene
from tdsl.syntax.vocabulary import (
    ABSENT,
    DIRECTIVES,
    ELEMENT_WORDS,
    ELSEWHERE,
    EXAMPLES,
    FILE_ITEMS,
    ITEM_EXAMPLES,
    OPERATORS,
)

# ---------------------------------------------------------------- brackets


_ROLES = ("in", "out", "inout", "const", "temp")
_RANGE_FOLLOWS = re.compile(r"[^\]\n]*(?:\.\.|:)")


def _unclosed_at_end(scene: Scene) -> Answer | None:
    if scene.kind != "$END" or not scene.open:
        return None
    opener = scene.open[-1]
    return Answer(
        f"this `{opener.text}` is never closed",
        f"write the `{CLOSER[opener.text]}` where what it holds ends",
        opener,
    )


def _unclosed_before_item(scene: Scene) -> Answer | None:
    """A block goes on into the next `kernel`, `schedule`, ..., which reads as a name there."""
    item = scene.span
    if not (scene.text in FILE_ITEMS and re.match(r"\s+[A-Za-z_]", scene.rest())):
        if scene.word(1) not in FILE_ITEMS or scene.kind != "NAME":
            return None
        item = scene.before[-1]
    line_start = item.source.text.rfind("\n", 0, item.start) + 1
    if not scene.open or item.source.text[line_start : item.start].strip():
        return None
    opener = scene.open[-1]
    return Answer(
        f"a `{CLOSER[opener.text]}` is missing before this `{item.text}`",
        None,
        item,
        (Note(f"the `{opener.text}` that is still open", opener),),
    )


def _wrong_closer(scene: Scene) -> Answer | None:
    if scene.text not in (")", "]", "}") or (scene.word(1) == "," and scene.open):
        return None
    opener = scene.open[-1] if scene.open else None
    if opener is None or (opener.text == "{" and scene.text != "}"):
        return Answer(f"this `{scene.text}` closes nothing", "leave it out")
    if CLOSER[opener.text] == scene.text:
        return None
    return Answer(
        f"`{scene.text}` cannot close `{opener.text}`: a `{CLOSER[opener.text]}` is missing",
        notes=(Note(f"the `{opener.text}` that is still open", opener),),
    )


def _after_comma(scene: Scene) -> Answer | None:
    if scene.word(1) != "," or scene.text not in (")", "]", "}", ">"):
        return None
    return Answer(
        "something is missing behind this comma",
        "leave out a comma behind the last of a list",
        scene.before[-1],
    )


def _missing_operand(scene: Scene) -> Answer | None:
    """An operator or `=` with nothing to its right, which shows only at the next word."""
    last = scene.word(1)
    if "NUMBER" not in scene.expected or scene.kind in ("NAME", "NUMBER") or scene.text == "+":
        return None
    if last not in OPERATORS and last not in ("=", "not", "where", "when", "by", ".."):
        return None
    found = f"`{scene.text}`" if scene.text else "the end of the text"
    return Answer(f"something is missing behind `{last}`, before {found}", None, scene.before[-1])


# ---------------------------------------------------------------- habits of other languages


def _comment(scene: Scene) -> Answer | None:
    line = scene.line()
    if scene.text == "//" and not line:
        return Answer("`//` divides; it starts no comment", "comments start with `#`")
    if "//" in line and scene.kind == "NAME" and re.match(r"\w", scene.word(1)):
        place = next(s for s in reversed(scene.before) if s.text == "//")
        return Answer("`//` divides; it starts no comment", "comments start with `#`", place)
    return None


def _absent(scene: Scene) -> Answer | None:
    """`if`, `while`, `return`, ...: words of other languages."""
    for word, span in ((scene.text, scene.span), (scene.word(1), None)):
        if word in ABSENT and scene.text != "[" and scene.text != ".":
            place = span or scene.before[-1]
            help = "write `when`" if "when" in scene.expected else ABSENT[word]
            return Answer(f"there is no `{word}` in the language", help, place)
    return None


def _c_declaration(scene: Scene) -> Answer | None:
    if scene.kind != "NAME" or scene.word(1) not in ELEMENT_WORDS or scene.inside() != "{":
        return None
    return Answer(
        "a declaration starts with its role and ends with its type",
        f"write for example `in {scene.text}: f32[N]`, or `temp`, `out`, `inout` or `const`",
        scene.before[-1],
    )


def _semicolon(scene: Scene) -> Answer | None:
    if scene.text != ";":
        return None
    return Answer("`;` does not end anything here", "leave it out: items need no separator")


def _slice(scene: Scene) -> Answer | None:
    if scene.text != ":" or scene.inside() != "[":
        return None
    return Answer(
        "there are no slices: an equation is written for one element",
        "name the index and limit it: `y[i] = x[i] where 1 <= i < 3`, or `sum[i in 1..3](x[i])`",
    )


def _python_block(scene: Scene) -> Answer | None:
    if scene.text != ":" or scene.word(1) == ":":
        return None
    line = scene.line()
    if line[:1] == ["def"] and scene.inside() == "(":
        return Answer("the parameters of a `def` have no types", "write `def f(x) = max(x, 0.0)`")
    if line[:1] == ["def"]:
        return Answer("a `def` is one expression", "write `def f(x) = max(x, 0.0)`")
    if scene.word(1) in (")", "]") or line[:1] == ["for"]:
        return Answer("a block stands in braces", "write `{ ... }` instead of `:`")
    return None


def _braces_of_def(scene: Scene) -> Answer | None:
    if scene.text != "{" or scene.line()[:1] != ["def"]:
        return None
    return Answer("a `def` is one expression", "write `def f(x) = max(x, 0.0)`")


def _c_for(scene: Scene) -> Answer | None:
    help = "write `for i in 0..N { ... }`"
    line = scene.line()
    if scene.text == "(" and scene.word(1) == "for":
        return Answer("a `for` names its index and its range", help)
    if "for" in line and line[line.index("for") + 2 : line.index("for") + 4] == ["in", "range"]:
        return Answer("a `for` runs over `lo..hi`", help)
    return None


def _range(scene: Scene) -> Answer | None:
    """Ranges as other languages write them, of a `for` or a reduction."""
    loop = "for" in scene.line() and scene.inside() not in ("[", "(")
    help = "write `for i in 0..N { ... }`" if loop else "write `sum[k in 0..N](x[k])`"
    if scene.text == "=" and (scene.expected == {"in"} or _RANGE_FOLLOWS.match(scene.rest())):
        return Answer("a range is written `k in lo..hi`", help)
    if scene.text == "in" and scene.inside() == "(" and scene.word(1).isidentifier():
        return Answer("a reduction lists its indices in brackets, before its term", help)
    if ".." in scene.expected and scene.text not in ("=", ""):
        return Answer("a range has two ends, with `..` between them", help)
    return None


def _equals(scene: Scene) -> Answer | None:
    if scene.text == "=" and "==" in scene.expected:
        return Answer("`=` defines, it does not compare", "write `==`")
    if scene.text == "==" and "=" in scene.expected:
        return Answer("`==` compares, it does not define", "write `=`")
    return None


def _update_by(scene: Scene) -> Answer | None:
    if scene.text not in ("/", "//", "%", "&", "|", "^") or "+=" not in scene.expected:
        return None
    return Answer(
        f"there is no update with `{scene.text}=`",
        "updates are `+=`, `-=`, `*=`, `min=` and `max=`",
    )


def _call_as_element(scene: Scene) -> Answer | None:
    if scene.text != "(" or "+=" not in scene.expected:
        return None
    name = scene.word(1)
    if re.match(r"[^()\n]*\)\s*[-+*]?=", scene.rest()):
        return Answer("the indices of an array stand in brackets", f"write `{name}[...] = ...`")
    return Answer(
        "a call alone does nothing: an equation gives its value to an array",
        f"write for example `y[i] = {name}(x[i])`",
    )


def _no_equation(scene: Scene) -> Answer | None:
    """A name or element where an item starts, without `=`."""
    if "+=" not in scene.expected or scene.text in ("==", "<", ".", "("):
        return None
    place, depth = len(scene.before) - 1, 0
    while place > 0 and (depth or scene.before[place].text == "]"):
        depth += {"]": 1, "[": -1}.get(scene.before[place].text, 0)
        place -= 1
    target = scene.before[place].to(scene.before[-1])
    if scene.kind == "NAME" and ":" in scene.expected:
        return Answer(
            f"this starts an equation, but neither `=` nor `:` follows `{target.text}`",
            f"write `{target.text}: {scene.text}...` if it is a label; else an operator is missing",
            target,
        )
    return Answer(
        f"this starts an equation, but no `=` follows `{target.text}`",
        "if it belongs to what stands before it, an operator is missing there",
        target,
    )


def _list(scene: Scene) -> Answer | None:
    if scene.text != "[" or "NUMBER" not in scene.expected:
        return None
    return Answer(
        "a list of values stands only in a `const` table",
        "write for example `const w: f32[3] = [1, 2, 1]`, and `w[i]` here",
    )


def _empty_brackets(scene: Scene) -> Answer | None:
    if scene.text != "]" or scene.word(1) != "[" or "NUMBER" not in scene.expected:
        return None
    return Answer("these brackets hold no index", "a scalar is written without brackets")


def _second_where(scene: Scene) -> Answer | None:
    if scene.text != "where" or "where" not in scene.line():
        return None
    return Answer("there is one `where` to an equation", "join its conditions by `and`")


# ---------------------------------------------------------------- numbers and names


def _point(scene: Scene) -> Answer | None:
    if scene.text == "." and re.match(r"\d", scene.rest()):
        return Answer("a number has digits on both sides of its point", "write `0.5` for `.5`")
    if scene.word(1) == "." and scene.word(2).isdigit():
        number = scene.before[-2].to(scene.before[-1])
        text = number.text
        return Answer("a number has digits on both sides of its point", f"write `{text}0`", number)
    return None


def _plus_sign(scene: Scene) -> Answer | None:
    if scene.text != "+" or "NUMBER" not in scene.expected:
        return None
    return Answer("there is no sign `+`", "leave it out")


def _reserved(scene: Scene) -> Answer | None:
    if scene.text not in RESERVED or "NAME" not in scene.expected or "NUMBER" in scene.expected:
        return None
    if scene.text == "for" and scene.word(1) == "schedule":
        return Answer(
            "a schedule names the kernel that it belongs to", "write `schedule f for any { ... }`"
        )
    return Answer(
        f"`{scene.text}` is a word of the language and cannot be a name",
        f"choose another name, such as `{scene.text}_`",
    )


# ---------------------------------------------------------------- kernels and schedules


def _declared_type(scene: Scene) -> Answer | None:
    if scene.expected == {"type"}:
        return Answer(
            "a constant is declared without a type",
            "write `<pad = 1>`; an element type is declared as `<T: type = f32>`",
        )
    line = scene.line()
    if not line or line[0] not in _ROLES or not scene.expected <= {",", ":"}:
        return None
    if scene.kind == "NAME":
        return Answer(
            f"`:` is missing before `{scene.text}`", f"write for example `{ITEM_EXAMPLES[line[0]]}`"
        )
    return Answer(
        "a declaration names a type behind `:`", f"write for example `{ITEM_EXAMPLES[line[0]]}`"
    )


def _comma_between_items(scene: Scene) -> Answer | None:
    if scene.text != "," or scene.inside() != "{" or "NAME" not in scene.expected:
        return None
    return Answer("`,` does not separate items", "leave it out: items need no separator")


def _import(scene: Scene) -> Answer | None:
    if scene.line()[:1] != ["import"]:
        return None
    return Answer(
        "an import is one bare name, without folder and ending",
        "write `import ops` for a file ops.tdsl beside this one",
    )


def _kernel_sizes(scene: Scene) -> Answer | None:
    words = [s.text for s in scene.before]
    help = "write `kernel f(N) { in x: f32[N] ... }`"
    if words[-2:-1] == ["kernel"] and scene.text in ("{", ":", "for"):
        message = "a kernel lists its sizes in parentheses, also where it has none"
        return Answer(message, "write `kernel f(N) { ... }` or `kernel f() { ... }`")
    if scene.inside() != "(" or not scene.expected <= {",", ")", "NAME"}:
        return None
    place = len([s for s in scene.before if s.end <= scene.open[-1].start])
    if "kernel" not in words[max(0, place - 2) : place] and words[place - 1 : place] != [">"]:
        return None
    if scene.text == "=":
        return Answer("a size has no default", "write constants as `kernel f<pad = 1>(N) { ... }`")
    message = "the parentheses of a kernel list its sizes; arrays are declared in its body"
    return Answer(message, help)


def _schedule_target(scene: Scene) -> Answer | None:
    if "for" not in scene.expected or "schedule" not in scene.line():
        return None
    start = scene.line()[scene.line().index("schedule") :]
    return Answer(
        "a schedule names the targets it is for",
        f"write `schedule {''.join(start[1:])} for any {{ ... }}`",
    )


def _parentheses_of_directive(scene: Scene) -> Answer | None:
    if scene.text != "(" or scene.word(1) not in DIRECTIVES or scene.expected != {"NAME"}:
        return None
    return Answer(
        "a directive takes no parentheses", f"write for example `{EXAMPLES[scene.word(1)]}`"
    )


def _directive(scene: Scene) -> Answer | None:
    if scene.kind != "NAME" or not scene.expected >= {"split", "tile"}:
        return None
    line = scene.line()
    first = not line or line[-1] in ("{", "}")
    close = difflib.get_close_matches(scene.text, DIRECTIVES, 1, 0.6 if first else 0.8)
    method = re.match(r"(?:\.\w+)*\.([a-z]+)\(", scene.rest())
    if method and method.group(1) in DIRECTIVES:
        return Answer(
            "methods belong to Python; here stand directives",
            f"write for example `{EXAMPLES[method.group(1)]}`",
        )
    if scene.text in ELSEWHERE:
        known = EXAMPLES[ELSEWHERE[scene.text]]
        return Answer(f"`{scene.text}` is not a directive", f"write for example `{known}`")
    if close:
        return Answer(f"`{scene.text}` is not a directive", f"did you mean `{close[0]}`?")
    if not first:
        used = next((w for w in reversed(line) if w in DIRECTIVES), None)
        help = f"write for example `{EXAMPLES[used]}`" if used else None
        return Answer(f"`{scene.text}` does not go on with this directive", help)
    return Answer(
        f"`{scene.text}` is not a directive", f"the directives are {', '.join(DIRECTIVES)}"
    )


def _new_names(scene: Scene) -> Answer | None:
    if "->" not in scene.expected:
        return None
    used = next((s.text for s in reversed(scene.before) if s.text in DIRECTIVES), None)
    return Answer(
        f"`{used}` wants `->` and the names of the new loops",
        f"write for example `{EXAMPLES[used]}`" if used else None,
    )


def _missing_by(scene: Scene) -> Answer | None:
    used = next((s.text for s in reversed(scene.before) if s.text in DIRECTIVES), None)
    if "by" not in scene.expected or used is None or scene.kind not in ("NUMBER", "NAME"):
        return None
    if scene.kind == "NAME" and scene.expected >= {"split", "tile"}:
        return None
    return Answer("`by` is missing here", f"write for example `{EXAMPLES[used]}`")


def _init(scene: Scene) -> Answer | None:
    """`parallel S.init.i`"""
    texts = [s.text for s in scene.before[-3:]]
    if scene.text != "." or len(texts) < 3 or texts[1:] != [".", "init"]:
        return None
    owner = texts[0]
    return Answer(f"{owner}.init follows {owner}: its loops cannot be named", f"name {owner}")


def _file_item(scene: Scene) -> Answer | None:
    if not scene.expected >= {"kernel", "schedule"} or scene.kind == "$END":
        return None
    close = difflib.get_close_matches(scene.text, FILE_ITEMS, 1, 0.7)
    if close and scene.text not in FILE_ITEMS:
        return Answer(f"a file has no item `{scene.text}`", f"did you mean `{close[0]}`?")
    if scene.line() or scene.expected & {"+", ","}:
        return None
    return Answer(
        f"`{scene.text}` starts no item of a file",
        f"the items are {', '.join(FILE_ITEMS)}; equations stand in a `kernel`",
    )


# In the order in which they are asked.
RULES: tuple[Callable[[Scene], Answer | None], ...] = (
    _unclosed_at_end,
    _unclosed_before_item,
    _comment,
    _c_for,
    _range,
    _absent,
    _slice,
    _init,
    habits.dimensions,
    habits.method,
    habits.factor_by_comma,
    habits.list_of_loops,
    _empty_brackets,
    _list,
    _second_where,
    _python_block,
    _braces_of_def,
    _wrong_closer,
    _after_comma,
    _point,
    _missing_operand,
    _c_declaration,
    _equals,
    _update_by,
    _call_as_element,
    _declared_type,
    _comma_between_items,
    _import,
    habits.nested_item,
    habits.bare_term,
    habits.cast,
    _no_equation,
    _plus_sign,
    _kernel_sizes,
    _schedule_target,
    _parentheses_of_directive,
    _missing_by,
    _directive,
    _new_names,
    _semicolon,
    _reserved,
    _file_item,
)
