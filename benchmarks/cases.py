"""What is timed against a peer: kernels of `examples/`, with sizes bound, on shared buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import tdsl
from tdsl.runtime.memory import empty

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
KERNELS = Path(__file__).resolve().parent / "kernels"

Array = np.ndarray[Any, Any]
F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Case:
    """One comparison. `goal`: the peer's time over ours that is wanted."""

    name: str
    peer: str
    goal: float
    flops: int
    ours: Callable[[], object]
    theirs: Callable[[], object]
    error: float  # the largest difference from double precision, ours
    schedule: str
    clock: str = "cpu"  # "wall" where threads are started


class Differs(Exception):
    """Our result, or the peer's, is not the product."""


def cases() -> Iterator[Case]:
    """Each case is built when it is asked for, since that takes a while."""
    for n in (64, 128, 256):
        yield matmul(n)
    yield conv2d()


def matmul(n: int) -> Case:
    """C = A B of order n, both sides called by position with an output that is there."""
    rng = np.random.default_rng(n)
    a, b = normal(rng, (n, n)), normal(rng, (n, n))
    ours, theirs = empty((n, n), F32), empty((n, n), F32)
    sizes = {"M": n, "N": n, "K": n}
    kernel: Any = tdsl.load(EXAMPLES / "matmul.tdsl")["matmul"].compile(sizes=sizes)
    kernel(a, b, ours)
    np.matmul(a, b, theirs)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = _checked(ours, theirs, exact, n)
    return Case(
        f"matmul {n}^3", "numpy", 0.97, 2 * n**3,
        lambda: kernel(a, b, ours), lambda: np.matmul(a, b, theirs), error, str(kernel.schedule),
    )  # fmt: skip


def conv2d(side: int = 56, channels: int = 64, taps: int = 3) -> Case:
    """A layer with bias, its input padded beforehand: NHWC here, NCHW in onnxruntime."""
    rng = np.random.default_rng(0)
    n, c, k, h = 1, channels, channels, side + taps - 1
    x, w, b = normal(rng, (n, h, h, c)), normal(rng, (taps, taps, c, k)), normal(rng, (k,))
    y = empty((n, side, side, k), F32)
    sizes = {"N": n, "H": h, "W": h, "C": c, "K": k, "R": taps, "S": taps}
    kernel: Any = tdsl.load(EXAMPLES / "conv2d.tdsl")["conv2d"].compile(sizes=sizes)
    kernel(x, w, b, y)
    their_x, their_y = empty((n, c, h, h), F32), empty((n, k, side, side), F32)
    their_x[...] = x.transpose(0, 3, 1, 2)
    session = _session(w.transpose(3, 2, 0, 1), b, their_x.shape, their_y.shape)
    binding = session.io_binding()
    _bind(binding.bind_input, "x", their_x)
    _bind(binding.bind_output, "y", their_y)
    session.run_with_iobinding(binding)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (taps, taps), (1, 2))
    exact = np.tensordot(windows, w.astype(np.float64), ((4, 5, 3), (0, 1, 2))) + b
    error = _checked(y, their_y.transpose(0, 2, 3, 1), exact, taps * taps * c)
    return Case(
        f"conv {taps}x{taps} {c}->{k} {side}x{side}", "onnxruntime", 0.95,
        2 * y.size * taps * taps * c,
        lambda: kernel(x, w, b, y), lambda: session.run_with_iobinding(binding), error,
        str(kernel.schedule),
    )  # fmt: skip


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal numbers in an aligned buffer."""
    made = empty(shape, F32)
    made[...] = rng.standard_normal(shape)
    return made


def _checked(ours: Array, theirs: Array, exact: Array, terms: int) -> float:
    """Rounding of a sum of `terms` products of normal numbers, with a wide margin."""
    bound = 8 * terms * float(np.finfo(np.float32).eps)
    errors = {who: float(np.abs(y - exact).max()) for who, y in (("tdsl", ours), ("peer", theirs))}
    for who, error in errors.items():
        if not error <= bound:
            raise Differs(f"{who} is off by {error:.1e}, more than {bound:.1e}")
    return errors["tdsl"]


def _session(
    weights: Array, bias: Array, shape: tuple[int, ...], result: tuple[int, ...]
) -> onnxruntime.InferenceSession:
    """One Conv node, weights and bias as constants, all graph optimizations, one thread."""
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"])],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [
            onnx.numpy_helper.from_array(np.ascontiguousarray(weights), "w"),
            onnx.numpy_helper.from_array(bias, "b"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _bind(bind: Callable[..., None], name: str, array: Array) -> None:
    bind(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
