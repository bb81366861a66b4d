"""Text to tree: what the grammar means, names that look like keywords, spans, limits."""

from __future__ import annotations

import logging
from fractions import Fraction

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tdsl.diagnostics import ParseError
from tdsl.schedule import directives as d
from tdsl.syntax import parser, tables
from tdsl.syntax import tree as t
from tdsl.syntax.build import MAX_DEPTH
from tdsl.syntax.formatter import print_expr
from tdsl.syntax.lexer import RESERVED, TdslLexer
from tdsl.syntax.parser import parse, parse_directives, parse_expr
from tdsl.syntax.vocabulary import DIRECTIVES, EXAMPLES, FILE_ITEMS

A, B, C = t.Name("a"), t.Name("b"), t.Name("c")


def only(text: str) -> t.FileItem:
    (item,) = parse(text).items
    return item


def body(text: str) -> tuple[t.KernelItem, ...]:
    kernel = only(f"kernel k(N) {{ {text} }}")
    assert isinstance(kernel, t.Kernel)
    return kernel.items


# ---------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", t.Binary("+", A, t.Binary("*", B, C))),
        ("a - b - c", t.Binary("-", t.Binary("-", A, B), C)),
        ("-a * b", t.Binary("*", t.Unary("-", A), B)),
        ("-a[b]", t.Unary("-", t.Subscript(A, (B,)))),
        ("not a == b", t.Unary("not", t.Compare(A, (("==", B),)))),
        ("a or b and c", t.Binary("or", A, t.Binary("and", B, C))),
        ("a < b <= c", t.Compare(A, (("<", B), ("<=", C)))),
        ("a & b == c", t.Compare(t.Binary("&", A, B), (("==", C),))),
        ("a << b + c", t.Binary("<<", A, t.Binary("+", B, C))),
        ("a | b ^ c", t.Binary("|", A, t.Binary("^", B, C))),
        ("a // b % c", t.Binary("%", t.Binary("//", A, B), C)),
        ("-inf", t.Unary("-", t.Name("inf"))),
        ("saturate<u8>(a)", t.Call("saturate", (A,), ("u8",))),
        ("a < b > (c)", t.Compare(A, (("<", B), (">", C)))),
        ("a[b].c[b]", t.Subscript(t.Field(t.Subscript(A, (B,)), "c"), (B,))),
        ("a(b, c = c)", t.Call("a", (B,), kwargs=(("c", C),))),
        ("a[-1]", t.Subscript(A, (t.Unary("-", t.Number(Fraction(1), False)),))),
        ("[a, [b]]", t.ListLit((A, t.ListLit((B,))))),
        (
            "sum[a, b in a..c where a < b](c)",
            t.Reduce(
                "sum",
                (t.IndexRange("a"), t.IndexRange("b", A, C)),
                t.Compare(A, (("<", B),)),
                (C,),
            ),
        ),
    ],
)
def test_expressions(text: str, tree: t.Expr) -> None:
    assert parse_expr(text) == tree


@pytest.mark.parametrize(
    ("text", "value", "is_float"),
    [
        ("12", Fraction(12), False),
        ("1_000", Fraction(1000), False),
        ("0x1F", Fraction(31), False),
        ("1.0", Fraction(1), True),
        ("1e-5", Fraction(1, 10**5), True),
        ("2E3", Fraction(2000), True),
        ("0.1", Fraction(1, 10), True),
        ("1_0.2_5e+2", Fraction(1025), True),
    ],
)
def test_numbers_are_exact(text: str, value: Fraction, is_float: bool) -> None:
    assert parse_expr(text) == t.Number(value, is_float)


# ---------------------------------------------------------------- items


def test_items_need_no_separator() -> None:
    items = body(
        "let A = N in x: f32[N] range 0..A out y: f32[N] y[i] = x[i] z = -x[i] S: z += sum[k](x[k])"
        " where A < 3 for at in 0..N { y[at] max= x[at] }"
    )
    kinds = [type(item).__name__ for item in items]
    assert kinds == ["SizeLet", "ArrayDecl", "ArrayDecl", *["Equation"] * 3, "For"]
    assert items[1] == t.ArrayDecl(
        "in", ("x",), "f32", (t.Name("N"),), range=(t.Number(Fraction(0), False), t.Name("A"))
    )


