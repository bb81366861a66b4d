"""The C interface: statuses, workspace, scalars, names, the header."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tdsl.codegen import emit_module
from tdsl.ir.kernel import INDEX, Op, Size
from tdsl.ir.types import BF16, BOOL, F32, F64, U8, ElemType
from tdsl.ir.vector import (
    Block,
    Buffer,
    Comment,
    For,
    Function,
    If,
    Let,
    LetIndex,
    Load,
    Ref,
    Store,
    Switch,
    VType,
)
from tdsl.ir.vector import Const as VConst
from tdsl.ir.vector import Op as VOp
from tdsl.targets import Target, native, target
from tests.codegen.build import I, add, compare, load, mul, num, over
from tests.codegen.harness import WARNINGS, compiler, execute, write
from tests.codegen.library import build, status

N = Size("N")


@pytest.fixture(params=["c", "native"])
def of(request: pytest.FixtureRequest) -> Target:
    return target("c") if request.param == "c" else native()


def scaled(name: str = "scaled", x: str = "x", y: str = "y", size: str = "N") -> Function:
    """y = alpha * x for N % 2 == 0, with y aligned to 16 bytes; one elements a step."""
    value = VOp("mul", (load(x, F32, 1, I), load("alpha", F32, 1, num(0))), VType(F32))
    return Function(
        name,
        (size,),
        (
            Buffer(x, F32, (Size(size),), "in"),
            Buffer("alpha", F32, (), "in"),
            Buffer(y, F32, (Size(size),), "out", align=16),
        ),
        (compare("eq", Op("mod", (Size(size), num(2)), INDEX), num(0)),),
        Block((over(1, Store(y, I, value), size=size),)),
    )


def aligned(count: int, kind: type = np.float32, to: int = 64) -> np.ndarray:
    """Zeros at an aligned address."""
    size = np.dtype(kind).itemsize
    raw = np.zeros(count * size + to, np.uint8)
    start = -raw.ctypes.data % to
    return raw[start : start + count * size].view(kind)


def test_statuses(of: Target, tmp_path: Path) -> None:
    library = build(emit_module("scaled", [scaled()], of), of, tmp_path)
    x, y, alpha = aligned(8), aligned(8), ctypes.c_float(2.0)
    x[:] = np.arange(8)

    def call(n: int, a: object, b: object, workspace: object = None) -> int:
        return status(library, "scaled", n, a, alpha, b, workspace)

    assert call(8, x, y) == 0
    np.testing.assert_array_equal(y, 2 * np.arange(8, dtype=np.float32))
    assert call(-1, x, y) == 1
    assert call(2**40, x, y) == 1
    assert call(-(2**63), x, y) == 1
    assert call(7, x, y) == 2
    assert call(8, None, y) == 3
    assert call(8, x, None) == 3
    assert call(6, x, y[1:]) == 3  # not aligned to 16
    odd = ctypes.c_void_p(x.ctypes.data + 2)
    assert call(4, odd, y) == 3
    both = aligned(16)
    assert call(8, both, both) == 4
    assert call(8, both[1:], both) == 4
    assert call(8, both, both[4:]) == 4
    assert call(8, both, both[8:]) == 0
    assert call(8, both[8:], both) == 0
    assert call(0, both, both) == 0  # nothing overlaps nothing
    assert call(0, None, None) == 0
    assert call(8, x, y, ctypes.c_void_p(x.ctypes.data + 4)) == 7


def test_byte_counts_do_not_overflow(of: Target, tmp_path: Path) -> None:
    """Four sizes below 2^40 whose product wraps to something small."""
    names = ("A", "B", "C", "D")
    shape = tuple(Size(n) for n in names)
    f = Function(
        "big",
        names,
        (Buffer("x", F64, shape, "in"), Buffer("y", F64, (), "out")),
        (),
        Block((Store("y", num(0), VConst(1.0, VType(F64))),)),
    )
    library = build(emit_module("big", [f], of), of, tmp_path)
    x, y = aligned(8, np.float64), aligned(1, np.float64)
    assert status(library, "big", 2**32, 2**32, 1, 1, x, y, None) == 1
    assert status(library, "big", 2**39, 2**39, 2**39, 2**39, x, y, None) == 1
    assert status(library, "big", 2**30, 2**29, 1, 1, x, y, None) == 1  # 2^62 bytes
    assert status(library, "big", 2**39, 2**39, 2**39, 0, None, y, None) == 0
    assert status(library, "big", 2, 2, 2, 1, x, y, None) == 0
    assert y[0] == 1


def staged() -> Function:
    """t = x + 1 in the workspace, and y = t * t, by way of a second temp."""
    one = VOp("add", (load("x", F32, 1, I), VConst(1.0, VType(F32))), VType(F32))
    t = load("t", F32, 1, I)
    u = Load("u", I, VType(F64))
    square = VOp("mul", (t, t), VType(F32))
    return Function(
        "staged",
        ("N",),
        (
            Buffer("x", F32, (N,), "in"),
            Buffer("y", F32, (N,), "out"),
            Buffer("z", F64, (N,), "out"),
            Buffer("t", F32, (add(N, num(1)),), "temp"),
            Buffer("u", F64, (N,), "temp"),
        ),
        (),
        Block(
            (
                over(1, Store("t", I, one)),
                For("j", num(0), N, Block((Store("u", num(0), VConst(4.0, VType(F64))),))),
                over(1, Store("y", I, square)),
                If(
                    compare("gt", N, num(0)),
                    Block((Store("z", num(0), Load("u", num(0), u.type)),)),
                ),
            )
        ),
    )


def test_workspace(of: Target, tmp_path: Path) -> None:
    module = emit_module("staged", [replace(staged(), variant="in stages")], of)
    library = build(module, of, tmp_path)
    library.staged_workspace_bytes.restype = ctypes.c_size_t
    library.staged_variant.restype = ctypes.c_char_p
    assert library.staged_workspace_bytes(ctypes.c_int64(20)) == 192 + 256  # 84, 160 and 64
    assert library.staged_workspace_bytes(ctypes.c_int64(-1)) == 0
    assert library.staged_variant(ctypes.c_int64(20)) == b"in stages"
    x = np.arange(20, dtype=np.float32)
    for workspace in (None, aligned(448, np.uint8)):
        y, z = np.zeros(20, np.float32), np.zeros(20)
        assert status(library, "staged", 20, x, y, z, workspace) == 0
        np.testing.assert_array_equal(y, (x + 1) ** 2)
        assert z[0] == 4
    y, z = np.zeros(20, np.float32), np.zeros(20)
    wrong = ctypes.c_void_p(aligned(400, np.uint8).ctypes.data + 32)
    assert status(library, "staged", 20, x, y, z, wrong) == 7
    # Each array is allowed, together they are not memory that anyone has.
    assert status(library, "staged", 0, None, None, None, None) == 0


def test_out_of_memory(tmp_path: Path) -> None:
    """A temp of 2^61 bytes cannot be allocated, whatever else is right."""
    f = Function(
        "huge",
        ("N",),
        (
            Buffer("y", U8, (), "out"),
            Buffer("t", U8, (N, num(2**31)), "temp"),
        ),
        (),
        Block(
            (
                Store("t", num(0), VConst(3, VType(U8))),
                Store("y", num(0), Load("t", num(0), VType(U8))),
            )
        ),
    )
    of = target("c")
    library = build(emit_module("huge", [f], of), of, tmp_path)
    y = np.zeros((), np.uint8)
    assert status(library, "huge", 2**30, y, None) == 5
    assert status(library, "huge", 2**31, y, None) == 1
    assert y == 0


def test_every_extent_is_checked(of: Target, tmp_path: Path) -> None:
    """An extent may be negative although no size is."""
    f = Function(
        "windows",
        ("N",),
        (Buffer("x", F32, (Op("sub", (N, num(2)), INDEX),), "in"), Buffer("y", F32, (), "out")),
        (),
        Block((Store("y", num(0), VConst(1.0, VType(F32))),)),
    )
    library = build(emit_module("windows", [f], of), of, tmp_path)
    y = np.zeros((), np.float32)
    assert status(library, "windows", 1, None, y, None) == 1
    assert status(library, "windows", 2, None, y, None) == 0


@pytest.mark.skipif(native().family != "x86", reason="this machine is no x86_64")
def test_processor_check_is_there_and_refuses(tmp_path: Path) -> None:
    """With a feature that no processor has reported, the entry refuses and computes nothing."""
    of = native()
    module = emit_module("scaled", [scaled()], of)
    for feature in of.required:
        assert f'__builtin_cpu_supports("{feature}")' in module.c_source
    lying = re.sub(r'__builtin_cpu_supports\("fma"\)', "0", module.c_source)
    assert lying != module.c_source
    changed = type(module)(module.name, lying, module.header, module.cdef, module.functions)
    library = build(changed, of, tmp_path)
    x, y = aligned(8), aligned(8)
    x[:] = 1
    assert status(library, "scaled", 8, x, ctypes.c_float(2), y, None) == 6
    assert not y.any()


HARD_NAMES = ("linux", "unix", "exp", "int", "main", "errno", "I", "_x", "__m512", "EOF", "memcpy",
              "uint8_t", "f32x16", "tdsl_max_f32", "INFINITY", "restrict", "class", "y_bytes",
              "workspace", "NULL", "stdin", "expf", "vaddq_f32", "j1", "lambda")  # fmt: skip


@pytest.mark.parametrize("name", HARD_NAMES)
def test_names_that_c_has_already(name: str, of: Target, tmp_path: Path) -> None:
    """As a kernel, a size, an array and a loop; beside the name that mangling would choose."""
    other = name + "_"
    value = VOp("exp", (load(name, F32, 1, I),), VType(F32))
    inner = Let(name + "v", value)
    f = Function(
        name,
        (other,),
        (Buffer(name, F32, (Size(other),), "in"), Buffer("y", F32, (Size(other),), "out")),
        (),
        Block((over(1, inner, Store("y", I, Ref(name + "v", VType(F32))), size=other),)),
    )
    g = scaled("other", x=other, y=name, size="n")
    module = emit_module("names", [f, g], of)
    library = build(module, of, tmp_path)
    entries = {c.name: c for c in module.functions}
    x, y = np.linspace(0, 1, 4, dtype=np.float32), np.zeros(4, np.float32)
    assert status(library, entries[name].c_name, 4, x, y, None) == 0
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    # A main that includes the header, as C and as C++ would.
    program = '#include <stdio.h>\n#include <errno.h>\n#include <math.h>\n#include "names.h"\n'
    (tmp_path / "use.c").write_text(program)
    execute([compiler(of), *WARNINGS, "-c", tmp_path / "use.c", "-o", tmp_path / "use.o"])


def test_mangling_is_a_function_of_the_name(of: Target) -> None:
    module = emit_module("a", [scaled("sum", x="exp", y="exp_", size="N")], of)
    (entry,) = module.functions
    assert entry.c_name == "sum"
    assert [a.c_name for a in entry.arguments] == ["exp__", "alpha", "exp_"]
    module = emit_module("a", [scaled("main"), scaled("main_")], of, prefix="my_")
    assert [f.c_name for f in module.functions] == ["my_main", "my_main_"]
    module = emit_module("a", [scaled("main"), scaled("main_")], of)
    assert [f.c_name for f in module.functions] == ["main__", "main_"]
    module = emit_module("a", [scaled("f"), scaled("f_variant")], of)
    names = [n for f in module.functions for n in (f.c_name, f.workspace_bytes, f.variant)]
    assert len(set(names)) == 6
    assert names[0] == "f" and names[3] == "f_variant"


def test_descriptions(of: Target) -> None:
    (entry,) = emit_module("scaled", [scaled()], of).functions
    assert entry.sizes == ("N",)
    assert [(a.name, a.role, a.rank, a.by_value, a.align) for a in entry.arguments] == [
        ("x", "in", 1, False, 4),
        ("alpha", "in", 0, True, 4),
        ("y", "out", 1, False, 16),
    ]


@pytest.mark.parametrize("elem", [F32, BF16, BOOL, U8])
def test_scalars_go_by_value(elem: ElemType, of: Target) -> None:
    f = Function(
        "scalar",
        (),
        (Buffer("a", elem, (), "const"), Buffer("y", elem, (), "out")),
        (),
        Block((Store("y", num(0), load("a", elem, 1, num(0))),)),
    )
    header = emit_module("scalar", [f], of).header
    ctype = {"f32": "float", "bf16": "uint16_t"}.get(elem.name, "uint8_t")
    assert f"int scalar({ctype} a, {ctype} *y, void *workspace);" in header


HOSTILE = ("*/ int x; /*", "ends in a backslash \\", "??/", "Größe λ", "a\nb\r\tc", 'quote " \\"')


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_cannot_escape(text: str, of: Target, tmp_path: Path) -> None:
    base = scaled()
    body = Block((Comment(text), *base.body.items))
    f = Function(base.name, base.sizes, base.buffers, base.assumptions, body, (text, text))
    module = emit_module("scaled", [replace(f, variant=text)], of)
    assert module.c_source.isascii()
    library = build(module, of, tmp_path)
    library.scaled_variant.restype = ctypes.c_char_p
    x, y = aligned(2), aligned(2)
    x[:] = 3
    assert status(library, "scaled", 2, x, ctypes.c_float(2), y, None) == 0
    assert y.tolist() == [6, 6]
    assert library.scaled_variant(ctypes.c_int64(2)).decode() == text


def test_switch_and_blocks(of: Target, tmp_path: Path) -> None:
    def put(value: float) -> Block:
        return Block(
            (Let("v", VConst(value, VType(F32))), Store("y", num(0), Ref("v", VType(F32))))
        )

    on = Op("mod", (Op("sub", (N, num(5)), INDEX), num(4)), INDEX)
    f = Function(
        "choose",
        ("N",),
        (Buffer("y", F32, (), "out"),),
        (),
        Block(
            (
                LetIndex("r", on),
                Switch(on, ((0, put(10)), (3, put(13))), put(-1)),
            )
        ),
    )
    library = build(emit_module("choose", [f], of), of, tmp_path, ("-Wno-unused",))
    for n in range(9):
        y = np.zeros((), np.float32)
        assert status(library, "choose", n, y, None) == 0
        assert y == {0: 10, 3: 13}.get((n - 5) % 4, -1)


def test_index_division_is_floored(of: Target, tmp_path: Path) -> None:
    cases = {
        "div": Op("floordiv", (Op("sub", (N, num(7)), INDEX), num(3)), INDEX),
        "mod": Op("mod", (Op("sub", (N, num(7)), INDEX), num(3)), INDEX),
        "plain": Op("floordiv", (add(N, num(1)), num(3)), INDEX),
        "least": Op("min", (N, Op("max", (num(2), Op("sub", (num(9), N), INDEX)), INDEX)), INDEX),
        "away": Op("abs", (Op("sub", (N, num(7)), INDEX),), INDEX),
        "less": Op("sub", (N, Op("sub", (num(7), N), INDEX)), INDEX),
        "minus": Op("neg", (Op("neg", (add(N, num(-2)),), INDEX),), INDEX),
        "mixed": mul(add(N, num(2)), add(N, mul(num(3), N))),
    }
    places = [Store(name, num(0), VConst(1.0, VType(F32))) for name in cases]
    buffers = tuple(Buffer(name, F32, (num(64),), "inout") for name in cases)
    moved = [
        Store(p.buffer, Op("max", (num(0), Op("min", (num(63), add(e, num(20))), INDEX)), INDEX),
              p.value)
        for p, e in zip(places, cases.values(), strict=True)
    ]  # fmt: skip
    f = Function("places", ("N",), buffers, (), Block(tuple(moved)))
    module = emit_module("places", [f], of)
    assert "(N + 1) / 3" in module.c_source
    assert "tdsl_floordiv(N - 7, 3)" in module.c_source
    library = build(module, of, tmp_path)
    for n in (0, 1, 4, 6, 7, 9, 15):
        arrays = [np.zeros(64, np.float32) for _ in cases]
        assert status(library, "places", n, *arrays, None) == 0
        want = [(n - 7) // 3, (n - 7) % 3, (n + 1) // 3, min(n, max(2, 9 - n)), abs(n - 7),
                n - (7 - n), n - 2, (n + 2) * (n + 3 * n)]  # fmt: skip
        got = [int(np.flatnonzero(a)[0]) for a in arrays]
        assert got == [max(0, min(63, w + 20)) for w in want]


def test_fast_math_is_refused(of: Target, tmp_path: Path) -> None:
    source = write(emit_module("scaled", [scaled()], of), tmp_path)
    command = [compiler(of), "-ffast-math", "-c", str(source), "-o", str(tmp_path / "x.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "fast-math" in done.stderr


def test_contraction_stays_off_without_the_flag(tmp_path: Path) -> None:
    """gcc contracts a * b + c by default; the file itself forbids it."""
    product = VOp("mul", (load("a", F64, 1, I), load("b", F64, 1, I)), VType(F64))
    value = VOp("add", (product, load("c", F64, 1, I)), VType(F64))
    sides = tuple(Buffer(n, F64, (N,), "in") for n in "abc")
    f = Function("axpy", ("N",), (*sides, Buffer("y", F64, (N,), "out")), (),
                 Block((over(1, Store("y", I, value)),)))  # fmt: skip
    of = native()
    source = write(emit_module("axpy", [f], of), tmp_path)
    path = tmp_path / "lib.so"
    execute([compiler(of), "-O2", "-shared", "-fPIC", source, "-o", path])
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(200) for _ in range(3))
    y = np.zeros(200)
    assert status(ctypes.CDLL(str(path)), "axpy", 200, a, b, c, y, None) == 0
    np.testing.assert_array_equal(y, a * b + c)


def test_same_input_same_bytes(of: Target) -> None:
    first, second = (emit_module("m", [scaled(), staged()], of) for _ in range(2))
    assert first == second
