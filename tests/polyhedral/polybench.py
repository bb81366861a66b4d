"""The PolyBench kernels of the legality cases, statements numbered S0, S1, ... as there.

Scalar temporaries have the indices of their iteration, except `doitgen-scalar-sum`.
"""

from __future__ import annotations

from tdsl.ir.kernel import BodyItem, Kernel, Nest, Statement
from tdsl.ir.types import F64, I32
from tests.polyhedral.build import kernel, nest, stmt


def s(
    number: int, left: str, indices: str, domain: str, reads: str = "", op: str = "define"
) -> Statement:
    """`reads` are separated by spaces: "A[i,k] B[k,j]"."""
    type = I32 if op in ("min", "max") else F64
    return stmt(f"S{number}", left, indices, domain, reads.split(), op, type=type)


def box(names: str, **bounds: str) -> str:
    """0 <= i < N for every name; `bounds` gives other ranges as "lo:hi"."""
    parts = []
    for name in names.split(","):
        lo, hi = bounds.get(name, "0:N").split(":")
        parts.append(f"{lo} <= {name} and {name} < {hi}")
    return " and ".join(parts)


def loop(index: str, *body: BodyItem, lo: str = "0", hi: str = "N", down: bool = False) -> Nest:
    return nest(index, lo, hi, *body, down=down)


def arrays(**ranks: int) -> dict[str, str]:
    return {name: f"inout {', '.join(['N'] * rank)}".strip() for name, rank in ranks.items()}


def made(declared: dict[str, str], *body: BodyItem, sizes: str = "N") -> Kernel:
    return kernel(sizes, declared, body, type=F64)


def gemm() -> Kernel:
    return made(
        arrays(A=2, B=2, C=2),
        loop(
            "i",
            s(0, "C[i,j]", "i,j", box("i,j"), op="mul"),
            s(1, "C[i,j]", "i,k,j", box("i,k,j"), "A[i,k] B[k,j]", "add"),
        ),
    )


def gemver() -> Kernel:
    return made(
        arrays(A=2, u=1, v=1, x=1, y=1, z=1, w=1),
        s(0, "A[i,j]", "i,j", box("i,j"), "A[i,j] u[i] v[j]"),
        s(1, "x[i]", "i,j", box("i,j"), "A[j,i] y[j]", "add"),
        s(2, "x[i]", "i", box("i"), "x[i] z[i]"),
        s(3, "w[i]", "i,j", box("i,j"), "A[i,j] x[j]", "add"),
    )


def gesummv() -> Kernel:
    return made(
        arrays(A=2, B=2, x=1, y=1, t=1),
        loop(
            "i",
            s(0, "t[i]", "i", box("i")),
            s(1, "y[i]", "i", box("i")),
            loop(
                "j",
                s(2, "t[i]", "i,j", box("i,j"), "A[i,j] x[j]", "add"),
                s(3, "y[i]", "i,j", box("i,j"), "B[i,j] x[j]", "add"),
            ),
            s(4, "y[i]", "i", box("i"), "t[i] y[i]"),
        ),
    )


def symm() -> Kernel:
    inner = box("i,j,k", k="0:i")
    return made(
        arrays(A=2, B=2, C=2, t=2),
        loop(
            "i",
            loop(
                "j",
                s(0, "t[i,j]", "i,j", box("i,j")),
                loop(
                    "k",
                    s(1, "C[k,j]", "i,j,k", inner, "B[i,j] A[i,k]", "add"),
                    s(2, "t[i,j]", "i,j,k", inner, "B[k,j] A[i,k]", "add"),
                    hi="i",
                ),
                s(3, "C[i,j]", "i,j", box("i,j"), "C[i,j] B[i,j] A[i,i] t[i,j]"),
            ),
        ),
    )


def syrk(reads: str = "A[i,k] A[j,k]") -> Kernel:
    return made(
        arrays(A=2, B=2, C=2),
        loop(
            "i",
            s(0, "C[i,j]", "i,j", box("i,j", j="0:i + 1"), op="mul"),
            s(1, "C[i,j]", "i,k,j", box("i,k,j", j="0:i + 1"), reads, "add"),
        ),
    )


def syr2k() -> Kernel:
    return syrk("A[j,k] B[i,k] B[j,k] A[i,k]")


def trmm() -> Kernel:
    return made(
        arrays(A=2, B=2),
        loop(
            "i",
            loop(
                "j",
                s(0, "B[i,j]", "i,j,k", box("i,j,k", k="i + 1:N"), "A[k,i] B[k,j]", "add"),
                s(1, "B[i,j]", "i,j", box("i,j"), op="mul"),
            ),
        ),
    )


