"""Layers of f32 convolution with bias and relu, padding inside; depthwise; int8."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import pipelines
from benchmarks.case import (
    Absent,
    Array,
    Benchmark,
    Call,
    Case,
    Differs,
    aligned,
    checked,
    compiled,
    normal,
    output,
)
from benchmarks.peers import node, onnx_run, present, torch, torch_call, torch_conv

# name: side, channels in and out, taps, stride, pad
F2 = {"m": 2, "G": "G2", "BT": "B2", "AT": "A2"}  # F(2x2, 3x3): its weights stay in the last cache
LAYERS = {
    "conv3x3_64_56": (56, 64, 64, 3, 1, 1),
    "conv3x3_128_28": (28, 128, 128, 3, 1, 1),
    "conv3x3_256_14": (14, 256, 256, 3, 1, 1),
    "conv3x3_512_7": (7, 512, 512, 3, 1, 1),
    "conv1x1_256_64_56": (56, 256, 64, 1, 1, 0),
    "conv1x1s2_256_512_56": (56, 256, 512, 1, 2, 0),
    "conv7x7s2_3_64_224": (224, 3, 64, 7, 2, 3),
}


def benchmarks() -> Iterator[Benchmark]:
    """One row a layer, and one more for each that Winograd's algorithm serves."""
    for name, layer in LAYERS.items():
        yield Benchmark(name, partial(exact_layer, *layer))
    for name, layer in LAYERS.items():
        if name.startswith("conv3x3"):
            yield Benchmark(name.replace("conv3x3", "winograd"), partial(winograd, *layer))
    yield Benchmark("winograd2_512_7", partial(winograd, *LAYERS["conv3x3_512_7"], constants=F2))
    yield Benchmark("halide_conv3x3_64_56", partial(against_halide, *LAYERS["conv3x3_64_56"]))
    for channels in (32, 19):
        yield Benchmark(f"depthwise_{channels}_112", partial(depthwise, channels, 112))
    yield Benchmark("qconv3x3_64_56", partial(qconv, 56, 64))


def reference(x: Array, w: Array, b: Array, stride: int, pad: int) -> Array:
    """In double precision."""
    wide = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[:2], (1, 2))
    windows = windows[:, ::stride, ::stride]
    return np.maximum(np.tensordot(windows, w.astype(np.float64), ((4, 5, 3), (0, 1, 2))) + b, 0)


def onnx_layer(
    x: Array, w: Array, b: Array, exact: Array, stride: int, pad: int, threads: int = 1
) -> tuple[Call, Array]:
    """Conv and Relu of the same numbers in the order that onnxruntime takes, and the result."""
    given = aligned(x.transpose(0, 3, 1, 2), np.float32)
    result = output(*exact.transpose(0, 3, 1, 2).shape)
    conv = node("Conv", "x w b", "c", pads=[pad] * 4, strides=[stride] * 2)
    run = onnx_run(
        [conv, node("Relu", "c", "y")], {"x": given},
        {"w": w.transpose(3, 2, 0, 1), "b": b}, {"y": result}, threads,
    )  # fmt: skip
    return run, result.transpose(0, 2, 3, 1)


def layer(side: int, c: int, k: int, taps: int, stride: int, pad: int):
    """Arrays, the exact result, room for ours, and the peers."""
    rng = np.random.default_rng(side)
    x, w, b = normal(rng, 1, side, side, c), normal(rng, taps, taps, c, k), normal(rng, k)
    exact = reference(x, w, b, stride, pad)
    y, other = output(*exact.shape), output(*exact.shape)
    onnx, result = onnx_layer(x, w, b, exact, stride, pad)
    checked(exact, result, 1e-5)
    in_torch = torch_conv(x, w, b, other, stride=stride, pad=pad)
    if in_torch is not None:
        checked(exact, other, 1e-5)
    work = 2.0 * taps * taps * c * exact.size  # taps in the padding count
    return (x, w, b, y), exact, present(onnxruntime=onnx, torch=in_torch), work


