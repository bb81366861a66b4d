"""A command line in a folder of its own: `tdsl("check", "a.tdsl")`, in this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tdsl.cli import run

MATMUL = """\
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]

    C[i, j] = sum[k](A[i, k] * B[k, j])
}

schedule matmul.tiled for avx512, avx2, neon {
    tile i, j by 4, 2 * lanes(f32) -> io, jo, ii, ji
    reorder io, jo, k, ii, ji
    unroll ii
    vectorize ji
}

schedule matmul.rows for c {
    reorder i, k, j
}
"""

TWO = """\
const THIRD: f32 = 1 / 3

def twice(v) = 2.0 * v

kernel first<by = 3, T: type = f32>(N) {
    in  x: T[N]
    out y: T[N]

    y[i] = x[i] * by
}

kernel second<f = twice>(N, M) {
    in    x: f32[N]
    inout z: f32[N]
    out   n: i32[M]

    z[i] += f(x[i]) + THIRD
    n[j] = i32(j) * 7
}

schedule second.wide for any when N >= 1024 { vectorize z.i by 8 }
schedule second.low for any when N < 16 { }
"""

# Two kernels and three schedules, each wrong in its own way.
WRONG = """\
kernel scan(N) {
    inout a: f32[N]

    for i in 1..N { a[i] = a[i - 1] + a[i] }
}

schedule scan.backward for avx2, c when false { reverse i }
schedule scan.lanes for any when false { vectorize i by 8 }
schedule scan.unknown for any { unroll q }

kernel beyond(N) {
    in  x: f32[N]
    out y: f32[N]

    y[i] = x[i + 1]
}
"""


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str


Tdsl = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with a few files."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"matmul": MATMUL, "two": TWO, "wrong": WRONG}.items():
        (tmp_path / f"{name}.tdsl").write_text(text)
    return tmp_path


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "tdsl"


@pytest.fixture(autouse=True)
def own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The tests neither read nor fill the user's cache."""
    monkeypatch.setenv("TDSL_CACHE_DIR", str(session_cache))
    for name in ("CC", "TDSL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    yield session_cache


@pytest.fixture
def tdsl(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Tdsl:
    def call(*arguments: str) -> Result:
        capfdbinary.readouterr()
        status = run(arguments)
        out, err = capfdbinary.readouterr()
        return Result(status, out.decode(), err.decode())

    return call
