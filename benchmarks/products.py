"""Matrix products: f32 against OpenBLAS, torch and onnxruntime, bf16 and int8."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import pipelines
from benchmarks.case import (
    Absent,
    Array,
    Benchmark,
    Case,
    Differs,
    aligned,
    checked,
    compiled,
    normal,
    output,
)
from benchmarks.peers import node, onnx_run, present, torch, torch_call

SQUARE = (64, 100, 128, 256, 512, 1024, 2048)
UNIT = 1.01 / 255  # one step of u8, since ties may round either way
OTHERS = ((16, 1024, 1024), (8, 4096, 1024), (3136, 64, 576), (128, 128, 4096))


def benchmarks() -> Iterator[Benchmark]:
    """One row a shape; those with `packed` have the second factor packed beforehand."""
    for n in SQUARE:
        yield Benchmark(f"sgemm_{n}", partial(sgemm, n, n, n, 1.05, ("numpy",)))
    for n in SQUARE:
        yield Benchmark(f"sgemm_packed_{n}", partial(packed, n, n, n))
    for m, n, k in OTHERS:
        yield Benchmark(
            f"sgemm_{m}_{n}_{k}", partial(sgemm, m, n, k, 1.0, ("numpy", "torch", "ort"))
        )
    yield Benchmark(
        "sgemm_1_4096_4096", partial(sgemm, 1, 4096, 4096, 0.97, ("numpy", "torch", "ort"))
    )
    yield Benchmark("halide_sgemm_1024", partial(against_halide, 1024))
    yield Benchmark("qgemm_1024", partial(qgemm, 1024))
    yield Benchmark("bgemm_1024", partial(bgemm, 1024))


def factors(m: int, n: int, k: int) -> tuple[Array, Array, Array]:
    """Two of them, and the exact product."""
    rng = np.random.default_rng(m + n + k)
    a, b = normal(rng, m, k), normal(rng, k, n)
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


def sgemm(m: int, n: int, k: int, goal: float, against: tuple[str, ...]) -> Case:
    """C = A B, neither factor known before."""
    a, b, exact = factors(m, n, k)
    y, other = output(m, n), output(m, n)
    kernel = compiled("gemm", "matmul", {"M": m, "N": n, "K": k})
    kernel(a, b, y)
    peers = {"numpy": lambda: np.matmul(a, b, other)}
    if "torch" in against and torch is not None:
        torch.set_num_threads(1)
        ta, tb, tc = map(torch.from_numpy, (a, b, other))
        peers["torch"] = torch_call(lambda: torch.mm(ta, tb, out=tc))
    if "ort" in against:
        peers["onnxruntime"] = onnx_run(
            [node("MatMul", "a b", "y")], {"a": a, "b": b}, {}, {"y": other}
        )
    for run in peers.values():
        run()
        checked(exact, other, 1e-5)
    error = checked(exact, y, 1e-5)
    return Case(
        goal, 2.0 * m * n * k, lambda: kernel(a, b, y), peers, error, str(kernel.schedule),
        bound_by="f32",
    )  # fmt: skip


def against_halide(n: int) -> Case:
    """A product scheduled by hand on both sides, neither factor known before."""
    a, b, exact = factors(n, n, n)
    y, other = output(n, n), output(n, n)
    kernel = compiled("gemm", "matmul", {"M": n, "N": n, "K": n})
    kernel(a, b, y)
    pipeline = pipelines.product(a, b, other)
    if pipeline is None:
        raise Absent("Halide is not installed")
    error = checked(exact, y, 1e-5, halide=other)
    return Case(
        1.0, 2.0 * n**3, lambda: kernel(a, b, y), {"halide": pipeline}, error, str(kernel.schedule),
        bound_by="f32",
    )  # fmt: skip


def packed(m: int, n: int, k: int) -> Case:
    """C = A W with W packed beforehand on both sides."""
    a, w, exact = factors(m, n, k)
    y, other = output(m, n), output(m, n)
    kernel = compiled("gemm", "matmul_const", {"M": m, "N": n, "K": k}).prepare(W=w)
    kernel(a, y)
    ort = onnx_run([node("MatMul", "a w", "y")], {"a": a}, {"w": w}, {"y": other})
    error = checked(exact, y, 1e-5, onnxruntime=other)
    return Case(
        1.0, 2.0 * m * n * k, lambda: kernel(a, y), {"onnxruntime": ort}, error,
        str(kernel.schedule), bound_by="f32",
    )  # fmt: skip


def qgemm(n: int) -> Case:
    """u8 times s8 with zero points, rescaled by column to u8, the weights packed beforehand."""
    rng = np.random.default_rng(3)
    a = aligned(rng.integers(0, 256, (n, n)), np.uint8)
    b = aligned(rng.integers(-127, 128, (n, n)), np.int8)
    scale = aligned(rng.uniform(0.5, 1.5, n) / 3000, np.float32)
    za, zc = 113, 128
    y, other = output(n, n, dtype=np.uint8), output(n, n, dtype=np.uint8)
    exact = (a.astype(np.float64) - za) @ b.astype(np.float64)
    exact = np.clip(np.rint(exact * scale) + zc, 0, 255)
    kernel = compiled("qgemm", "qgemm", {"M": n, "N": n, "K": n})
    kernel = kernel.prepare(B=b, scale=scale, za=za, zc=zc)
    kernel(a, y)
    one = np.float32(1.0)
    constants = {
        "b": b, "as": one, "az": np.uint8(za), "bs": scale, "bz": np.zeros(n, np.int8),
        "ys": one, "yz": np.uint8(zc),
    }  # fmt: skip
    ort = onnx_run(
        [node("QLinearMatMul", "a as az b bs bz ys yz", "y")], {"a": a}, constants, {"y": other}
    )
    error = checked(exact, y, UNIT, onnxruntime=other)
    peers = present(onnxruntime=ort, torch=torch_qlinear(a, b, scale, za, zc, exact))
    return Case(
        1.0, 2.0 * n**3, lambda: kernel(a, y), peers, error, str(kernel.schedule), unit="GOP/s",
        bound_by="int8", share=0.92,
    )  # fmt: skip


def torch_qlinear(a: Array, b: Array, scale: Array, za: int, zc: int, exact: Array):
    """The quantized linear layer with its weights packed."""
    if torch is None:
        return None
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"
    n = len(scale)
    weights = torch._make_per_channel_quantized_tensor(
        torch.from_numpy(np.ascontiguousarray(b.T)),
        torch.from_numpy(scale.astype(np.float64)), torch.zeros(n, dtype=torch.int64), 0,
    )  # fmt: skip
    weights = torch.ops.quantized.linear_prepack(weights, None)
    given = torch._make_per_tensor_quantized_tensor(torch.from_numpy(a), 1.0, za)
    run = torch_call(lambda: torch.ops.quantized.linear(given, weights, 1.0, zc))
    try:
        checked(exact, run().int_repr().numpy(), UNIT)
    except Differs:
        return None  # a peer whose sums saturate does other work
    return run


def bgemm(n: int) -> Case:
    """bf16 factors, f32 sums; the second factor packed beforehand."""
    a, b, _ = factors(n, n, n)
    bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    a16, b16 = (aligned(x, np.uint16) for x in bits)
    wide = [(x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for x in bits]
    exact = wide[0] @ wide[1]
    y = output(n, n)
    kernel = compiled("qgemm", "bgemm", {"M": n, "N": n, "K": n}).prepare(B=b16)
    kernel(a16, y)
    error = checked(exact, y, 1e-5)
    peers = {}
    if torch is not None:
        torch.set_num_threads(1)
        ta, tb = (torch.from_numpy(x).view(torch.bfloat16) for x in (a16, b16))
        tc = torch.empty(n, n, dtype=torch.bfloat16)
        peers["torch"] = torch_call(lambda: torch.mm(ta, tb, out=tc))
        checked(exact, tc.float().numpy(), 1e-2)
    return Case(
        1.0, 2.0 * n**3, lambda: kernel(a16, y), peers, error, str(kernel.schedule), bound_by="bf16"
    )
