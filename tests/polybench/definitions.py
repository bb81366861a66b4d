"""The kernels from their definitions, in NumPy: whole-array forms where there are such.

Each function takes the arguments of its kernel and the sizes, and gives the arrays to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Definition = Callable[[Any], dict[str, Any]]


class Given:
    """Arguments and sizes as attributes, arrays copied."""

    def __init__(self, arrays: Arrays, sizes: Mapping[str, int]) -> None:
        self.__dict__.update({k: np.array(v) for k, v in arrays.items()} | dict(sizes))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def gemm(g: Any) -> dict[str, Any]:
    return {"C": g.beta * g.C + g.alpha * (g.A @ g.B)}


def gemver(g: Any) -> dict[str, Any]:
    a = g.A + np.outer(g.u1, g.v1) + np.outer(g.u2, g.v2)
    x = g.x + g.beta * (a.T @ g.y) + g.z
    return {"A": a, "x": x, "w": g.w + g.alpha * (a @ x)}


def gesummv(g: Any) -> dict[str, Any]:
    return {"y": g.alpha * (g.A @ g.x) + g.beta * (g.B @ g.x)}


def symm(g: Any) -> dict[str, Any]:
    lower = np.tril(g.A, -1)
    whole = lower + lower.T + np.diag(np.diag(g.A))
    return {"C": g.beta * g.C + g.alpha * (whole @ g.B)}


def lower_only(new: Any, old: Any) -> Any:
    return np.tril(new) + np.triu(old, 1)


def syrk(g: Any) -> dict[str, Any]:
    return {"C": lower_only(g.beta * g.C + g.alpha * (g.A @ g.A.T), g.C)}


def syr2k(g: Any) -> dict[str, Any]:
    both = g.alpha * (g.A @ g.B.T + g.B @ g.A.T)
    return {"C": lower_only(g.beta * g.C + both, g.C)}


def trmm(g: Any) -> dict[str, Any]:
    unit = np.tril(g.A, -1).T + np.eye(g.M)
    return {"B": g.alpha * (unit @ g.B)}


def two_mm(g: Any) -> dict[str, Any]:
    return {"D": g.beta * g.D + g.alpha * (g.A @ g.B) @ g.C}


def three_mm(g: Any) -> dict[str, Any]:
    return {"G": (g.A @ g.B) @ (g.C @ g.D)}


def atax(g: Any) -> dict[str, Any]:
    return {"y": g.A.T @ (g.A @ g.x)}


def bicg(g: Any) -> dict[str, Any]:
    return {"s": g.A.T @ g.r, "q": g.A @ g.p}


def doitgen(g: Any) -> dict[str, Any]:
    return {"A": np.einsum("rqs,sp->rqp", g.A, g.C4)}


def mvt(g: Any) -> dict[str, Any]:
    return {"x1": g.x1 + g.A @ g.y1, "x2": g.x2 + g.A.T @ g.y2}


def cholesky(g: Any) -> dict[str, Any]:
    lower = np.tril(g.A)
    factor = np.linalg.cholesky(lower + np.tril(g.A, -1).T) if g.N else lower
    return {"A": lower_only(factor, g.A)}


def durbin(g: Any) -> dict[str, Any]:
    """The Yule-Walker equations: T y = -r with T the Toeplitz matrix of (1, r0, r1, ...)."""
    first = np.concatenate([[1.0], g.r[:-1]])
    place = np.abs(np.subtract.outer(np.arange(g.N), np.arange(g.N)))
    return {"y": np.linalg.solve(first[place], -g.r)}


def gramschmidt(g: Any) -> dict[str, Any]:
    q, r = np.linalg.qr(g.A)
    sign = np.where(np.diag(r) < 0, -1.0, 1.0)  # a positive diagonal makes it the only one
    return {"Q": q * sign, "R": np.tril(g.R, -1) + (r.T * sign).T}


def lu(g: Any) -> dict[str, Any]:
    a = g.A
    for k in range(g.N):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return {"A": a}


def ludcmp(g: Any) -> dict[str, Any]:
    x = np.linalg.solve(g.A, g.b) if g.N else g.b
    return {"x": x, **lu(g)}


def trisolv(g: Any) -> dict[str, Any]:
    return {"x": np.linalg.solve(np.tril(g.L), g.b) if g.N else g.b}


def covariance(g: Any) -> dict[str, Any]:
    mean = g.data.sum(0) / g.float_n
    data = g.data - mean
    return {"mean": mean, "data": data, "cov": data.T @ data / (g.float_n - 1.0)}


def correlation(g: Any) -> dict[str, Any]:
    mean = g.data.sum(0) / g.float_n
    spread = np.sqrt(((g.data - mean) ** 2).sum(0) / g.float_n)
    spread = np.where(spread <= 0.1, 1.0, spread)
    data = (g.data - mean) / (np.sqrt(g.float_n) * spread)
    corr = data.T @ data
    np.fill_diagonal(corr, 1.0)
    return {"mean": mean, "stddev": spread, "data": data, "corr": corr}


def sweep(x: Any, a: Any, b: Any, b1: Any, b2: Any) -> Any:
    """Along the last axis: y[j] = a x[j] + b x[j-1] + b1 y[j-1] + b2 y[j-2], zero outside."""
    y = np.zeros((x.shape[0], x.shape[1] + 2), x.dtype)
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], 1)
    for j in range(x.shape[1]):
        y[:, j + 2] = a * x[:, j] + b * before[:, j] + b1 * y[:, j + 1] + b2 * y[:, j]
    return y[:, 2:]


def deriche(g: Any) -> dict[str, Any]:
    def both(x: Any) -> Any:
        forward = sweep(x, g.a1, g.a2, g.b1, g.b2)
        turned = x[:, ::-1]
        shifted = np.concatenate([np.zeros_like(x[:, :1]), turned[:, :-1]], 1)
        return forward + sweep(shifted, g.a3, g.a4, g.b1, g.b2)[:, ::-1]

    return {"res": both(both(g.img).T).T}


def floyd_warshall(g: Any) -> dict[str, Any]:
    p = g.p
    for k in range(g.N):
        p = np.minimum(p, p[:, k : k + 1] + p[k : k + 1, :])
    return {"p": p}


def nussinov(g: Any) -> dict[str, Any]:
    t = g.t
    for gap in range(1, g.N):
        for i in range(g.N - gap):
            j = i + gap
            pair = int(g.seq[i] + g.seq[j] == 3) if gap > 1 else 0
            best = [t[i, j], t[i, j - 1], t[i + 1, j], t[i + 1, j - 1] + pair]
            t[i, j] = max(best + [t[i, k] + t[k + 1, j] for k in range(i + 1, j)])
    return {"t": t}


def inner(x: Any) -> tuple[slice, ...]:
    whole: tuple[slice, ...] = (slice(1, -1),) * x.ndim
    return whole


def stencil(g: Any, step: Callable[[Any], Any]) -> dict[str, Any]:
    a, b = g.A, g.B
    for _ in range(g.T):
        b[inner(b)] = step(a)
        a[inner(a)] = step(b)
    return {"A": a, "B": b}


def neighbours(x: Any) -> list[Any]:
    """The interior moved by one in both directions of every axis."""
    found = []
    for axis in range(x.ndim):
        for start in (0, 2):
            place = list(inner(x))
            place[axis] = slice(start, x.shape[axis] - 2 + start)
            found.append(x[tuple(place)])
    return found


def jacobi_1d(g: Any) -> dict[str, Any]:
    return stencil(g, lambda x: 0.33333 * (x[:-2] + x[1:-1] + x[2:]))


def jacobi_2d(g: Any) -> dict[str, Any]:
    return stencil(g, lambda x: 0.2 * (x[inner(x)] + sum(neighbours(x))))


def heat_3d(g: Any) -> dict[str, Any]:
    return stencil(g, lambda x: x[inner(x)] + 0.125 * (sum(neighbours(x)) - 6.0 * x[inner(x)]))


def seidel_2d(g: Any) -> dict[str, Any]:
    a = g.A
    for _ in range(g.T):
        for i in range(1, g.N - 1):
            for j in range(1, g.N - 1):
                a[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() / 9.0
    return {"A": a}


def fdtd_2d(g: Any) -> dict[str, Any]:
    ex, ey, hz = g.ex, g.ey, g.hz
    for t in range(g.T):
        ey[0] = g.fict[t]
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


def adi(g: Any) -> dict[str, Any]:
    """Each half step solves a tridiagonal system for every line, with 1 at both ends."""

    def lines(x: Any, low: Any, middle: Any, high: Any, d: Any, f: Any) -> Any:
        n = g.N - 2
        matrix = np.diag(np.full(n, middle)) + np.diag(np.full(n - 1, low), -1)
        matrix += np.diag(np.full(n - 1, high), 1)
        right = -d * x[:-2, 1:-1] + (1.0 + 2.0 * d) * x[1:-1, 1:-1] - f * x[2:, 1:-1]
        right[:, 0] -= low
        right[:, -1] -= high
        return np.linalg.solve(matrix, right.T).T

    u, v = g.u, g.v
    for _ in range(g.T):
        inside = lines(u.T, g.a, g.b, g.c, g.d, g.f)
        v[0, 1:-1] = v[-1, 1:-1] = 1.0
        v[1:-1, 1:-1] = inside.T
        u[1:-1, 1:-1] = lines(v, g.d, g.e, g.f, g.a, g.c)
        u[1:-1, 0] = u[1:-1, -1] = 1.0
    return {"u": u, "v": v}


DEFINITIONS: dict[str, Definition] = {
    "2mm": two_mm, "3mm": three_mm, "adi": adi, "atax": atax, "bicg": bicg,
    "cholesky": cholesky, "correlation": correlation, "covariance": covariance,
    "deriche": deriche, "doitgen": doitgen, "doitgen_scalar_sum": doitgen, "durbin": durbin,
    "fdtd_2d": fdtd_2d, "floyd_warshall": floyd_warshall, "gemm": gemm, "gemver": gemver,
    "gesummv": gesummv, "gramschmidt": gramschmidt, "heat_3d": heat_3d,
    "jacobi_1d": jacobi_1d, "jacobi_2d": jacobi_2d, "lu": lu, "ludcmp": ludcmp, "mvt": mvt,
    "nussinov": nussinov, "seidel_2d": seidel_2d, "symm": symm, "syr2k": syr2k, "syrk": syrk,
    "trisolv": trisolv, "trmm": trmm,
}  # fmt: skip
