"""Kernels with schedules that bring every shape of code: tails, cases, lanes, registers."""

from __future__ import annotations

from tdsl.driver import Compilation, Options, run
from tdsl.syntax.parser import parse
from tdsl.targets.target import TARGETS

TILE = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any {
    tile i, j by 3, 16 -> io, jo, ii, ji
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
}
"""

BLOCKED = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any {
    split k by 4 -> ko, ki
    reorder ko, i, ki, j
    split j by 20 -> jo, ji tail cases
    reorder ko, i, jo, ki, ji
    vectorize ji
}
"""

CONV2D = """
kernel conv2d(H, W) {
    in  x: f32[H, W, 3]
    in  w: f32[3, 3, 3, 16]
    out y: f32[H - 2, W - 2, 16]
    assume H >= 3, W >= 3
    y[h, c, o] = sum[r in 0..3, s in 0..3, i](x[h + r, c + s, i] * w[r, s, i, o])
}
schedule conv2d for any {
    split c by 4 -> co, ci
    reorder h, co, r, s, i, ci, o
    unroll ci
    vectorize o
}
"""

TRIANGLE = """
kernel trmv(N) {
    in  A: f32[N, N]
    in  x: f32[N]
    out y: f32[N]
    y[i] = sum[j in 0..i + 1](A[i, j] * x[j])
}
schedule trmv for any {
    split i by 4 -> io, ii
    unroll ii
}
"""

EPILOGUE = """
kernel bias_relu(M, N) {
    in  x: f32[M, N]
    in  b: f32[N]
    temp t: f32[M, N]
    out y: f32[M, N]
    t[i, j] = x[i, j] + b[j]
    y[i, j] = max(t[i, j], 0.0)
}
schedule bias_relu for any {
    fuse t.i, y.i -> i
    fuse t.j, y.j -> j
    split j by 16 -> jo, ji
    vectorize ji
}
"""

LANES = """
kernel dot(N) {
    in  x: f32[N]
    in  y: f32[N]
    out s: f32
    s = sum[i](x[i] * y[i])
}
schedule dot for any {
    reassociate s
    split i by 16 -> io, ii
    vectorize ii
}
"""

BLUR = """
kernel blur(N) {
    in  x: f32[N]
    out y: f32[N]
    y[i] = sum[r in -1..2 where inside(x[i + r])](x[i + r])
}
schedule blur for any {
    split i by 8 -> io, ii tail mask
    vectorize ii
}
"""

SHIFT = """
kernel shift(N) {
    inout x: f32[N]
    for i in 0..N - 1 { x[i] = x[i + 1] * 2.0 }
}
schedule shift for any {
    split i by 24 -> io, ii tail narrow
    vectorize ii
}
"""

COPIES = """
kernel scale(N) {
    in  x: f32[N]
    out y: f32[N]
    y[i] = 2.0 * x[i]
}
schedule scale for any {
    split i by 4 -> io, ii tail peel
    unroll ii plain
}
"""

DOTS = """
kernel gemm(M, N, K) {
    in  A: i8[M, K]
    in  B: i8[(K + 3) // 4, N, 4]
    out C: i32[M, N]
    C[i, j] = sum[k in 0..K](i32(A[i, k]) * i32(B[k // 4, j, k % 4]))
}
schedule gemm for any {
    split i by 2 -> io, ii tail cases
    split j by 32 -> jo, ji tail mask
    split k by 4 -> kg, kk tail mask
    reorder io, jo, kg, ii, ji, kk
    unroll ii
    vectorize ji
    dot kk
}
"""

OVERRUN = """
kernel gemm(M, N, K) {
    in  A: i8[M, K]
    in  B: i8[K, N]
    temp t: i8[M, K]
    out C: i32[M, N]
    t[i, k] = A[i, k]
    C[i, j] = sum[k](i32(t[i, k]) * i32(B[k, j]))
}
schedule gemm for any {
    on C {
        split j by 16 -> jo, ji tail mask
        split k by 4 -> kg, kk tail overrun
        reorder jo, i, kg, ji, kk
        vectorize ji
        dot kk
    }
    pack C.B at root as Bp[jo, kg, ji, kk]
}
"""

SLIDES = """
kernel near(N) {
    in x: i32[N + 2]
    out y: i32[N]
    y[i] = x[i] + 2 * x[i + 1] - x[i + 2]
}
schedule near for any {
    split i by 32 -> io, ii
    vectorize ii
}
"""

KERNELS = {
    "tile": TILE,
    "blocked": BLOCKED,
    "conv2d": CONV2D,
    "triangle": TRIANGLE,
    "epilogue": EPILOGUE,
    "lanes": LANES,
    "blur": BLUR,
    "shift": SHIFT,
    "copies": COPIES,
    "dots": DOTS,
    "overrun": OVERRUN,
    "slides": SLIDES,
}


def compiled(name: str, target: str = "avx512", *, until: str = "validated") -> Compilation:
    """One of them, through the passes up to `until`."""
    file = parse(KERNELS[name], f"{name}.tdsl")
    kernel = KERNELS[name].split("kernel ")[1].split("(")[0]
    return run(file, Options(kernel, TARGETS[target]), until=until)
