"""Kernels that several tests use."""

from __future__ import annotations

from tdsl.ir.kernel import Kernel
from tdsl.ir.types import F32, ElemType
from tests.polyhedral.build import kernel, nest, stmt


def matmul(type: ElemType = F32) -> Kernel:
    return kernel(
        "N, M, K",
        {"A": "in N, K", "B": "in K, M", "C": "out N, M"},
        [
            stmt(
                "C", "C[i, j]", "i, j, k", "0 <= i < N and 0 <= j < M and 0 <= k < K",
                ["A[i, k]", "B[k, j]"], "add", "k", True, type, "0 <= i < N and 0 <= j < M",
            )
        ],
        type=type,
    )  # fmt: skip


def conv2d(pad: int = 1) -> Kernel:
    inside = f"0 <= y + r - {pad} < H and 0 <= x + s - {pad} < W"
    outer = "0 <= n < N and 0 <= y < H and 0 <= x < W and 0 <= o < O"
    return kernel(
        "N, H, W, C, O",
        {"x": "in N, H, W, C", "w": "in 3, 3, C, O", "y": "out N, H, W, O"},
        [
            stmt(
                "y", "y[n, y, x, o]", "n, y, x, o, r, s, c",
                f"{outer} and 0 <= r < 3 and 0 <= s < 3 and 0 <= c < C and {inside}",
                [f"x[n, y + r - {pad}, x + s - {pad}, c]", "w[r, s, c, o]"],
                "add", "r, s, c", True, outer=outer,
            )
        ],
        "N >= 1 and H >= 1 and W >= 1 and C >= 1 and O >= 1",
    )  # fmt: skip


def seidel() -> Kernel:
    return kernel(
        "T, N",
        {"A": "inout N, N"},
        [
            nest("t", "0", "T", nest("i", "1", "N - 1", nest("j", "1", "N - 1", stmt(
                "S", "A[i, j]", "t, i, j", "0 <= t < T and 1 <= i < N - 1 and 1 <= j < N - 1",
                [f"A[i + {a}, j + {b}]" for a in (-1, 0, 1) for b in (-1, 0, 1)],
            ))))
        ],
    )  # fmt: skip


def lu() -> Kernel:
    return kernel(
        "N",
        {"A": "inout N, N"},
        [
            nest("k", "0", "N",
                 stmt("S", "A[i, k]", "k, i", "0 <= k < i and i < N", ["A[i, k]", "A[k, k]"]),
                 stmt("T", "A[i, j]", "k, i, j", "0 <= k < i and k < j and i < N and j < N",
                      ["A[i, k]", "A[k, j]"], "sub"))
        ],
    )  # fmt: skip


def jacobi() -> Kernel:
    domain = "0 <= t < T and 1 <= i < N - 1"
    return kernel(
        "T, N",
        {"A": "inout N", "B": "inout N"},
        [nest("t", "0", "T",
              stmt("S", "B[i]", "t, i", domain, ["A[i - 1]", "A[i]", "A[i + 1]"]),
              stmt("T", "A[i]", "t, i", domain, ["B[i - 1]", "B[i]", "B[i + 1]"]))],
    )  # fmt: skip


def one_statement_kernels() -> dict[str, Kernel]:
    square = "0 <= i < N and 0 <= j < N"
    return {
        "matmul": matmul(),
        "seidel": seidel(),
        "B27": kernel(
            "N",
            {"A": "inout N + 1, N + 1"},
            [nest("i", "0", "N", nest("j", "1", "N + 1", stmt(
                "S", "A[i, j]", "i, j", "0 <= i < N and 1 <= j < N + 1", ["A[i + 1, j - 1]"]
            )))],
        ),
        "B29": kernel(
            "M, N",
            {"A": "inout N + 1"},
            [nest("m", "0", "M", nest("i", "0", "N", stmt(
                "S", "A[i]", "m, i", "0 <= m < M and 0 <= i < N", ["A[i + 1]"]
            )))],
        ),
        "B47": kernel(
            "N",
            {"A": "inout N, N"},
            [nest("i", "1", "N", nest("j", "1", "N", stmt(
                "S", "A[i, j]", "i, j", "1 <= i < N and 1 <= j < N", ["A[i, j-1]", "A[i-1, j]"]
            )))],
        ),
        "down": kernel(
            "N",
            {"A": "inout N, N + 1"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "A[i, j]", "i, j", square, ["A[i, j + 1]"]
            ), down=True))],
        ),
        "step": kernel(
            "N",
            {"A": "inout 2 * N + 9"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "A[i + j]", "i, j", square, ["A[i + j + 3]"]
            ), step=2), step=3)],
        ),
        "fold": kernel(
            "N",
            {"h": "inout 3", "x": "in N, N"},
            [nest("i", "0", "N", nest("j", "0", "N", stmt(
                "S", "h[(i + j) % 3]", "i, j", square, ["x[i, j]"], "add"
            )))],
        ),
        "triangle": kernel(
            "N",
            {"A": "in N, N", "B": "in N, N", "C": "inout N, N"},
            [stmt("S", "C[i, j]", "i, j, k", f"{square} and j <= i and j <= k < N",
                  ["A[i, k]", "B[k, j]"], "add", "k")],
        ),
    }  # fmt: skip
