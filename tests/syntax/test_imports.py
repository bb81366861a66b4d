"""`import`: where files are found, what they bring, and how it is told what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tdsl
from tdsl.checking import check_text
from tdsl.diagnostics import ParseError
from tdsl.imports import DEEPEST, LIBRARY
from tdsl.syntax.formatter import format_file

MAIN = """
import shared

kernel f<g = twice>(N) {
    in  x: f32[N]
    out y: f32[N]

    y[i] = g(x[i]) * T3[1]
}
schedule f for any { use strip(y, i, lanes(f32)) }
"""
SHARED = """
import base

const T3: f32[3] = [1, 2, 3]
def twice(v) = plus(v, v)
recipe strip(S, L, F) {
    split S.L by F -> lo, li
    vectorize li
}
kernel f(N) { in x: f32[N]  out y: f32[N]  y[i] = x[i] }
schedule f for any { vectorize y.i }
"""
BASE = "def plus(a, b) = a + b\n"


def written(folder: Path, **texts: str) -> Path:
    """The files of these texts; the path of the first."""
    for name, text in texts.items():
        (folder / f"{name}.tdsl").write_text(text, encoding="utf-8")
    return folder / f"{next(iter(texts))}.tdsl"


def refused(folder: Path, texts: Mapping[str, str]) -> str:
    with pytest.raises(ParseError) as caught:
        tdsl.load(written(folder, **texts))
    return str(caught.value).replace(f"{folder}/", "")


def test_recipes_defs_and_tables_are_brought_and_kernels_are_not(tmp_path: Path) -> None:
    module = tdsl.load(written(tmp_path, main=MAIN, shared=SHARED, base=BASE))
    assert list(module) == ["f"]
    assert module["f"].schedules == ("f",)
    x = np.arange(21, dtype=np.float32)
    np.testing.assert_array_equal(module["f"].compile(target="c")(x), 4 * x)
    np.testing.assert_array_equal(module["f"].compile()(x), 4 * x)
    np.testing.assert_array_equal(module["f"].reference(x=x), 4 * x)


def test_what_an_import_brings_may_be_a_constant(tmp_path: Path) -> None:
    text = MAIN.replace("<g = twice>", "<g = same>") + "def same(v) = v\n"
    path = written(tmp_path, main=text, shared=SHARED, base=BASE)
    x = np.arange(5, dtype=np.float32)
    kernel = tdsl.load(path)["f"]
    np.testing.assert_array_equal(kernel.compile(target="c")(x), 2 * x)
    twice = kernel.compile(target="c", constants={"g": "twice"})
    np.testing.assert_array_equal(twice(x), 4 * x)


def test_combines_and_records_are_brought(tmp_path: Path) -> None:
    shared = (
        "combine online(m, z; m2, z2) { identity -inf, 0.0\nlet n = max(m, m2)\n"
        "give n, z * exp(m - n) + z2 * exp(m2 - n) }\nrecord pair { a: f32  b: f32 }\n"
    )
    main = (
        "import shared\nkernel f(N) { assume N >= 1\n in p: pair[N]\n out y: f32\n"
        "m, z = online[i](p[i].a * p[i].b, p[i].a * 0.0 + 1.0)\n y = m + log(z) }\n"
    )
    kernel = tdsl.load(written(tmp_path, main=main, shared=shared))["f"].compile(target="c")
    pairs = np.zeros(9, np.dtype([("a", "<f4"), ("b", "<f4")]))
    pairs["a"], pairs["b"] = np.linspace(-2, 3, 9), np.linspace(1, 2, 9)
    products = pairs["a"].astype(np.float64) * pairs["b"]
    assert kernel(pairs) == pytest.approx(np.log(np.exp(products).sum()), rel=1e-6)


def test_an_edit_of_what_is_imported_counts_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, main=MAIN, shared=SHARED, base=BASE)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(tdsl.load(path)["f"].compile(target="c")(x), 4 * x)
    written(tmp_path, base="def plus(a, b) = a + b + b\n")
    np.testing.assert_array_equal(tdsl.load(path)["f"].compile(target="c")(x), 6 * x)


def test_methods_use_imported_recipes(tmp_path: Path) -> None:
    kernel = tdsl.load(written(tmp_path, main=MAIN, shared=SHARED, base=BASE))["f"]
    schedule = kernel.schedule(target="c")
    schedule.use("strip", "y", "i", 4)
    x = np.arange(7, dtype=np.float32)
    np.testing.assert_array_equal(kernel.compile(schedule=schedule)(x), 4 * x)


def test_two_ways_to_one_file_bring_it_once(tmp_path: Path) -> None:
    main = "import shared\nimport base\nimport shared\n" + MAIN.replace("import shared", "")
    x = np.arange(3, dtype=np.float32)
    module = tdsl.load(written(tmp_path, main=main, shared=SHARED, base=BASE))
    np.testing.assert_array_equal(module["f"].compile(target="c")(x), 4 * x)


def test_a_file_beside_comes_before_the_library(tmp_path: Path) -> None:
    name = "gemm"
    assert (LIBRARY / f"{name}.tdsl").exists()
    text = f"import {name}\nkernel f(N) {{ in x: f32[N]\n out y: f32[N]\n y[i] = own(x[i]) }}"
    path = written(tmp_path, main=text, **{name: "def own(v) = v * 3.0"})
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(tdsl.load(path)["f"].compile(target="c")(x), 3 * x)
    with pytest.raises(ParseError, match="there is no function `own`"):
        tdsl.parse(text, name="<text>")["f"].compile(target="c")


def test_a_text_has_the_library_or_the_files_beside_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, main=MAIN, shared=SHARED, base=BASE)
    assert list(tdsl.parse(MAIN, name=str(path))) == ["f"]
    monkeypatch.chdir(tmp_path)
    assert list(tdsl.parse(MAIN, name="other.tdsl")) == ["f"]
    with pytest.raises(ParseError, match=r"there is no file shared\.tdsl in the operator library"):
        tdsl.parse(MAIN)


def test_fmt_needs_no_other_file() -> None:
    assert format_file("import   nowhere\ndef f(v)=v\n") == "import nowhere\ndef f(v) = v\n"


def test_a_missing_file(tmp_path: Path) -> None:
    assert refused(tmp_path, {"main": MAIN, "sharde": SHARED}) == (
        "error[syntax]: there is no file shared.tdsl beside main.tdsl, and none in the operator "
        "library\n"
        " --> main.tdsl:2:1\n  |\n2 | import shared\n  | ^^^^^^^^^^^^^\n"
        "help: did you mean `import sharde`?"
    )


@pytest.mark.parametrize(
    "texts,chain",
    [
        ({"a": "import a"}, "a.tdsl -> a.tdsl"),
        ({"a": "import b", "b": "import a"}, "a.tdsl -> b.tdsl -> a.tdsl"),
        ({"a": "import b", "b": "import c", "c": "import b"}, "b.tdsl -> c.tdsl -> b.tdsl"),
    ],
)
def test_a_circle(tmp_path: Path, texts: Mapping[str, str], chain: str) -> None:
    said = refused(tmp_path, texts)
    assert f"these files import each other: {chain}\n" in said


def test_a_long_chain(tmp_path: Path) -> None:
    texts = {f"f{n}": f"import f{n + 1}" for n in range(DEEPEST + 2)}
    texts[f"f{DEEPEST + 2}"] = ""
    assert f"more than {DEEPEST} files" in refused(tmp_path, texts)


def test_mistakes_of_the_imported_file_stand_there(tmp_path: Path) -> None:
    said = refused(tmp_path, {"main": MAIN, "shared": SHARED, "base": "def plus(a, b) = a +\n"})
    place = " --> base.tdsl:1:20\n  |\n1 | def plus(a, b) = a +\n  |                    ^\n"
    assert place in said
    assert "note: it is imported here\n --> shared.tdsl:2:1" in said
    assert "note: it is imported here\n --> main.tdsl:2:1" in said


@pytest.mark.parametrize(
    "shared,message",
    [
        ("def twice(v) = w", "`w` is no parameter of `twice`"),
        ("def a(v) = v\ndef a(v) = v", "`a` is declared twice"),
        ("graph g { in x: f32\n out y = x }", "a `graph` connects named operators"),
    ],
)
def test_an_imported_file_is_checked_by_itself(tmp_path: Path, shared: str, message: str) -> None:
    said = refused(tmp_path, {"main": MAIN, "shared": shared})
    assert message in said
    assert " --> shared.tdsl:" in said


@pytest.mark.parametrize(
    "shared,message",
    [
        ("def twice(v) = help(v)", "there is no function `help`"),
        ("recipe strip(S, L, F) { use inner(S) }", "there is no recipe `inner`"),
        ("recipe strip(S, L, F) { on S { use inner(S) } }", "there is no recipe `inner`"),
        (
            "combine c(a; b) { identity 0.0  give help(a) + b }",
            "there is no function `help`",
        ),
    ],
)
def test_a_file_gets_nothing_from_those_that_import_it(
    tmp_path: Path, shared: str, message: str
) -> None:
    lent = "def help(v) = v\nrecipe inner(S) { vectorize S.i }\n"
    said = refused(tmp_path, {"main": MAIN + lent, "shared": shared})
    assert message in said
    assert " --> shared.tdsl:1:" in said


def test_one_name_twice(tmp_path: Path) -> None:
    texts = {"main": MAIN + "def twice(v) = v\n", "shared": SHARED, "base": BASE}
    said = refused(tmp_path, texts)
    assert "`twice` is declared twice\n  --> main.tdsl:11:1" in said
    assert "note: `twice` is declared here first\n --> shared.tdsl:5:1" in said
    texts = {"main": "import shared\nimport more\n", "shared": SHARED, "base": BASE}
    said = refused(tmp_path, {**texts, "more": "def x(v) = v\ndef twice(v) = v\n"})
    assert "this brings a second `twice`\n --> main.tdsl:2:1" in said
    assert "note: the first is here\n --> shared.tdsl:5:1" in said
    assert "note: the second is here\n --> more.tdsl:2:1" in said


def test_a_recipe_that_fails_is_shown_where_it_is_written(tmp_path: Path) -> None:
    path = written(tmp_path, main=MAIN.replace("y, i,", "y, k,"), shared=SHARED, base=BASE)
    report = check_text(path.read_text(encoding="utf-8"), str(path))
    (first, *_) = report.diagnostics
    assert first.span is not None and Path(first.span.source.name).name == "shared.tdsl"
    assert [Path(n.span.source.name).name for n in first.notes if n.span] == ["main.tdsl"]


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = written(tmp_path, main="import shared")
    (tmp_path / "shared.tdsl").write_bytes(b"def f(v) = v # \xff")
    with pytest.raises(ParseError, match="is not UTF-8 text"):
        tdsl.load(path)
