"""Every operator at small odd sizes, on each kind of vector that runs here and as plain C, against
NumPy. Sizes lie beside the tiles: rests of rows, of vectors and of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import close, compiled, conv, everywhere, floats, here

# ---------------------------------------------------------------- products


@everywhere
@pytest.mark.parametrize(
    "variant,m,n,k",
    [
        ("row", 1, 77, 21), ("direct", 7, 70, 9), ("direct", 13, 37, 5), ("packed", 19, 83, 23),
        ("small", 9, 20, 7), ("tall", 40, 5, 6),
    ],
)  # fmt: skip
def test_matmul(on: str, variant: str, m: int, n: int, k: int) -> None:
    options: dict[str, Any] = {} if on == "c" else {"schedule": variant}
    a, b = floats(1, m, k), floats(2, k, n)
    kernel = compiled("gemm", "matmul", on, sizes={"M": m, "N": n, "K": k}, **options)
    close(kernel(a, b), a.astype(np.float64) @ b)


@pytest.mark.parametrize("on", here(("avx512", "avx2")))
def test_packed_blocks(on: str) -> None:
    """More terms than a block of the sum has."""
    a, b = floats(3, 14, 301), floats(4, 301, 70)
    kernel = compiled(
        "gemm", "matmul", on, sizes={"M": 14, "N": 70, "K": 301}, schedule="packed",
        knobs={"KC": 256},
    )  # fmt: skip
    close(kernel(a, b), a.astype(np.float64) @ b)


@everywhere
def test_strips(on: str) -> None:
    options: dict[str, Any] = {} if on == "c" else {"schedule": "strips"}
    a, b = floats(3, 14, 11), floats(4, 11, 70)
    kernel = compiled("gemm", "matmul", on, sizes={"M": 14, "N": 70, "K": 11}, **options)
    close(kernel(a, b), a.astype(np.float64) @ b)


@everywhere
def test_linear(on: str) -> None:
    a, w, b = floats(5, 8, 10), floats(6, 10, 35), floats(7, 35)
    sizes = {"M": 8, "N": 35, "K": 10}
    kernel = compiled("gemm", "linear", on, constants={"act": "relu"}, sizes=sizes)
    close(kernel(a, w, b), np.maximum(a.astype(np.float64) @ w + b, 0))
    plain = compiled("gemm", "matmul_const", on, sizes=sizes).prepare(W=w)
    close(plain(a), a.astype(np.float64) @ w)


@pytest.mark.parametrize("on", here(("c", "avx512+vnni", "avx512", "avx2")))
@pytest.mark.parametrize("m,n,k", [(9, 37, 10), (17, 64, 8)])
def test_qgemm(on: str, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(8)
    a = rng.integers(0, 256, (m, k)).astype(np.uint8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    scale = rng.uniform(0.001, 0.01, n).astype(np.float32)
    t = (a.astype(np.int64) - 7) @ b.astype(np.int64)
    want = np.clip(np.rint(t.astype(np.float32) * scale) + np.float32(90), 0, 255)
    kernel = compiled("qgemm", "qgemm", on, sizes={"M": m, "N": n, "K": k})
    got = kernel(a, b, scale, 7, 90)
    np.testing.assert_array_equal(got, want.astype(np.uint8))


@pytest.mark.parametrize("on", here(("c", "avx512+bf16", "avx512", "avx2")))
def test_bgemm(on: str) -> None:
    rng = np.random.default_rng(9)
    a, b = ((rng.integers(-8, 9, s) / 4).astype(np.float32) for s in ((9, 7), (7, 37)))
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]  # these are exact
    kernel = compiled("qgemm", "bgemm", on, sizes={"M": 9, "N": 37, "K": 7})
    close(kernel(*bits), a.astype(np.float64) @ b)


@pytest.mark.neon
@pytest.mark.parametrize("on", ["neon+dotprod", "neon+i8mm"])
def test_igemm(on: str) -> None:
    rng = np.random.default_rng(32)
    a = rng.integers(-128, 128, (9, 11)).astype(np.int8)
    b = rng.integers(-128, 128, (11, 14)).astype(np.int8)
    kernel = compiled("qgemm", "igemm", on, sizes={"M": 9, "N": 14, "K": 11})
    np.testing.assert_array_equal(kernel(a, b), a.astype(np.int64) @ b)


@pytest.mark.neon
def test_matmul_neon() -> None:
    a, b = floats(33, 19, 9), floats(34, 9, 31)
    sizes = {"M": 19, "N": 31, "K": 9}
    knobs = {"MR": 8, "NV": 3}
    kernel = compiled("gemm", "matmul", "neon", sizes=sizes, schedule="packed", knobs=knobs)
    close(kernel(a, b), a.astype(np.float64) @ b)


# ---------------------------------------------------------------- convolutions


@everywhere
@pytest.mark.parametrize(
    "variant,taps,c,k,stride,pad",
    [
        ("halo", 3, 5, 37, 1, 1),
        ("halo", 3, 5, 33, 2, 1),
        ("stem", 7, 3, 8, 2, 3),
        ("pointwise", 1, 9, 34, 1, 0),
    ],
)
def test_conv2d(on: str, variant: str, taps: int, c: int, k: int, stride: int, pad: int) -> None:
    options: dict[str, Any] = {} if on == "c" else {"schedule": variant}
    x, w, b = floats(10, 1, 9, 17, c), floats(11, taps, taps, c, k), floats(12, k)
    kernel = compiled(
        "conv2d", "conv2d", on, constants={"stride": stride, "pad": pad},
        sizes={"N": 1, "H": 9, "W": 17, "C": c, "K": k, "R": taps, "S": taps}, **options,
    )  # fmt: skip
    close(kernel(x, w, b), np.maximum(conv(x, w, stride, pad) + b, 0))


@pytest.mark.parametrize("on", here(("avx512", "avx2"))[:1])
@pytest.mark.parametrize("m", [4, 2])
def test_winograd(on: str, m: int) -> None:
    x, w, b = floats(13, 1, 9, 10, 5), floats(14, 3, 3, 5, 18), floats(15, 18)
    constants = {"m": m, "G": f"G{m}", "BT": f"B{m}", "AT": f"A{m}"}
    sizes = {"N": 1, "H": 9, "W": 10, "C": 5, "K": 18}
    kernel = compiled("winograd", "winograd", on, constants=constants, sizes=sizes)
    close(kernel(x, w, b), np.maximum(conv(x, w, 1, 1) + b, 0), 3e-5)


@everywhere
@pytest.mark.parametrize("c", [19, 3])
def test_depthwise(on: str, c: int) -> None:
    x, w = floats(16, 1, 5, 7, c), floats(17, 3, 3, c)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    kernel = compiled("depthwise", "depthwise", on, sizes={"N": 1, "H": 5, "W": 7, "C": c})
    close(kernel(x, w), np.einsum("npqcrs,rsc->npqc", windows, w.astype(np.float64)))


@pytest.mark.parametrize("on", here(("c", "avx512+vnni")))
def test_qconv2d(on: str) -> None:
    rng = np.random.default_rng(18)
    x = rng.integers(0, 256, (1, 5, 9, 8)).astype(np.uint8)
    w = rng.integers(-128, 128, (3, 3, 8, 35)).astype(np.int8)
    bias = rng.integers(-999, 999, 35).astype(np.int32)
    scale = rng.uniform(0.001, 0.01, 35).astype(np.float32)
    t = conv(x.astype(np.float64) - 121, w, 1, 1) + bias
    want = np.clip(np.rint(t.astype(np.float32) * scale) + np.float32(90), 0, 255)
    sizes = {"N": 1, "H": 5, "W": 9, "C": 8, "K": 35, "R": 3, "S": 3}
    kernel = compiled("qconv2d", "qconv2d", on, sizes=sizes)
    np.testing.assert_array_equal(kernel(x, w, bias, scale, 121, 90), want.astype(np.uint8))


# ---------------------------------------------------------------- rows, elements, planes


@everywhere
def test_rows(on: str) -> None:
    x, g, b = 4 * floats(19, 5, 75), floats(20, 75), floats(21, 75)
    wide, sizes = x.astype(np.float64), {"M": 5, "N": 75}
    powers = np.exp(wide - wide.max(1, keepdims=True))
    close(compiled("norm", "softmax", on, sizes=sizes)(x), powers / powers.sum(1, keepdims=True))
    d = wide - wide.mean(1, keepdims=True)
    want = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b
    close(compiled("norm", "layernorm", on, sizes=sizes)(x, g, b, 1e-5), want)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5) * g
    close(compiled("norm", "rmsnorm", on, sizes=sizes)(x, g, 1e-5), want)


@everywhere
def test_argmax(on: str) -> None:
    x = floats(22, 5, 75)
    x[1, 40] = x[1, 3] = 2.0  # the first of equals
    np.testing.assert_array_equal(
        compiled("norm", "argmax", on, sizes={"M": 5, "N": 75})(x), x.argmax(1)
    )


ACTIVATIONS: Mapping[str, Callable[[float], float]] = {
    "relu": lambda v: max(v, 0.0),
    "gelu": lambda v: 0.5 * v * (1 + erf(v / 2**0.5)),
    "gelu_tanh": lambda v: 0.5 * v * (1 + np.tanh((2 / np.pi) ** 0.5 * (v + 0.044715 * v**3))),
    "silu": lambda v: v / (1 + np.exp(-v)),
}


@everywhere
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(on: str, name: str) -> None:
    x = 3 * floats(23, 77)
    kernel = compiled("elementwise", "activation", on, constants={"f": name}, sizes={"N": 77})
    close(kernel(x), np.array([ACTIVATIONS[name](float(v)) for v in x]))


@everywhere
@pytest.mark.parametrize("variant", ["large", None])
def test_chain(on: str, variant: str | None) -> None:
    x, c = floats(24, 77), floats(25, 77)
    kernel = compiled("elementwise", "scale_shift_relu_add", on, schedule=variant, sizes={"N": 77})
    close(kernel(x, c, 1.5, -0.25), np.maximum(x.astype(np.float64) * 1.5 - 0.25, 0) + c)


@everywhere
@pytest.mark.parametrize("m,n", [(19, 137), (8, 16)])
def test_transpose(on: str, m: int, n: int) -> None:
    x = floats(26, m, n)
    kernel = compiled("image", "transpose", on, sizes={"M": m, "N": n})
    np.testing.assert_array_equal(kernel(x), x.T)


@everywhere
def test_blur(on: str) -> None:
    x = floats(27, 21, 39)
    across = (x[:, :-2].astype(np.float64) + x[:, 1:-1] + x[:, 2:]) / 3
    want = (across[:-2] + across[1:-1] + across[2:]) / 3
    close(compiled("image", "blur", on, sizes={"H": 21, "W": 39})(x), want)


@everywhere
@pytest.mark.parametrize(("n", "t", "bound"), [(37, 31, True), (3, 1, True), (9, 27, False)])
def test_jacobi(on: str, n: int, t: int, bound: bool) -> None:
    a = np.random.default_rng(28).standard_normal((n, n))
    b = a.copy()
    want_a, want_b = a.copy(), b.copy()
    compiled("image", "jacobi", on, sizes={"N": n} if bound else {})(A=a, B=b, T=t)
    for _ in range(t):
        for s, d in ((want_a, want_b), (want_b, want_a)):
            inner = s[1:-1, 1:-1] + s[1:-1, :-2] + s[1:-1, 2:] + s[2:, 1:-1] + s[:-2, 1:-1]
            d[1:-1, 1:-1] = 0.2 * inner
    np.testing.assert_allclose(a, want_a, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(b, want_b, rtol=1e-12, atol=1e-12)


@everywhere
def test_attention(on: str) -> None:
    q, k, v = floats(29, 2, 7, 19), floats(30, 2, 70, 19), floats(31, 2, 70, 19)
    s = 0.3 * np.einsum("hid,hjd->hij", q, k, dtype=np.float64)
    e = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("hij,hjd->hid", e / e.sum(-1, keepdims=True), v)
    sizes = {"H": 2, "L": 7, "S": 70, "E": 19}
    close(compiled("attention", "attention", on, sizes=sizes)(q, k, v, 0.3), want)


# ---------------------------------------------------------------- other shapes


@pytest.mark.parametrize("on", here(("c", "avx512", "avx2"))[:2])
def test_grouped(on: str) -> None:
    x, w = floats(40, 1, 6, 7, 6), floats(41, 2, 3, 3, 3, 18)
    sizes = {"N": 1, "H": 6, "W": 7, "G": 2, "C": 3, "K": 18, "R": 3, "S": 3}
    kernel = compiled("conv2d_more", "conv2d_grouped", on, constants={"pad": 1}, sizes=sizes)
    want = np.concatenate([conv(x[..., 3 * g : 3 * g + 3], w[g], 1, 1) for g in (0, 1)], 3)
    close(kernel(x, w), want)


@pytest.mark.parametrize("on", here(("c", "avx512", "avx2"))[:2])
def test_transposed(on: str) -> None:
    x, w = floats(42, 1, 3, 4, 5), floats(43, 3, 3, 5, 18)
    want = np.zeros((1, 7, 9, 18))
    for r in range(3):
        for s in range(3):
            want[:, r : r + 5 : 2, s : s + 7 : 2] += x.astype(np.float64) @ w[r, s]
    sizes = {"N": 1, "H": 3, "W": 4, "C": 5, "K": 18, "R": 3, "S": 3}
    close(compiled("conv2d_more", "conv2d_transposed", on, sizes=sizes)(x, w), want)


@pytest.mark.parametrize("on", here(("c", "avx512", "avx2"))[:2])
def test_im2col(on: str) -> None:
    x, w = floats(44, 3, 7, 9), floats(45, 11, 3, 3, 3)
    sizes = {"C": 3, "H": 7, "W": 9, "K": 11, "R": 3, "S": 3}
    want = conv(x.transpose(1, 2, 0)[None], w.transpose(2, 3, 1, 0), 1, 1)[0].transpose(2, 0, 1)
    close(compiled("conv2d_more", "conv2d_im2col", on, sizes=sizes)(x, w), want)


@everywhere
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_maxpool(on: str, ceil_mode: int) -> None:
    x = floats(46, 1, 6, 8, 19)
    wide = np.pad(x, ((0, 0), (1, 2), (1, 2), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))[:, ::2, ::2]
    rows, cols = (4, 5) if ceil_mode else (3, 4)
    sizes = {"N": 1, "H": 6, "W": 8, "C": 19}
    kernel = compiled("pool", "maxpool", on, constants={"ceil_mode": ceil_mode}, sizes=sizes)
    np.testing.assert_array_equal(kernel(x), windows.max((4, 5))[:, :rows, :cols])


@everywhere
def test_avgpool(on: str) -> None:
    x = floats(47, 1, 6, 8, 19)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    ones = np.pad(np.ones((1, 6, 8, 1)), ((0, 0), (1, 1), (1, 1), (0, 0)))
    total, count = (
        np.lib.stride_tricks.sliding_window_view(a, (3, 3), (1, 2))[:, ::2, ::2].sum((4, 5))
        for a in (wide, ones)
    )
    close(
        compiled("pool", "avgpool", on, sizes={"N": 1, "H": 6, "W": 8, "C": 19})(x), total / count
    )