def two_mm() -> Kernel:
    return made(
        arrays(A=2, B=2, C=2, D=2, tmp=2),
        loop(
            "i",
            loop(
                "j",
                s(0, "tmp[i,j]", "i,j", box("i,j")),
                s(1, "tmp[i,j]", "i,j,k", box("i,j,k"), "A[i,k] B[k,j]", "add"),
            ),
        ),
        loop(
            "i",
            loop(
                "l",
                s(2, "D[i,l]", "i,l", box("i,l"), op="mul"),
                s(3, "D[i,l]", "i,l,j", box("i,l,j"), "tmp[i,j] C[j,l]", "add"),
            ),
        ),
    )


def three_mm() -> Kernel:
    def product(number: int, left: str, a: str, b: str) -> Nest:
        return loop(
            "i",
            loop(
                "j",
                s(number, f"{left}[i,j]", "i,j", box("i,j")),
                s(number + 1, f"{left}[i,j]", "i,j,k", box("i,j,k"), f"{a}[i,k] {b}[k,j]", "add"),
            ),
        )

    return made(
        arrays(A=2, B=2, C=2, D=2, E=2, F=2, G=2),
        product(0, "E", "A", "B"),
        product(2, "F", "C", "D"),
        product(4, "G", "E", "F"),
    )


def atax() -> Kernel:
    return made(
        arrays(A=2, x=1, y=1, tmp=1),
        s(0, "y[j]", "j", box("j")),
        loop(
            "i",
            s(1, "tmp[i]", "i", box("i")),
            s(2, "tmp[i]", "i,j", box("i,j"), "A[i,j] x[j]", "add"),
            s(3, "y[j]", "i,j", box("i,j"), "A[i,j] tmp[i]", "add"),
        ),
    )


def doitgen(whole: bool = True) -> Kernel:
    total = "sum[r,q,p]" if whole else "sum[p]"
    return made(
        arrays(A=3, C4=2, sum=3 if whole else 1),
        loop(
            "r",
            loop(
                "q",
                s(0, total, "r,q,p", box("r,q,p")),
                s(1, total, "r,q,p,s", box("r,q,p,s"), "A[r,q,s] C4[s,p]", "add"),
                s(2, "A[r,q,p]", "r,q,p", box("r,q,p"), total),
            ),
        ),
    )


def mvt() -> Kernel:
    return made(
        arrays(A=2, x1=1, x2=1, y1=1, y2=1),
        s(0, "x1[i]", "i,j", box("i,j"), "A[i,j] y1[j]", "add"),
        s(1, "x2[i]", "i,j", box("i,j"), "A[j,i] y2[j]", "add"),
    )


def cholesky() -> Kernel:
    return made(
        arrays(A=2),
        loop(
            "i",
            loop(
                "j",
                s(0, "A[i,j]", "i,j,k", box("i,j,k", j="0:i", k="0:j"), "A[i,k] A[j,k]", "sub"),
                s(1, "A[i,j]", "i,j", box("i,j", j="0:i"), "A[i,j] A[j,j]"),
                hi="i",
            ),
            s(2, "A[i,i]", "i,k", box("i,k", k="0:i"), "A[i,k]", "sub"),
            s(3, "A[i,i]", "i", box("i"), "A[i,i]"),
        ),
    )


def durbin() -> Kernel:
    k, inner, once = box("k", k="1:N"), box("k,i", k="1:N", i="0:k"), "0 <= z and z < 1"
    return made(
        arrays(r=1, y=1, z=1, sum=1, alpha=0, beta=0),
        s(0, "y[z]", "z", once, "r[z]"),
        s(1, "beta", "z", once),
        s(2, "alpha", "z", once, "r[z]"),
        loop(
            "k",
            s(3, "beta", "k", k, "alpha beta"),
            s(4, "sum[k]", "k", k),
            s(5, "sum[k]", "k,i", inner, "r[k-i-1] y[i]", "add"),
            s(6, "alpha", "k", k, "r[k] sum[k] beta"),
            s(7, "z[i]", "k,i", inner, "y[i] alpha y[k-i-1]"),
            s(8, "y[i]", "k,i", inner, "z[i]"),
            s(9, "y[k]", "k", k, "alpha"),
            lo="1",
        ),
    )


def gramschmidt() -> Kernel:
    return made(
        arrays(A=2, Q=2, R=2, nrm=1),
        loop(
            "k",
            s(0, "nrm[k]", "k", box("k")),
            s(1, "nrm[k]", "k,i", box("k,i"), "A[i,k]", "add"),
            s(2, "R[k,k]", "k", box("k"), "nrm[k]"),
            s(3, "Q[i,k]", "k,i", box("k,i"), "A[i,k] R[k,k]"),
            loop(
                "j",
                s(4, "R[k,j]", "k,j", box("k,j", j="k + 1:N")),
                s(5, "R[k,j]", "k,j,i", box("k,j,i", j="k + 1:N"), "Q[i,k] A[i,j]", "add"),
                s(6, "A[i,j]", "k,j,i", box("k,j,i", j="k + 1:N"), "Q[i,k] R[k,j]", "sub"),
                lo="k + 1",
            ),
        ),
    )