def exact_layer(
    side: int, c: int, k: int, taps: int, stride: int, pad: int, **options: Any
) -> Case:
    """Every product of the definition."""
    (x, w, b, y), exact, peers, work = layer(side, c, k, taps, stride, pad)
    sizes = {"N": 1, "H": side, "W": side, "C": c, "K": k, "R": taps, "S": taps}
    constants = {"stride": stride, "pad": pad}
    kernel = compiled("conv2d", "conv2d", sizes, constants=constants, **options).prepare(w=w, b=b)
    kernel(x, y)
    error = checked(exact, y, 1e-5)
    return Case(1.0, work, lambda: kernel(x, y), peers, error, str(kernel.schedule), bound_by="f32")


def against_halide(side: int, c: int, k: int, taps: int, stride: int, pad: int) -> Case:
    """The exact layer, scheduled by hand on both sides."""
    rng = np.random.default_rng(side)
    x, w, b = normal(rng, 1, side, side, c), normal(rng, taps, taps, c, k), normal(rng, k)
    exact = reference(x, w, b, stride, pad)
    y, other = output(*exact.shape), output(*exact.shape)
    pipeline = pipelines.convolution(x, w, b, other, stride=stride, pad=pad)
    if pipeline is None:
        raise Absent("Halide is not installed")
    sizes = {"N": 1, "H": side, "W": side, "C": c, "K": k, "R": taps, "S": taps}
    constants = {"stride": stride, "pad": pad}
    kernel = compiled("conv2d", "conv2d", sizes, constants=constants).prepare(w=w, b=b)
    kernel(x, y)
    error = checked(exact, y, 1e-5, halide=other)
    work = 2.0 * taps * taps * c * exact.size
    peers = {"halide": pipeline}
    return Case(1.0, work, lambda: kernel(x, y), peers, error, str(kernel.schedule), bound_by="f32")


def winograd(side: int, c: int, k: int, taps: int, stride: int, pad: int, **options: Any) -> Case:
    """F(4x4, 3x3): fewer products, more rounding. Its GFLOP/s count those of the definition."""
    (x, w, b, y), exact, peers, work = layer(side, c, k, taps, stride, pad)
    sizes = {"N": 1, "H": side, "W": side, "C": c, "K": k}
    kernel = compiled("winograd", "winograd", sizes, **options).prepare(w=w, b=b)
    kernel(x, y)
    error = checked(exact, y, 1e-4)
    return Case(2.0, work, lambda: kernel(x, y), peers, error, str(kernel.schedule))


def depthwise(channels: int, side: int, **options: Any) -> Case:
    """3x3, each channel for itself; no bias."""
    rng = np.random.default_rng(channels)
    x, w = normal(rng, 1, side, side, channels), normal(rng, 3, 3, channels)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    exact = np.einsum("npqcrs,rsc->npqc", windows, w.astype(np.float64))
    y = output(*exact.shape)
    sizes = {"N": 1, "H": side, "W": side, "C": channels}
    kernel = compiled("depthwise", "depthwise", sizes, **options).prepare(w=w)
    kernel(x, y)
    given = aligned(x.transpose(0, 3, 1, 2), np.float32)
    result = output(*exact.transpose(0, 3, 1, 2).shape)
    weights = np.ascontiguousarray(w.transpose(2, 0, 1)[:, None])
    conv = node("Conv", "x w", "y", pads=[1] * 4, group=channels)
    onnx = onnx_run([conv], {"x": given}, {"w": weights}, {"y": result})
    checked(exact, result.transpose(0, 2, 3, 1), 1e-5)
    in_torch = None
    if torch is not None:
        torch.set_num_threads(1)
        module = torch.nn.Conv2d(channels, channels, 3, 1, 1, groups=channels, bias=False)
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(weights))
            module = module.eval().to(memory_format=torch.channels_last)
            image = torch.from_numpy(x).permute(0, 3, 1, 2)
            frozen = torch.jit.optimize_for_inference(
                torch.jit.freeze(torch.jit.trace(module, image))
            )
        in_torch = torch_call(lambda: frozen(image))
        checked(exact, in_torch().permute(0, 2, 3, 1).numpy(), 1e-5)
    error = checked(exact, y, 1e-5)
    peers = present(onnxruntime=onnx, torch=in_torch)
    return Case(1.2, 18.0 * exact.size, lambda: kernel(x, y), peers, error, str(kernel.schedule))


