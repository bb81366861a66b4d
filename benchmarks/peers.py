"""The libraries that are compared with, each at its best on one thread: constant weights are packed
before the run, inputs and outputs are the same buffers as ours where the library takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from benchmarks.case import Array, Call
from tdsl.runtime.measure import compare

try:
    import torch
except ImportError:  # PyTorch is large: rows are run against the others without it
    torch = None
try:
    import numba
except ImportError:
    numba = None

ONNX_TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


def onnx_run(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Mapping[str, Array],
    threads: int = 1,
) -> Call:
    """A run of an onnxruntime session with inputs and outputs bound to buffers, all graph
    optimizations, and constants that it may reorder beforehand."""
    graph = helper.make_graph(
        list(nodes),
        "row",
        [_value(name, array) for name, array in inputs.items()],
        [_value(name, array) for name, array in outputs.items()],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in constants.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)],
    )
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.set_denormal_as_zero", "0")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    for name, array in outputs.items():
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def run(*, _alive: object = (inputs, outputs)) -> None:  # the binding has addresses alone
        session.run_with_iobinding(binding)

    run()
    return run


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_TYPES[array.dtype.name], array.shape)


def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """`node("Conv", "x w b", "y", pads=[1, 1, 1, 1])`."""
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def torch_conv(x: Array, w: Array, b: Array, y: Array, *, stride: int, pad: int) -> Call | None:
    """PyTorch's convolution and relu of x[n, h, w, c] with w[r, s, c, k], channels last, frozen
    with its weights reordered beforehand. What it returns is copied to `y` once."""
    if torch is None:
        return None
    torch.set_num_threads(1)
    r, s, c, k = w.shape
    layer = torch.nn.Conv2d(c, k, (r, s), stride, pad)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.ascontiguousarray(w.transpose(3, 2, 0, 1))))
        layer.bias.copy_(torch.from_numpy(b))
    model = torch.nn.Sequential(layer, torch.nn.ReLU()).eval()
    model = model.to(memory_format=torch.channels_last)
    given = torch.from_numpy(x).permute(0, 3, 1, 2)  # the same buffer, channels last
    frozen = frozen_layer(model, given)
    best = fastest(torch_call(lambda: frozen(given)), torch_call(lambda: model(given)))
    y[...] = best().permute(0, 2, 3, 1).numpy()
    return best


def frozen_layer(model: Any, given: Any) -> Any:
    """The model with its weights reordered and its operators fused."""
    with torch.no_grad():
        frozen = torch.jit.freeze(torch.jit.trace(model, given))
        frozen = torch.jit.optimize_for_inference(frozen)
        for _ in range(3):  # profiles, then fuses
            frozen(given)
    return frozen


def fastest(*ways: Call) -> Call:
    """Of several ways to call a library the one that takes the least time."""
    found = compare({str(n): way for n, way in enumerate(ways)}, baseline="0", seconds=0.1)
    return min(enumerate(ways), key=lambda way: found[str(way[0])].seconds)[1]


def torch_call(call: Call) -> Call:
    """Without gradients."""

    def run() -> object:
        with torch.inference_mode():
            return call()

    run()
    return run


def present(**peers: Call | None) -> dict[str, Call]:
    """Those that are installed."""
    return {name: call for name, call in peers.items() if call is not None}
