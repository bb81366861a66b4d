"""Attention of one head."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.case import Benchmark, Case, checked, compiled, normal, output
from benchmarks.peers import node, onnx_run, torch, torch_call


def benchmarks() -> Iterator[Benchmark]:
    """The row of the table."""
    yield Benchmark("attention_512_64", partial(attention, 512, 64))


def attention(length: int, width: int, **options: Any) -> Case:
    """softmax(q k^T / sqrt(width)) v."""
    rng = np.random.default_rng(7)
    q, k, v = (normal(rng, 1, length, width) for _ in range(3))
    y, other = output(1, length, width), output(1, length, width)
    scale = np.float32(width**-0.5)
    s = np.einsum("hid,hjd->hij", q, k, dtype=np.float64) * scale
    e = np.exp(s - s.max(-1, keepdims=True))
    exact = np.einsum("hij,hjd->hid", e / e.sum(-1, keepdims=True), v)
    sizes = {"H": 1, "L": length, "S": length, "E": width}
    kernel = compiled("attention", "attention", sizes, **options)
    kernel(q, k, v, scale, y)
    # The queries are scaled on the way in, as exported models do.
    nodes = [
        node("Mul", "q scale", "qs"), node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "qs kt", "s"), node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p v", "y"),
    ]  # fmt: skip
    onnx = onnx_run(nodes, {"q": q, "k": k, "v": v}, {"scale": scale}, {"y": other})
    checked(exact, other, 1e-5)
    flash = node("MultiHeadAttention", "q k v", "y", num_heads=1, domain="com.microsoft")
    fused = onnx_run([flash], {"q": q, "k": k, "v": v}, {}, {"y": other})
    checked(exact, other, 1e-5)
    peers = {"onnxruntime": onnx, "onnxruntime, fused": fused}
    if torch is not None:
        torch.set_num_threads(1)
        tensors = [torch.from_numpy(t)[None] for t in (q, k, v)]
        call = torch.nn.functional.scaled_dot_product_attention
        peers["torch"] = torch_call(lambda: call(*tensors))
        checked(exact, peers["torch"]().numpy()[0], 1e-5)
    error = checked(exact, y, 1e-5)
    return Case(
        1.0, 4.0 * length * length * width, lambda: kernel(q, k, v, scale, y), peers, error,
        str(kernel.schedule),
    )  # fmt: skip