def qconv(side: int, channels: int, **options: Any) -> Case:
    """3x3 of u8 by s8, rescaled by channel to u8, padded by the input's zero."""
    rng = np.random.default_rng(9)
    x = aligned(rng.integers(0, 256, (1, side, side, channels)), np.uint8)
    w = aligned(rng.integers(-127, 128, (3, 3, channels, channels)), np.int8)
    bias = aligned(rng.integers(-9999, 9999, channels), np.int32)
    scale = aligned(rng.uniform(0.5, 1.5, channels) / 3000, np.float32)
    xz, yz = 121, 128
    wide = np.pad(x.astype(np.float64) - xz, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    exact = np.tensordot(windows, w.astype(np.float64), ((4, 5, 3), (0, 1, 2))) + bias
    exact = np.clip(np.rint(exact * scale) + yz, 0, 255)
    y = output(*exact.shape, dtype=np.uint8)
    sizes = {"N": 1, "H": side, "W": side, "C": channels, "K": channels, "R": 3, "S": 3}
    kernel = compiled("qconv2d", "qconv2d", sizes, **options)
    kernel = kernel.prepare(w=w, bias=bias, scale=scale, xz=xz, yz=yz)
    kernel(x, y)
    given = aligned(x.transpose(0, 3, 1, 2), np.uint8)
    result = output(*exact.transpose(0, 3, 1, 2).shape, dtype=np.uint8)
    one = np.float32(1.0)
    constants = {
        "w": np.ascontiguousarray(w.transpose(3, 2, 0, 1)), "xs": one, "xz": np.uint8(xz),
        "ws": scale, "wz": np.zeros(channels, np.int8), "ys": one, "yz": np.uint8(yz), "b": bias,
    }  # fmt: skip
    layer = node("QLinearConv", "x xs xz w ws wz ys yz b", "y", pads=[1] * 4)
    onnx = onnx_run([layer], {"x": given}, constants, {"y": result})
    step = 1.01 / 255
    error = checked(exact, y, step, onnxruntime=result.transpose(0, 2, 3, 1))
    peers = present(onnxruntime=onnx, torch=torch_qconv(x, w, bias, scale, xz, yz, exact))
    work = 2.0 * 9 * channels * exact.size
    return Case(
        1.0, work, lambda: kernel(x, y), peers, error, str(kernel.schedule), unit="GOP/s",
        bound_by="int8", share=0.92,
    )  # fmt: skip


def torch_qconv(
    x: Array, w: Array, bias: Array, scale: Array, xz: int, yz: int, exact: Array
) -> Any:
    """The quantized layer, channels last, with its weights packed."""
    if torch is None:
        return None
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"
    weights = torch._make_per_channel_quantized_tensor(
        torch.from_numpy(np.ascontiguousarray(w.transpose(3, 2, 0, 1))),
        torch.from_numpy(scale.astype(np.float64)),
        torch.zeros(len(scale), dtype=torch.int64), 0,
    )  # fmt: skip
    offsets = torch.from_numpy(bias * scale)
    packed = torch.ops.quantized.conv2d_prepack(weights, offsets, [1, 1], [1, 1], [1, 1], 1)
    image = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    given = torch._make_per_tensor_quantized_tensor(image, 1.0, xz)
    given = given.contiguous(memory_format=torch.channels_last)
    run = torch_call(lambda: torch.ops.quantized.conv2d(given, packed, 1.0, yz))
    try:
        checked(exact, run().int_repr().permute(0, 2, 3, 1).numpy(), 1.01 / 255)
    except Differs:
        return None  # a peer whose sums saturate does other work
    return run
