"""The loop tree as text, for `tdsl show --stage tree`.

    for jo = j // 64
        for k
            unroll ii = i, tail cases
                vector ji = j
                    C[i, j] +=

A loop shows its coordinate unless that is the index of its own name.
"""

from __future__ import annotations

from tdsl.ir.kernel import Size, Var
from tdsl.polyhedral.from_isl import from_pw_aff
from tdsl.polyhedral.program import Program, Stmt
from tdsl.polyhedral.text import access_text, expr_text
from tdsl.polyhedral.tree import Leaf, Loop, Node, Seq, statements

WORDS = {"serial": "for", "parallel": "parallel", "vector": "vector", "unroll": "unroll",
         "dot": "dot", "transpose": "transpose"}  # fmt: skip
LONGEST = 60  # of a coordinate: a balanced split takes several lines to say
SIGNS = {"define": "=", "add": "+=", "sub": "-=", "mul": "*=", "min": "min=", "max": "max="}


def print_tree(program: Program, tree: Node) -> str:
    """One loop or statement a line, indented by four columns a level."""
    return "\n".join(_lines(program, tree, 0)) + "\n"


def _lines(program: Program, node: Node, depth: int) -> list[str]:
    pad = "    " * depth
    match node:
        case Leaf(name):
            return [pad + _statement(program.statements[name])]
        case Seq(children):
            return [line for c in children for line in _lines(program, c, depth)]
        case Loop():
            return [pad + _loop(program, node), *_lines(program, node.body, depth + 1)]


def _statement(stmt: Stmt) -> str:
    label = f"{stmt.name}: " if stmt.name != stmt.write.array else ""
    sign = SIGNS.get(stmt.op, f"{stmt.op}=")
    return f"{label}{access_text(stmt.write.array, stmt.write.subscript)} {sign} ..."


def _loop(program: Program, loop: Loop) -> str:
    texts = {s: _coordinate(program, loop, s) for s in statements(loop.body)}
    different = set(texts.values())
    if different == {loop.name}:
        head = loop.name
    elif len(different) == 1:
        head = f"{loop.name} = {different.pop()}"
    else:
        head = f"{loop.name} = " + ", ".join(f"{text} ({s})" for s, text in texts.items())
    options = [WORDS[loop.mark], head]
    if loop.width is not None:
        options.append(f"by {loop.width}")
    if loop.plain:
        options.append("plain")
    tail = loop.inner_of.tail if loop.inner_of is not None else None
    if tail is not None and (tail.mode or tail.balanced):
        options.append(f"tail {', '.join(t for t in (tail.mode, 'balanced' * tail.balanced) if t)}")
    return " ".join(options)


def _coordinate(program: Program, loop: Loop, statement: str) -> str:
    indices = [Var(i) for i in program.statements[statement].indices]
    sizes = [Size(s) for s in program.params]
    text = expr_text(from_pw_aff(loop.coords[statement], indices, sizes))
    return text if len(text) <= LONGEST else "(by cases)"