def lu() -> Kernel:
    return made(
        arrays(A=2),
        loop(
            "i",
            loop(
                "j",
                s(0, "A[i,j]", "i,j,k", box("i,j,k", j="0:i", k="0:j"), "A[i,k] A[k,j]", "sub"),
                s(1, "A[i,j]", "i,j", box("i,j", j="0:i"), "A[i,j] A[j,j]"),
                hi="i",
            ),
            s(2, "A[i,j]", "i,j,k", box("i,j,k", j="i:N", k="0:i"), "A[i,k] A[k,j]", "sub"),
        ),
    )


def trisolv() -> Kernel:
    return made(
        arrays(L=2, x=1, b=1),
        loop(
            "i",
            s(0, "x[i]", "i", box("i"), "b[i]"),
            s(1, "x[i]", "i,j", box("i,j", j="0:i"), "L[i,j] x[j]", "sub"),
            s(2, "x[i]", "i", box("i"), "x[i] L[i,i]"),
        ),
    )


def covariance() -> Kernel:
    upper = box("i,j", j="i:N")
    return made(
        arrays(data=2, mean=1, cov=2),
        loop(
            "j",
            s(0, "mean[j]", "j", box("j")),
            s(1, "mean[j]", "j,i", box("j,i"), "data[i,j]", "add"),
            s(2, "mean[j]", "j", box("j"), "mean[j]"),
        ),
        s(3, "data[i,j]", "i,j", box("i,j"), "data[i,j] mean[j]"),
        loop(
            "i",
            loop(
                "j",
                s(4, "cov[i,j]", "i,j", upper),
                s(5, "cov[i,j]", "i,j,k", f"{upper} and 0 <= k < N", "data[k,i] data[k,j]", "add"),
                s(6, "cov[i,j]", "i,j", upper, "cov[i,j]"),
                s(7, "cov[j,i]", "i,j", upper, "cov[i,j]"),
                lo="i",
            ),
        ),
    )


def deriche() -> Kernel:
    ij, ji = box("i,j"), box("j,i")
    return made(
        arrays(img=2, out=2, y1=2, y2=2),
        s(0, "y1[i,j]", "i,j", ij, "img[i,j] img[i,j-1] y1[i,j-1] y1[i,j-2]"),
        loop(
            "i",
            loop(
                "j",
                s(1, "y2[i,j]", "i,j", ij, "img[i,j+1] img[i,j+2] y2[i,j+1] y2[i,j+2]"),
                down=True,
            ),
        ),
        s(2, "out[i,j]", "i,j", ij, "y1[i,j] y2[i,j]"),
        s(3, "y1[i,j]", "j,i", ji, "out[i,j] out[i-1,j] y1[i-1,j] y1[i-2,j]"),
        loop(
            "j",
            loop(
                "i",
                s(4, "y2[i,j]", "j,i", ji, "out[i+1,j] out[i+2,j] y2[i+1,j] y2[i+2,j]"),
                down=True,
            ),
        ),
        s(5, "out[i,j]", "i,j", ij, "y1[i,j] y2[i,j]"),
    )


def floyd_warshall() -> Kernel:
    body = s(0, "p[i,j]", "k,i,j", box("k,i,j"), "p[i,k] p[k,j]", "min")
    return kernel("N", arrays(p=2), [body], type=I32)


def nussinov() -> Kernel:
    upper = box("i,j", j="i + 1:N")
    inner = f"{upper} and i < k < j"
    body = loop(
        "i",
        loop(
            "j",
            s(0, "t[i,j]", "i,j", upper, "t[i,j-1]", "max"),
            s(1, "t[i,j]", "i,j", upper, "t[i+1,j]", "max"),
            s(2, "t[i,j]", "i,j", upper, "t[i+1,j-1]", "max"),
            s(3, "t[i,j]", "i,j,k", inner, "t[i,k] t[k+1,j]", "max"),
            lo="i + 1",
        ),
        down=True,
    )
    return kernel("N", arrays(t=2), [body], type=I32)


def around(array: str, *indices: str) -> str:
    """The point and its two neighbours in every direction."""
    reads = [f"{array}[{','.join(indices)}]"]
    for n, index in enumerate(indices):
        for step in ("+1", "-1"):
            moved = [*indices[:n], f"{index}{step}", *indices[n + 1 :]]
            reads.append(f"{array}[{','.join(moved)}]")
    return " ".join(reads)


