"""Variants and prepared arrays in C: which one runs, what is checked, whose memory is used."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdsl.codegen import emit_module
from tdsl.codegen.dispatch import reachable
from tdsl.ir.intervals import evaluate
from tdsl.ir.kernel import INDEX, Const, Expr, Op, Select, Size
from tdsl.ir.magnitude import largest
from tdsl.ir.types import BOOL, F32
from tdsl.ir.vector import Block, Buffer, Function, Store, VType
from tdsl.ir.vector import Const as VConst
from tdsl.ir.vector import Op as VOp
from tdsl.ir.verify_vector import VectorError, verify
from tdsl.targets import Target, native, target
from tests.codegen.build import I, compare, load, mul, num, over
from tests.codegen.harness import WARNINGS, compiler, execute, write
from tests.codegen.library import build, status

M, N, K = Size("M"), Size("N"), Size("K")
SIZES = ("M", "N", "K")


@pytest.fixture(params=["c", "native"])
def of(request: pytest.FixtureRequest) -> Target:
    return target("c") if request.param == "c" else native()


# ---------------------------------------------------------------- which variant runs


def filled(value: float, condition: Expr | None, variant: str) -> Function:
    """y[i] = value for N elements."""
    body = Block((over(1, Store("y", I, VConst(value, VType(F32)))),))
    buffers = (Buffer("y", F32, (N,), "out"),)
    return Function("fill", SIZES, buffers, (), body, (), variant, condition)


def expression(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        sizes: list[Expr] = [M, N, K]
        return rng.choice([*sizes, num(rng.choice([0, 1, 2, 7, 64, 2**31, 2**45]))])
    a, b = expression(rng, depth - 1), expression(rng, rng.randrange(depth))
    match rng.randrange(8):
        case 0:
            return Op("neg", (a,), INDEX)
        case 1:
            return Op("abs", (a,), INDEX)
        case 2:
            return Select(condition(rng, depth - 1), a, b, INDEX)
        case _:
            names = ("add", "sub", "mul", "mul", "floordiv", "mod", "min", "max")
            return Op(rng.choice(names), (a, b), INDEX)


def condition(rng: random.Random, depth: int) -> Expr:
    if depth > 0 and rng.random() < 0.4:
        name = rng.choice(["and", "or", "not"])
        count = 1 if name == "not" else 2
        return Op(name, tuple(condition(rng, depth - 1) for _ in range(count)), BOOL)
    name = rng.choice(["eq", "ne", "lt", "le", "gt", "ge"])
    return Op(name, (expression(rng, depth), expression(rng, depth)), BOOL)


def test_conditions_are_exact_for_all_sizes(tmp_path: Path) -> None:
    rng = random.Random(1)
    conditions = [c for c in (condition(rng, 2) for _ in range(90)) if largest(c) < 2**126]
    assert len(conditions) > 60
    assert any(largest(c) >= 2**62 for c in conditions)
    functions = []
    for number, found in enumerate(conditions):
        pair = (filled(1.0, found, "yes"), filled(2.0, None, "no"))
        functions += [replace(f, name=f"fill_{number}") for f in pair]
    module = emit_module("many", functions, target("c"))
    library = build(module, target("c"), tmp_path, ("-Wno-tautological-compare",))
    values = (0, 1, 2, 63, 64, 65, 2**20, 2**32 + 1, 2**40 - 1)
    wrong = []
    for number, found in enumerate(conditions):
        variant = getattr(library, f"fill_{number}_variant")
        variant.restype = ctypes.c_char_p
        for _ in range(40):
            sizes = {s: rng.choice(values) for s in SIZES}
            want = b"yes" if evaluate(found, sizes, {}) else b"no"
            if variant(*map(ctypes.c_int64, sizes.values())) != want:
                wrong.append((found, sizes))
    assert wrong == []


def test_the_first_that_holds_runs(of: Target, tmp_path: Path) -> None:
    functions = [
        filled(1.0, compare("eq", M, num(1)), "one"),
        filled(2.0, compare("le", mul(mul(M, N), K), num(4096)), "small product"),
        filled(3.0, compare("ge", M, num(1)), "a"),
        filled(4.0, None, ""),
    ]
    module = emit_module("fill", functions, of)
    library = build(module, of, tmp_path)
    library.fill_variant.restype = ctypes.c_char_p

    def run(m: int, n: int, k: int) -> tuple[float, bytes]:
        y = np.zeros(n, np.float32)
        assert status(library, "fill", m, n, k, y, None) == 0
        (value,) = set(y.tolist())
        return value, library.fill_variant(*map(ctypes.c_int64, (m, n, k)))

    assert run(1, 5, 2**39) == (1.0, b"one")
    assert run(2, 4, 512) == (2.0, b"small product")
    assert run(2, 4, 513) == (3.0, b"a")
    assert run(2**33, 8, 2**39) == (3.0, b"a")  # 0 modulo 2^64
    assert run(0, 4, 9) == (2.0, b"small product")
    assert library.fill_variant(ctypes.c_int64(-1), ctypes.c_int64(1), ctypes.c_int64(1)) == b""
    assert module.c_source == emit_module("fill", functions, of).c_source


# ---------------------------------------------------------------- what may be prepared


def test_where_a_variant_may_run_as_far_as_some_sizes_tell() -> None:
    big, odd = compare("ge", N, num(9)), compare("eq", Op("mod", (N, num(2)), INDEX), num(1))
    row = compare("eq", M, num(1))

    def holds(conditions: list[Expr | None]) -> list[list[bool]]:
        """For N = 8 .. 11."""
        found = reachable(conditions, ["N", "K"])
        return [[bool(evaluate(c, {"N": n}, {})) for n in range(8, 12)] for c in found]

    yes, no = [True] * 4, [False] * 4
    assert holds([None]) == [yes]
    assert holds([row, None]) == [yes, yes]
    assert holds([big, None]) == [[False, True, True, True], [True, False, False, False]]
    both = Op("and", (row, big), BOOL)
    assert holds([both, odd, None])[0] == [False, True, True, True]
    assert holds([both, odd, None])[2] == [True, False, True, False]
    either = Op("or", (row, big), BOOL)
    assert holds([either, None]) == [yes, [True, False, False, False]]
    negated = Op("not", (either,), BOOL)
    assert holds([negated, None]) == [[True, False, False, False], yes]
    assert holds([Op("or", (big, compare("lt", N, num(9))), BOOL), None]) == [yes, no]


def prepared(variant: str, scale: float, condition: Expr | None) -> Function:
    """p = scale * w once; y = x + p, and with `v` where the variant reads it in each call."""
    of = VType(F32)
    made = VOp("mul", (load("w", F32, 1, I), VConst(scale, of)), of)
    total = VOp("add", (load("x", F32, 1, I), load("p", F32, 1, I)), of)
    if variant == "both":
        total = VOp("add", (total, load("w", F32, 1, I)), of)
    return Function(
        "add",
        ("N", "M"),
        (
            Buffer("x", F32, (N,), "in"),
            Buffer("w", F32, (N,), "const"),
            Buffer("y", F32, (N,), "out"),
            Buffer("p", F32, (N,), "prepared"),
        ),
        (compare("ne", N, num(13)), compare("ne", M, num(77))),
        Block((over(1, Store("y", I, total)),)),
        (),
        variant,
        condition,
        Block((over(1, Store("p", I, made)),)),
        ("N",),
    )


def variants() -> list[Function]:
    return [
        prepared("low", 2.0, compare("lt", M, num(10))),
        prepared("both", 3.0, compare("lt", M, num(20))),
        prepared("high", 5.0, None),
    ]


def aligned(count: int, to: int = 64) -> np.ndarray:
    raw = np.zeros(4 * count + to, np.uint8)
    start = -raw.ctypes.data % to
    return raw[start : start + 4 * count].view(np.float32)


@pytest.fixture
def library(of: Target, tmp_path: Path) -> Any:
    for function in variants():
        verify(function, of)
    built = build(emit_module("add", variants(), of), of, tmp_path)
    for name in ("add_prepared_bytes", "add_workspace_bytes"):
        getattr(built, name).restype = ctypes.c_size_t
    return built


def bytes_of(library: Any, what: str, *sizes: int) -> int:
    return int(getattr(library, what)(*map(ctypes.c_int64, sizes)))


SCALES = {0: 2.0, 9: 2.0, 10: 4.0, 19: 4.0, 20: 5.0, 1000: 5.0}  # 3 * w + w for `both`


@pytest.mark.parametrize("n", [0, 1, 2, 17, 64])
def test_one_buffer_serves_all_variants(library: Any, n: int) -> None:
    x, w, y = aligned(n), aligned(n), aligned(n)
    x[:], w[:] = np.arange(n), np.arange(n) + 1
    size = bytes_of(library, "add_prepared_bytes", n, 0)
    assert size == bytes_of(library, "add_prepared_bytes", n, 55)
    assert 3 * 4 * n <= size <= 3 * (4 * n + 128)
    buffer = aligned(size // 4)
    assert status(library, "add_prepare", n, -5, w, buffer) == 0  # M is not looked at
    kept = buffer.copy()
    for m, scale in SCALES.items():
        for workspace in (None, aligned(bytes_of(library, "add_workspace_bytes", n, m) // 4)):
            y[:] = 0
            assert status(library, "add_run_prepared", n, m, x, w, y, buffer, workspace) == 0
            np.testing.assert_array_equal(y, x + scale * w)
            y[:] = 0
            assert status(library, "add", n, m, x, w, y, workspace) == 0
            np.testing.assert_array_equal(y, x + scale * w)
    np.testing.assert_array_equal(buffer, kept)


def test_statuses_of_prepare(library: Any) -> None:
    n = 8
    w, buffer = aligned(n), aligned(bytes_of(library, "add_prepared_bytes", n, 0) // 4)
    assert status(library, "add_prepare", n, 0, w, buffer) == 0
    assert status(library, "add_prepare", -1, 0, w, buffer) == 1
    assert status(library, "add_prepare", 2**40, 0, w, buffer) == 1
    assert status(library, "add_prepare", 13, 0, w, buffer) == 2
    assert status(library, "add_prepare", n, 77, w, buffer) == 0  # says nothing of N
    assert status(library, "add_prepare", n, 0, None, buffer) == 3
    assert status(library, "add_prepare", n, 0, w, None) == 3
    assert status(library, "add_prepare", n, 0, w, buffer[1:]) == 3
    assert status(library, "add_prepare", n, 0, buffer, buffer) == 4
    assert bytes_of(library, "add_prepared_bytes", -1, 0) == 0


def test_statuses_of_a_prepared_run(library: Any) -> None:
    n = 8
    x, w, y = aligned(n), aligned(n), aligned(n)
    w[:] = 1
    buffer = aligned(bytes_of(library, "add_prepared_bytes", n, 0) // 4)
    assert status(library, "add_prepare", n, 0, w, buffer) == 0

    def run(m: int = 0, **changed: Any) -> int:
        given = {"n": n, "m": m, "x": x, "w": None, "y": y, "p": buffer, "s": None, **changed}
        return status(library, "add_run_prepared", *given.values())

    assert run() == 0  # w is read by add_prepare alone
    np.testing.assert_array_equal(y, 2 * np.ones(n))
    assert run(m=10) == 3  # this variant reads it too
    assert run(m=10, w=w) == 0
    assert run(m=10, w=y) == 4
    assert run(w=y) == 0  # not read
    assert run(n=-1) == 1
    assert run(n=13) == 2
    assert run(m=77) == 2
    assert run(p=None) == 3
    assert run(p=buffer[1:]) == 3
    assert run(x=None) == 3
    assert run(y=x) == 4
    assert run(y=buffer[:n]) == 4
    assert run(s=aligned(64)[1:]) == 7


def test_what_is_prepared_depends_on_nothing_else() -> None:
    good = prepared("low", 2.0, None)
    verify(good, target("c"))
    with pytest.raises(VectorError, match="what is prepared depends on N"):
        verify(replace(good, const_sizes=()), target("c"))
    reads_x = Block((over(1, Store("p", I, load("x", F32, 1, I))),))
    with pytest.raises(VectorError, match="what is prepared uses x"):
        verify(replace(good, prepare=reads_x), target("c"))
    writes_p = Block((over(1, Store("p", I, load("x", F32, 1, I))),))
    with pytest.raises(VectorError, match="a store to p"):
        verify(replace(good, body=writes_p), target("c"))


PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include "add.h"

int main(void)
{
    const float x[3] = {1, 2, 3}, w[3] = {10, 20, 30};
    float y[3];
    void *prepared = aligned_alloc(64, add_prepared_bytes(3, 0));
    if (add_prepare(3, 0, w, prepared) != 0)
        return 1;
    for (int64_t m = 0; m < 30; m += 10) {
        if (add_run_prepared(3, m, x, w, y, prepared, NULL) != 0)
            return 2;
        printf("%s %g %g %g\n", add_variant(3, m), y[0], y[1], y[2]);
    }
    free(prepared);
    return 0;
}
"""


