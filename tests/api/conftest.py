"""Programs of the tests, and a cache of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tdsl

TEXT = """\
const WEIGHTS: f32[3] = [1, 2, 1]

kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
}

schedule matmul.tiled for avx512, avx2, neon {
    let MR = tune(4, 2)
    tile i, j by MR, 2 * lanes(f32) -> io, jo, ii, ji
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
}

schedule matmul.rows for any { reorder i, k, j }

kernel scale<by = 3, T: type = f32>(N) {
    in  x: T[N]
    in  a: T
    out y: T[N]

    y[i] = x[i] * by + a
}

schedule scale.wide for any when N >= 64 { vectorize i by 8 }
schedule scale.low for any when N < 4 { unroll i by 2 }

kernel several(N, T) {
    in    x: f32[N]
    inout z: f32[N]
    out   s: f32
    out   steps: i64

    z[i] += x[i]
    s = sum[i](x[i])
    steps = i64(T)
}

kernel step(N) {
    inout z: f64[N]
    z[i] *= 2.0
}

recipe by_eight(S, i) { on S { split i by 8 -> o, l  vectorize l } }
"""


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "tdsl"


@pytest.fixture(autouse=True)
def own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tests neither read nor fill the user's cache."""
    monkeypatch.setenv("TDSL_CACHE_DIR", str(session_cache))
    monkeypatch.delenv("CC", raising=False)
    yield session_cache


@pytest.fixture(scope="session")
def module() -> tdsl.Module:
    return tdsl.parse(TEXT, name="programs.tdsl")