def ping_pong(*space: str) -> Kernel:
    names = ",".join(space)
    domain = box(f"t,{names}", t="0:T", **dict.fromkeys(space, "1:N - 1"))
    return made(
        arrays(A=len(space), B=len(space)),
        loop(
            "t",
            s(0, f"B[{names}]", f"t,{names}", domain, around("A", *space)),
            s(1, f"A[{names}]", f"t,{names}", domain, around("B", *space)),
            hi="T",
        ),
        sizes="T, N",
    )


def jacobi_1d() -> Kernel:
    return ping_pong("i")


def jacobi_2d() -> Kernel:
    return ping_pong("i", "j")


def heat_3d() -> Kernel:
    return ping_pong("i", "j", "k")


def seidel_2d() -> Kernel:
    domain = box("t,i,j", t="0:T", i="1:N - 1", j="1:N - 1")
    reads = " ".join(f"A[i+{a},j+{b}]" for a in (-1, 0, 1) for b in (-1, 0, 1))
    return made(arrays(A=2), s(0, "A[i,j]", "t,i,j", domain, reads), sizes="T, N")


def fdtd_2d() -> Kernel:
    return made(
        arrays(ex=2, ey=2, hz=2, f=1),
        loop(
            "t",
            s(0, "ey[0,j]", "t,j", box("t,j", t="0:T"), "f[t]"),
            s(1, "ey[i,j]", "t,i,j", box("t,i,j", t="0:T", i="1:N"),
              "ey[i,j] hz[i,j] hz[i-1,j]"),
            s(2, "ex[i,j]", "t,i,j", box("t,i,j", t="0:T", j="1:N"),
              "ex[i,j] hz[i,j] hz[i,j-1]"),
            s(3, "hz[i,j]", "t,i,j", box("t,i,j", t="0:T", i="0:N - 1", j="0:N - 1"),
              "hz[i,j] ex[i,j+1] ex[i,j] ey[i+1,j] ey[i,j]"),
            hi="T",
        ),
        sizes="T, N",
    )  # fmt: skip


def adi() -> Kernel:
    ti = box("t,i", t="0:T", i="1:N - 1")
    tij = box("t,i,j", t="0:T", i="1:N - 1", j="1:N - 1")

    def sweep(first: int, to: str, of: str, turned: bool) -> Nest:
        def at(array: str, i: str, j: str) -> str:
            return f"{array}[{j},{i}]" if turned else f"{array}[{i},{j}]"

        three = " ".join(at(of, i, "j") for i in ("i-1", "i", "i+1"))
        return loop(
            "i",
            s(first, at(to, "i", "0"), "t,i", ti),
            s(first + 1, "p[i,0]", "t,i", ti),
            s(first + 2, "q[i,0]", "t,i", ti, at(to, "i", "0")),
            loop(
                "j",
                s(first + 3, "p[i,j]", "t,i,j", tij, "p[i,j-1]"),
                s(first + 4, "q[i,j]", "t,i,j", tij, f"{three} q[i,j-1] p[i,j-1]"),
                lo="1",
                hi="N - 1",
            ),
            s(first + 5, at(to, "i", "N-1"), "t,i", ti),
            loop(
                "j",
                s(first + 6, at(to, "i", "j"), "t,i,j", tij, f"p[i,j] {at(to, 'i', 'j+1')} q[i,j]"),
                lo="1",
                hi="N - 1",
                down=True,
            ),
            lo="1",
            hi="N - 1",
        )

    return made(
        arrays(u=2, v=2, p=2, q=2),
        loop("t", sweep(0, "v", "u", True), sweep(7, "u", "v", False), hi="T"),
        sizes="T, N",
    )


KERNELS = {
    "gemm": gemm, "gemver": gemver, "gesummv": gesummv, "symm": symm, "syrk": syrk,
    "syr2k": syr2k, "trmm": trmm, "2mm": two_mm, "3mm": three_mm, "atax": atax,
    "doitgen": doitgen, "doitgen-scalar-sum": lambda: doitgen(False), "mvt": mvt,
    "cholesky": cholesky, "durbin": durbin, "gramschmidt": gramschmidt, "lu": lu,
    "trisolv": trisolv, "covariance": covariance, "deriche": deriche,
    "floyd-warshall": floyd_warshall, "nussinov": nussinov, "jacobi-1d": jacobi_1d,
    "jacobi-2d": jacobi_2d, "heat-3d": heat_3d, "seidel-2d": seidel_2d, "fdtd-2d": fdtd_2d,
    "adi": adi,
}  # fmt: skip