@pytest.mark.parametrize("name", sorted({*DIRECTIVES, *FILE_ITEMS, "at", "by", "step", "range"}))
def test_keywords_are_names_elsewhere(name: str) -> None:
    if name in RESERVED:
        return
    (declaration, equation, other) = body(f"out y: f32[N] {name}[i] = {name} {name}, y = x")
    assert isinstance(declaration, t.ArrayDecl)
    assert isinstance(equation, t.Equation) and isinstance(other, t.Equation)
    assert equation.value == t.Name(name)
    assert parse_directives(f"unroll {name} by {name} split {name} by 2 -> {name}, x") == (
        d.Unroll((d.LoopRef(None, name),), t.Name(name)),
        d.Split((d.LoopRef(None, name),), t.Number(Fraction(2), False), name, "x"),
    )


@pytest.mark.parametrize("word", DIRECTIVES)
def test_examples_in_messages_are_directives(word: str) -> None:
    (directive,) = parse_directives(EXAMPLES[word])
    assert type(directive).__name__.lower() == word


def test_constants_without_defaults_are_no_type_arguments() -> None:
    kernel = only("kernel k<pad>(N) { }")
    assert isinstance(kernel, t.Kernel)
    assert (kernel.constants, kernel.sizes) == ((t.Param("pad"),), ("N",))


def test_declarations() -> None:
    (decl,) = body("in x, y: T[N, (G, 2)] strides [lda, 1] align 64")
    two, one = t.Number(Fraction(2), False), t.Number(Fraction(1), False)
    assert decl == t.ArrayDecl(
        "in",
        ("x", "y"),
        "T",
        (t.Name("N"), (t.Name("G"), two)),
        strides=(t.Name("lda"), one),
        align=t.Number(Fraction(64), False),
    )
    (table,) = body("const G: f32 = 1/6")
    assert table == t.ArrayDecl(
        "table", ("G",), "f32", (), t.Binary("/", one, t.Number(Fraction(6), False))
    )


def test_ranges_of_a_for() -> None:
    (loop,) = body("static for i in N-1 downto 0, j in i..N step 2 { }")
    n, zero = t.Name("N"), t.Number(Fraction(0), False)
    last = t.Binary("-", n, t.Number(Fraction(1), False))
    down = t.IndexRange("i", zero, last, down=True)
    up = t.IndexRange("j", t.Name("i"), n, step=t.Number(Fraction(2), False))
    assert loop == t.For((down, up), (), static=True)


def test_schedule() -> None:
    item = only("schedule k.fast for avx512+vnni, neon when N >= 64 { compute P at root }")
    assert isinstance(item, t.Schedule)
    assert (item.kernel, item.variant, item.targets) == ("k", "fast", ("avx512+vnni", "neon"))
    assert item.directives == (d.Compute("P", "root"),)


def test_spans_are_places_in_the_text() -> None:
    text = "# top\nkernel k(N) {\n    y[i] = (a + b) * c  # end\n}\n"
    kernel = only(text)
    assert isinstance(kernel, t.Kernel) and kernel.span and kernel.name_span
    assert kernel.span.text == text[6:-1]
    assert (kernel.name_span.line, kernel.name_span.column) == (2, 8)
    (equation,) = kernel.items
    assert isinstance(equation, t.Equation) and equation.span and equation.value.span
    assert equation.span.text == "y[i] = (a + b) * c"
    assert equation.value.span.text == "(a + b) * c"


def test_white_space_does_not_matter() -> None:
    text = "kernel k(N) {\n\tout y: f32[N]\n\ty[i] = 0.0\n}\n"
    assert parse(text.replace("\n", "\r\n")) == parse(text)
    assert parse("\ufeff" + text) == parse(text)
    assert parse(text.replace("\n", " ").replace("\t", " ")) == parse(text)
    assert parse("") == parse("  # nothing") == t.File(())


