"""Modules and kernels before they are compiled."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tdsl
from tests.api.conftest import TEXT


def test_kernels_by_name(module: tdsl.Module) -> None:
    assert list(module.kernels) == ["matmul", "scale", "several", "step"]
    assert list(module) == list(module.kernels)
    assert len(module) == 4
    assert "scale" in module
    assert module["scale"] is module.kernels["scale"]
    with pytest.raises(KeyError, match="has no kernel 'scales'; its kernels are matmul, scale"):
        module["scales"]


def test_what_a_kernel_says_of_itself(module: tdsl.Module) -> None:
    matmul, scale = module["matmul"], module["scale"]
    assert matmul.sizes == ("M", "N", "K")
    assert matmul.statements == ("C",)
    assert matmul.schedules == ("tiled", "rows")
    assert {n: str(a) for n, a in matmul.arguments.items()} == {
        "A": "in A: f32[M, K]",
        "B": "in B: f32[K, N]",
        "C": "out C: f32[M, N]",
    }
    assert scale.constants == {"by": "3", "T": "f32"}
    assert str(scale.arguments["a"]) == "in a: f32"
    assert (scale.arguments["y"].role, scale.arguments["y"].shape) == ("out", ("N",))


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "programs.tdsl"
    path.write_text(TEXT)
    assert list(tdsl.load(path)) == list(tdsl.load(str(path))) == list(tdsl.parse(TEXT))


def test_load_of_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.tdsl"
    path.write_bytes(b"kernel \xff")
    with pytest.raises(tdsl.ParseError, match="is not UTF-8 text: invalid start byte at byte 7"):
        tdsl.load(path)
    with pytest.raises(FileNotFoundError):
        tdsl.load(tmp_path / "none.tdsl")


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("kernel f(N) {", tdsl.ParseError, "syntax"),
        ("schedule f for any { }", tdsl.ParseError, "there is no kernel `f`"),
        ("import conv", tdsl.ParseError, "import"),
    ],
)
def test_a_file_that_is_wrong_is_refused_at_once(
    text: str, error: type[tdsl.Error], said: str
) -> None:
    with pytest.raises(error, match=said):
        tdsl.parse(text)


def test_errors_carry_their_diagnostics(module: tdsl.Module) -> None:
    with pytest.raises(tdsl.ParseError) as caught:
        tdsl.parse("kernel f(N) { out y: f32[N] y[i] = }", name="short.tdsl")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert (diagnostic.span.source.name, diagnostic.span.line) == ("short.tdsl", 1)


# ---------------------------------------------------------------- the reference


def test_the_reference_is_numpy_s_answer(module: tdsl.Module) -> None:
    generator = np.random.default_rng(0)
    a = generator.integers(-9, 9, (4, 6)).astype(np.float32)
    b = generator.integers(-9, 9, (6, 3)).astype(np.float32)
    assert (module["matmul"].reference(A=a, B=b) == a @ b).all()
    assert (module["matmul"].reference({}, a, b) == a @ b).all()


def test_the_reference_takes_constants(module: tdsl.Module) -> None:
    x = np.arange(5, dtype=np.float64)
    y = module["scale"].reference({"by": 5, "T": "f64"}, x=x, a=1.5)
    assert y.dtype == np.float64
    assert (y == 5 * x + 1.5).all()


def test_the_reference_does_what_a_call_does(module: tdsl.Module) -> None:
    x, z = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    out = np.zeros((), np.float32)
    result = module["several"].reference(x=x, z=z, s=out, T=7)
    assert (z == [1, 2, 3, 4]).all()
    assert result.s is out
    assert float(result.s) == 6.0
    assert int(result.steps) == 7
    assert result._fields == ("s", "steps")
    w = np.full(3, 1.25)
    assert module["step"].reference(z=w) is w
    assert (w == 2.5).all()


def test_the_reference_checks_its_arguments(module: tdsl.Module) -> None:
    a = np.zeros((2, 3), np.float32)
    with pytest.raises(TypeError, match="argument 'B': expected float32 array"):
        module["matmul"].reference(A=a, B=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="'B'"):
        module["matmul"].reference(A=a, B=a)
    with pytest.raises(TypeError, match="missing argument 'B'"):
        module["matmul"].reference(A=a)


# ---------------------------------------------------------------- the import


def test_import_loads_nothing_before_it_is_used() -> None:
    code = (
        "import sys, tdsl;"
        "loaded = {m.split('.')[0] for m in sys.modules};"
        "assert not loaded & {'numpy', 'islpy', 'lark', 'cffi', 'click', 'rich'}, loaded;"
        "assert {'load', 'parse', 'Error', 'IllegalSchedule'} <= set(dir(tdsl));"
        "tdsl.load; tdsl.BoundsError"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there() -> None:
    for name in tdsl.__all__:
        assert getattr(tdsl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        tdsl.lod  # type: ignore[attr-defined]  # noqa: B018


def test_errors_are_one_family() -> None:
    for name in (
        "ParseError", "TypeMismatch", "BoundsError", "IllegalSchedule", "UnsupportedTarget",
        "ToolchainError", "BudgetExceeded",
    ):  # fmt: skip
        assert issubclass(getattr(tdsl, name), tdsl.Error)


def test_statements_are_those_that_schedules_name() -> None:
    """`S.init` follows S, of a reduction of several values as of any other."""
    text = """
kernel f(M, N) {
    assume N >= 1
    in  x: f32[M, N]
    out s: f32[M]
    out am: i64[M]
    s[i] = sum[j](x[i, j])
    am[i] = argmax[j](x[i, j])
}
"""
    kernel = tdsl.parse(text)["f"]
    assert kernel.statements == ("s", "am_next", "am_best_next", "am", "am_best")
    for name in kernel.statements:
        kernel.schedule("c").parallel(f"{name}.i")
    for loop in ("am.init.i", "am.init", "s.init.i"):
        with pytest.raises(tdsl.Error, match=r"\.init follows .*: its loops cannot be named"):
            kernel.schedule("c").parallel(loop)
