"""`tdsl check`: what it says to people and to programs."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tdsl

HUMAN = """\
error[schedule]: `reverse i` would run a(i=2) before a(i=1), which must run first, with N=3
 --> wrong.tdsl:7:49
  |
7 | schedule scan.backward for avx2, c when false { reverse i }
  |                                                 ^^^^^^^^^
note: flow dependence through a[1]: a(i=1) writes it
 --> wrong.tdsl:4:21
  |
4 |     for i in 1..N { a[i] = a[i - 1] + a[i] }
  |                     ^^^^^^^^^^^^^^^^^^^^^^
note: and then a(i=2) reads it
 --> wrong.tdsl:4:28
  |
4 |     for i in 1..N { a[i] = a[i - 1] + a[i] }
  |                            ^^^^^^^^
"""


def test_a_right_file_is_one_line(tdsl: Tdsl) -> None:
    result = tdsl("check", "matmul.tdsl")
    assert result.status == 0
    assert result.out == "matmul.tdsl: 1 kernel, 2 schedules (4 target checks): ok\n"
    assert result.err == ""


def test_every_error_of_every_kernel_and_schedule_is_told(tdsl: Tdsl) -> None:
    result = tdsl("check", "wrong.tdsl")
    assert result.status == 1
    assert result.out == "wrong.tdsl: 2 kernels, 3 schedules (10 target checks): 4 errors\n"
    assert HUMAN in result.err
    for part in ("vectorize i by 8", "unroll q", "x[i + 1] leaves x"):
        assert part in result.err


def test_the_same_error_for_several_targets_is_told_once(tdsl: Tdsl) -> None:
    assert tdsl("check", "wrong.tdsl").err.count("would run a(i=2) before a(i=1)") == 1


def test_json_of_a_right_file(tdsl: Tdsl) -> None:
    result = tdsl("check", "two.tdsl", "--json")
    assert result.status == 0
    assert json.loads(result.out) == {
        "version": 1,
        "file": "two.tdsl",
        "ok": True,
        "errors": 0,
        "warnings": 0,
        "kernels": [
            {"name": "first", "ok": True, "schedules": []},
            {
                "name": "second",
                "ok": True,
                "schedules": [
                    {"name": name, "target": target, "ok": True}
                    for name in ("wide", "low")
                    for target in ("avx512", "avx2", "neon", "c")
                ],
            },
        ],
        "diagnostics": [],
    }


def test_json_of_a_wrong_file_has_places_and_codes(tdsl: Tdsl) -> None:
    result = tdsl("check", "wrong.tdsl", "--json")
    assert (result.status, result.err) == (1, "")
    found = json.loads(result.out)
    assert (found["ok"], found["errors"]) == (False, 4)
    assert [k["ok"] for k in found["kernels"]] == [False, False]
    assert [d["code"] for d in found["diagnostics"]] == [
        "schedule",
        "schedule",
        "schedule",
        "bounds",
    ]
    first = found["diagnostics"][0]
    assert set(first) == {
        "severity", "code", "message", "file", "line", "column", "notes", "help",
    }  # fmt: skip
    assert (first["severity"], first["file"], first["line"], first["column"]) == (
        "error", "wrong.tdsl", 7, 49,
    )  # fmt: skip
    assert [set(n) for n in first["notes"]] == [{"message", "file", "line", "column"}] * 2


def test_json_of_a_text_that_does_not_parse(tdsl: Tdsl, folder: Path) -> None:
    (folder / "broken.tdsl").write_text("kernel f(N) { out y: f32[N] y[i] = }")
    result = tdsl("check", "broken.tdsl", "--json")
    found = json.loads(result.out)
    assert result.status == 1
    assert [d["code"] for d in found["diagnostics"]] == ["syntax"]
    assert found["kernels"] == []


def test_an_unreachable_variant_is_a_warning(tdsl: Tdsl, folder: Path) -> None:
    text = (
        folder / "matmul.tdsl"
    ).read_text() + "\nschedule matmul.never for c { reorder k, i, j }\n"
    (folder / "matmul.tdsl").write_text(text)
    result = tdsl("check", "matmul.tdsl")
    assert result.status == 0
    assert result.err.startswith("warning[schedule]: the schedule never is never taken")
    assert result.out.endswith("(5 target checks): 1 warning\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule matmull.x for c { }", "there is no kernel `matmull` in this file"),
        ("schedule matmul.x for avx3 { }", "there is no target 'avx3'"),
    ],
)
def test_the_head_of_a_schedule_is_checked(tdsl: Tdsl, folder: Path, text: str, said: str) -> None:
    (folder / "matmul.tdsl").write_text((folder / "matmul.tdsl").read_text() + text + "\n")
    result = tdsl("check", "matmul.tdsl")
    assert result.status == 1
    assert said in result.err
    assert f" | {text.split(' {')[0]}" in result.err


CONDITIONS = """\
kernel f(N) { in x: f32[N] out y: f32[N] y[i] = x[i] }
schedule f.many for any when registers == 32 { require registers == 32  split i by 8 -> o, l }
schedule f.named for avx2 when false { vectorize i by 8 }
schedule f.wrong for c, avx2 when Q > 3 { }
"""


def test_conditions_choose_the_targets_and_are_checked(tdsl: Tdsl, folder: Path) -> None:
    (folder / "conditions.tdsl").write_text(CONDITIONS)
    result = tdsl("check", "conditions.tdsl", "--json")
    (kernel,) = json.loads(result.out)["kernels"]
    assert [(s["name"], s["target"], s["ok"]) for s in kernel["schedules"]] == [
        ("many", "avx512", True),
        ("many", "neon", True),
        ("named", "avx2", True),
        ("wrong", "c", False),
        ("wrong", "avx2", False),
    ]
    (diagnostic,) = json.loads(result.out)["diagnostics"]
    assert (diagnostic["line"], diagnostic["column"]) == (4, 35)
    assert "Q" in diagnostic["message"]


def test_constants_and_sizes_may_be_given(tdsl: Tdsl, folder: Path) -> None:
    text = "kernel f<n>(N) { in x: f32[N] out y: f32[N] y[i] = x[i + n] }"
    (folder / "needs.tdsl").write_text(text)
    assert "has no default" in tdsl("check", "needs.tdsl").err
    assert tdsl("check", "needs.tdsl", "--const", "n=0").status == 0
    assert tdsl("check", "needs.tdsl", "--const", "n=1").status == 1


def test_a_stranger_s_file_is_only_read(tdsl: Tdsl, own_cache: Path) -> None:
    before = sorted(own_cache.rglob("*"))
    assert tdsl("check", "matmul.tdsl", "--untrusted").status == 0
    assert sorted(own_cache.rglob("*")) == before


def test_an_empty_file_has_no_kernels_and_nothing_wrong(tdsl: Tdsl, folder: Path) -> None:
    (folder / "empty.tdsl").write_text("")
    result = tdsl("check", "empty.tdsl")
    assert (result.status, result.out) == (0, "empty.tdsl: 0 kernels: ok\n")


def test_escape_sequences_of_a_source_do_not_reach_the_terminal(tdsl: Tdsl, folder: Path) -> None:
    (folder / "evil.tdsl").write_text("kernel f(N) { \x1b[31m\u202e }")
    result = tdsl("check", "evil.tdsl")
    assert result.status == 1
    assert "\x1b" not in result.err
    assert "\u202e" not in result.err


TILE = """\
kernel dense(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out Y: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = max(C[i, j], 0.0)
}