def test_the_line_of_a_message_has_no_carriage_return() -> None:
    with pytest.raises(ParseError) as caught:
        parse("kernel k() {\r\n    y = $\r\n}\r\n")
    assert "2 |     y = $\n" in str(caught.value)
    assert "\r" not in str(caught.value)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "(" * 5_000 + "a" + ")" * 5_000 + " + a" * 5_000,
        "-" * 2 + "~" * 5_000 + "a",
        "a" + " + a" * 10_000,
        "a" + "[a" * 5_000 + "]" * 5_000,
        "[" * 5_000 + "]" * 5_000,
        "f(" * 5_000,
        "not " * 5_000 + "a",
        "9" * 100_000,
        "1e" + "9" * 50,
        "x" * 5_000,
        "a" * 1_000_001,
    ],
    ids=range(12),
)
def test_what_is_too_large_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_expr(text)


def test_deep_blocks_are_refused() -> None:
    deep = "for i in 0..1 {" * 3000 + "}" * 3000
    with pytest.raises(ParseError, match="levels deep"):
        parse(f"kernel k() {{ {deep} }}")


def test_the_deepest_tree_can_be_compared_hashed_and_printed() -> None:
    text = "a" + " + a" * MAX_DEPTH
    tree = parse_expr(text)
    assert tree == parse_expr(text)
    assert hash(tree) == hash(parse_expr(text))
    assert len(repr(tree)) > len(text)
    assert print_expr(tree) == text
    with pytest.raises(ParseError, match="levels deep"):
        parse_expr(text + " + a")


def test_parentheses_alone_are_no_depth() -> None:
    assert parse_expr("(" * 2000 + "a" + ")" * 2000) == A


# fmt: off
_SOUP = st.sampled_from((
    "kernel", "schedule", "for", "in", "let", "out", "f32", "x", "y", "[", "]", "(", ")", "{", "}",
    ",", ".", "..", ":", ";", "=", "==", "+=", "max=", "->", "+", "-", "*", "/", "//", "<", ">",
    "1", "2.0", '"s"', "sum", "where", "split", "by", "any", "on", "tile", "tail", "not", "and",
    "#", "\n", "$", "&&", '"', "1.", "é", "if", "!", "def", "recipe",
))
# fmt: on


@given(st.lists(_SOUP, max_size=40))
@settings(max_examples=300)
def test_any_text_is_parsed_or_refused_with_a_place(words: list[str]) -> None:
    text = " ".join(words)
    for start in (parse, parse_directives, parse_expr):
        try:
            start(text)
        except ParseError as error:
            (diagnostic,) = error.diagnostics
            assert diagnostic.message and diagnostic.message[0] != " "
            assert diagnostic.span is not None
            assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)


@given(st.text(max_size=60))
def test_any_characters_are_parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except ParseError as error:
        assert error.diagnostics[0].span is not None


# ---------------------------------------------------------------- grammar and tables


def conflicts(grammar: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What lark says of shift/reduce conflicts, which it resolves silently otherwise."""
    level = lark.logger.level
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
        lark.Lark(
            grammar,
            parser="lalr",
            lexer=TdslLexer,
            start=list(tables.START),
            debug=True,
        )
    lark.logger.setLevel(level)
    return [r.getMessage() for r in caplog.records if "conflict" in r.getMessage().lower()]


def test_the_grammar_has_no_conflicts(caplog: pytest.LogCaptureFixture) -> None:
    assert conflicts(tables.grammar(), caplog) == []
    ambiguous = tables.grammar().replace("| postfix", '| postfix "(" args ")"\n    | postfix', 1)
    assert conflicts(ambiguous, caplog) != []


def test_every_rule_has_a_handler() -> None:
    kept = {
        rule.alias or str(rule.origin.name)
        for rule in tables.parser().rules
        if rule.alias or not (rule.options.expand1 or str(rule.origin.name).startswith("_"))
    }
    assert kept == set(parser._HANDLERS)


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("k\0ernel f(N) {}", "the character U+0000 is not part of the language", 1),
        ("kernel f\x1b(N) {}", "the character U+001B is not part of the language", 8),
        ("kérnel f(N) {}", "`é` cannot be part of a name", 1),
    ],
)
def test_a_character_in_a_word_is_what_is_wrong(text: str, message: str, offset: int) -> None:
    with pytest.raises(ParseError) as refused:
        parse(text)
    first = refused.value.diagnostics[0]
    assert message in first.message
    assert first.span is not None and first.span.start == offset
