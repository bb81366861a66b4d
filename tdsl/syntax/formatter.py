"""The canonical form of a file: `tdsl fmt`, and trees as text.

format_file(text)  keeps comments and the author's blank lines
print_file(tree)   needs no source; `parse(print_file(tree)) == tree`
"""

from __future__ import annotations

from tdsl.diagnostics import Span
from tdsl.schedule import directives as d
from tdsl.syntax import print_item as text_of
from tdsl.syntax import tree as t
from tdsl.syntax.layout import STEP, WIDTH, Page, comments_of
from tdsl.syntax.parser import parse
from tdsl.syntax.print_directive import on_header, print_directive, print_directives, print_line
from tdsl.syntax.print_expr import print_expr, print_exprs

__all__ = ["format_file", "print_directive", "print_directives", "print_expr", "print_file"]

_Item = t.FileItem | t.KernelItem | t.GraphLet | d.Directive
# Items of a file that an empty line parts from their neighbours.
_Long = t.Kernel | t.Combine | t.Schedule | t.Recipe | t.Graph | t.Select
_Block = t.Kernel | t.Combine | t.Record | t.Schedule | t.Recipe | t.Graph | t.Select | t.For | d.On


def format_file(text: str, name: str = "<text>") -> str:
    """The text in canonical form; its tree and its comments stay what they are.

    This is checked every time: a formatter that loses something loses it for good.
    """
    tree = parse(text, name)
    formatted = _print(tree, Page(text))
    kept = [c.text for c in comments_of(formatted)] == [c.text for c in comments_of(text)]
    if not kept or parse(formatted, name) != tree:
        raise AssertionError(f"formatting {name} would change it")
    return formatted


def print_file(file: t.File) -> str:
    """The text of a tree, in canonical form."""
    return _print(file, Page(None))


def _print(file: t.File, page: Page) -> str:
    previous: t.FileItem | None = None
    for item in file.items:
        if isinstance(previous, _Long) or (previous is not None and isinstance(item, _Long)):
            page.blank()
        _item(page, item, 0)
        previous = item
    page.finish()
    return "\n".join(page.lines) + "\n" if page.lines else ""


def _is_block(item: _Item) -> bool:
    return isinstance(item, _Block)


def _item(page: Page, item: _Item, indent: int) -> None:
    match item:
        case t.Kernel():
            _block(page, item, text_of.kernel_header(item), indent, item.items)
        case t.For():
            _block(page, item, text_of.for_header(item), indent, item.body)
        case t.Graph():
            _block(page, item, text_of.graph_header(item), indent, item.items)
        case t.Schedule():
            _block(page, item, text_of.schedule_header(item), indent, item.directives)
        case t.Recipe():
            _block(page, item, text_of.recipe_header(item), indent, item.directives)
        case d.On():
            _block(page, item, on_header(item), indent, item.body)
        case t.Combine():
            _lines(page, text_of.combine_header(item), item.span, indent, _combine_lines(item))
        case t.Record():
            fields = [text_of.record_field(*field) for field in item.fields]
            one_line = f"record {item.name} {{ {'  '.join(fields)} }}"
            if page.was_one_line(item.span) and len(one_line) <= WIDTH:
                page.leaf(one_line, item.span, indent)
            else:
                spans = item.field_spans or (None,) * len(fields)
                rows = list(zip(fields, spans, strict=True))
                _lines(page, f"record {item.name}", item.span, indent, rows)
        case t.Select():
            rules = [text_of.select_rule(*rule) for rule in item.rules]
            spans = item.rule_spans or (None,) * len(rules)
            rows = list(zip(rules, spans, strict=True))
            _lines(page, f"select {item.operator}", item.span, indent, rows)
        case (
            t.SizeLet() | t.Assume() | t.ArrayDecl() | t.Equation() | t.Def() | t.Import()
            | t.GraphLet()
        ):  # fmt: skip
            page.leaf(text_of.print_leaf(item), item.span, indent)
        case _:
            page.leaf(print_line(item), item.span, indent)


def _combine_lines(combine: t.Combine) -> list[tuple[str, Span | None]]:
    return [
        (f"identity {print_exprs(combine.identity)}", combine.identity_span),
        *((text_of.print_leaf(let), let.span) for let in combine.lets),
        (f"give {print_exprs(combine.give)}", combine.give_span),
    ]


def _lines(
    page: Page, header: str, span: Span | None, indent: int, rows: list[tuple[str, Span | None]]
) -> None:
    """A block of lines that are no items of their own."""
    page.open(header, span, indent)
    for text, place in rows:
        page.leaf(text, place, indent + STEP)
    page.close(span, indent)


def _block(page: Page, item: _Block, header: str, indent: int, body: tuple[_Item, ...]) -> None:
    """A block of items; one item stays on the line of its header where the author put it there."""
    kept = page.was_one_line(item.span) or (page.source is None and isinstance(item, d.On))
    if len(body) == 1 and kept and not isinstance(item, t.Kernel | t.Graph):
        inner = Page(None)
        if not _is_block(body[0]):
            _item(inner, body[0], 0)
            one_line = f"{header} {{ {' '.join(inner.lines)} }}"
            if len(inner.lines) == 1 and indent + len(one_line) <= WIDTH:
                page.leaf(one_line, item.span, indent)
                return
    page.open(header, item.span, indent)
    for position, child in enumerate(body):
        if page.source is None and position and _starts_equations(body[position - 1], child):
            page.blank()
        _item(page, child, indent + STEP)
    page.close(item.span, indent)


def _starts_equations(before: _Item, item: _Item) -> bool:
    return isinstance(before, t.SizeLet | t.Assume | t.ArrayDecl) and isinstance(
        item, t.Equation | t.For
    )
