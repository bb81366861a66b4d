"""Right programs that the checks of what was lowered once refused, or lowering got wrong."""

from __future__ import annotations

import pytest

from tdsl import driver
from tdsl.syntax.parser import parse
from tdsl.targets import target

PROGRAMS = {
    "lanes of a bool reduction": """
kernel f(M) { in x: bool[M]  out y: bool  S: y = any[i in 0..M](x[i]) }
schedule f for any { vectorize S.i }
""",
    "a stored value that is read as what it was made of": """
kernel f(M) {
    in x: u16[M]
    temp t: u16[M]
    out y: u16[M]
    S0: t[i] = x[i]
    S1: y[i] = (t[i] // x[i]) | 2
}
schedule f for any { fuse S0.i, S1.i -> l }
""",
    "chunks of lanes that are joined one after the other": """
kernel f(M, N, K) {
    assume M >= 1, N >= 1, K >= 1
    in x: i64[3, K]
    out y: i64[M]
    S: y[i] = min[k in 0..K, j in 0..N](x[j % 3, clamp(k - 1, 0, K - 1)])
}
schedule f for any {
    collapse S.k, S.j -> l
    vectorize S.l by 16
    skew S.i by l
}
""",
    "an element for each chunk of a tail": """
kernel f(M, N) {
    in x: u64[N + 1]
    out y: u64[M, N]
    S: y[i, j] = u64(i) where i == j
    T: y[i, j] = x[j // 2] where i != j
}
schedule f for any { vectorize T.j by 16 }
""",
    "a joined element that may not exist": """
kernel f(M, N) {
    in x: i32[M, 3 * N]
    out y: bool[M]
    S: y[i] = all[j in 1..N where j != i](x[i, 3 * j] <= x[i, 3 * j])
}
schedule f for any {
    shift S.i by 1
    vectorize S.j by lanes(f32)
    unroll S.i by 2
}
""",
    "a staged copy in threads": """
kernel f(M) {
    in x: u32[M]
    temp t: u32[M]
    out y: u32[M]
    S0: t[i] = padded(x[i + 1], 1)
    S1: y[i] = t[i] % 3
}
schedule f for any {
    stage t at S1.i
    parallel S1.i
}
""",
    "a statement that reads the register that it writes": """
kernel f<N = 64>(K) {
    in x: i32[K, N]
    inout y: i32[N]
    for k in 0..K, i in 0..N { S: y[i] = select(i < 5, x[k, i] + y[i], y[i]) }
}
schedule f for any {
    reorder i, k
    split i by 16 -> io, ii
    reorder io, k, ii
    vectorize ii
    stage y at io in registers
}
""",
    "a register that is stored and then read from where it went": """
kernel f(N) {
    in x: i32[N]
    out y: i32[N]
    for i in 0..N {
        temp t: i32[3]
        t[0] = x[i]
        t[1] = t[0] * 2
        t[2] = t[1] + t[0]
        o: y[i] = t[2]
    }
}
schedule f for any { stage x at i in registers }
""",
    "a mask in front of blocks that have one of its name": """
kernel f(M, N) {
    in x: f64[N]
    inout A: f64[M + 2, N + 2]
    for i in 0..M, j in N - 1 downto 0 {
        S: A[i + 1, j + 1] -= A[i + 1, j + 2] + x[clamp(j - 1, 0, N - 1)]
    }
}
schedule f for any {
    split S.j by 20 -> l1, l2 tail balanced
    reorder S.l1, S.i, S.l2
    vectorize S.l1 by 4
    split S.l2 by 2 * lanes(f32) -> l3, l4 tail cases
}
""",
}


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon", "c"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_right_program_is_compiled(program: str, name: str) -> None:
    """The checks raise Miscompiled, an internal error, on anything that they take for wrong."""
    options = driver.Options("f", target(name), strict_fp=True)
    made = driver.run(parse(PROGRAMS[program], "f.tdsl"), options)
    assert made.lowered.function.body.items