@pytest.mark.parametrize("flags", [(), ("-fsanitize=address,undefined",)])
def test_a_program_in_c(of: Target, tmp_path: Path, flags: tuple[str, ...]) -> None:
    source = write(emit_module("add", variants(), of), tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    program = tmp_path / "program"
    options = [*WARNINGS, "-std=gnu11", "-O1", *flags]
    files: list[str | Path] = [source, tmp_path / "main.c", "-o", program, "-lm"]
    execute([compiler(of), *options, *files])
    execute(["sh", "-c", f"{program} > {tmp_path}/out"])
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines == ["low 21 42 63", "both 41 82 123", "high 51 102 153"]


def test_names_do_not_meet(tmp_path: Path) -> None:
    """Sizes, arrays and variants called like what the entry uses itself."""
    of, value = target("c"), VType(F32)
    sizes = ("total", "at", "choice")
    loop = over(1, Store("bytes", I, load("prepared", F32, 1, I)), size="total")
    fill = over(1, Store("prepared", I, load("memory", F32, 1, I)), size="total")
    functions = [
        Function(
            "k",
            sizes,
            (
                Buffer("memory", F32, (Size("total"),), "const"),
                Buffer("workspace", F32, (Size("total"),), "out"),
                Buffer("bytes", F32, (Size("total"),), "out"),
                Buffer("prepared", F32, (Size("total"),), "prepared"),
            ),
            (),
            Block((loop, over(1, Store("workspace", I, VConst(scale, value)), size="total"))),
            (),
            variant,
            condition,
            Block((fill,)),
            ("total",),
        )
        for variant, scale, condition in (
            ("prepared", 1.0, compare("lt", Size("at"), num(2))),
            ("bytes", 2.0, None),
        )
    ]
    library = build(emit_module("k", functions, of), of, tmp_path)
    memory, first, second = aligned(4), aligned(4), aligned(4)
    memory[:] = np.arange(4)
    for at in (1, 2):
        assert status(library, "k", 4, at, 0, memory, first, second, None) == 0
        np.testing.assert_array_equal(first, [at] * 4)
        np.testing.assert_array_equal(second, memory)


def test_a_constant_beyond_64_bits() -> None:
    wide = compare("lt", mul(mul(M, N), K), Const(10**30 + 1, INDEX))
    text = emit_module("fill", [filled(1.0, wide, "a"), filled(2.0, None, "b")], target("c"))
    high, low = divmod(10**30 + 1, 2**62)
    source = " ".join(text.c_source.split())
    assert f"{high}LL * ((tdsl_wide)1 << 62) + {low}LL" in source