schedule dense for avx512, avx2 {
    tile Y.i, Y.j by 8, 2 * lanes(f32) -> io, jo, ii, ji
    unroll ii
    vectorize ji
    compute C at Y.jo in registers
    on C {
        reorder k, i, j
        unroll i
        vectorize j
    }
}
"""


def test_a_target_is_lowered_for(tdsl: Tdsl, folder: Path) -> None:
    """Its tile takes 16 registers, which is all that avx2 has."""
    (folder / "dense.tdsl").write_text(TILE)
    assert tdsl("check", "dense.tdsl").status == 0
    wide = tdsl("check", "dense.tdsl", "--target", "avx512")
    assert (wide.status, wide.out) == (0, "dense.tdsl: 1 kernel, 1 schedule (1 target check): ok\n")
    narrow = tdsl("check", "dense.tdsl", "--target", "avx2", "--json")
    assert narrow.status == 1
    report = json.loads(narrow.out)
    assert report["kernels"][0]["schedules"] == [{"name": "dense", "target": "avx2", "ok": False}]
    assert "16 of the 16 vector registers of avx2" in report["diagnostics"][0]["message"]
    other = tdsl("check", "dense.tdsl", "--target", "c")
    assert (other.status, other.out) == (0, "dense.tdsl: 1 kernel: ok\n")
    assert tdsl("check", "dense.tdsl", "--target", "avx3").status == 2
