"""Stores past the caches: rows peeled to aligned vectors, the rest stored plainly."""

from __future__ import annotations

import numpy as np
import pytest

from tdsl.diagnostics import Error
from tdsl.driver import Options, run
from tdsl.ir import vector as v
from tdsl.ir.walk_vector import items
from tdsl.syntax.parser import parse
from tdsl.targets import TARGETS
from tests.cases.harness import poisoned
from tests.lower.moving import EVERYWHERE, HERE, X86, at_offset, compiled, untouched

SCALE = """
kernel scale<T: type = f32>(M, N) {
    in  x: T[M, N]
    out y: T[M, N]
    y[i, j] = x[i, j] * 2
}
schedule scale for any { DIRECTIVES  stream y }
"""
MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out C: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
schedule matmul for any { DIRECTIVES  stream C }
"""
ROWS = (
    "vectorize j",
    "split j by 48 -> jo, ji  vectorize ji",
    "split j by 64 -> jo, ji  reorder jo, i, ji  vectorize ji by 16",
    "split i by 3 -> io, ii  reorder io, j, ii  unroll ii  vectorize j",
    "split i by 3 -> io, ii tail cases  split j by 33 -> jo, ji tail balanced"
    "  reorder io, jo, ii, ji  unroll ii  vectorize ji",
    "parallel i  vectorize j",
    "peel j first 3 last 2  vectorize y.j",
    "split j by 64 -> jo, ji  vectorize ji by 16  parallel jo",
    "split j by 32 -> jo, ji  vectorize ji",
    "split j by 16 -> jo, ji  vectorize ji  parallel jo",
    "split j by 256 -> jo, ji  vectorize ji",
    "unroll j by 4",
    "",
)
SHAPES = (
    (0, 5), (5, 0), (1, 1), (2, 7), (1, 16), (3, 17), (2, 31), (4, 64), (5, 67), (2, 129), (7, 97),
    (2, 500),
)  # fmt: skip


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("directives", ROWS)
def test_rows_at_any_address(directives: str, target: str) -> None:
    scale = compiled(SCALE.replace("DIRECTIVES", directives), "scale", target)
    for shape in SHAPES:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        for elements in (0, 1, 3, 4, 8, 15):
            y, raw = at_offset(shape, np.float32, elements)
            scale(x=x, y=y)
            np.testing.assert_array_equal(y, 2 * x)
            assert untouched(y, raw)


@pytest.mark.neon
def test_neon_stores_plainly() -> None:
    text = SCALE.replace("DIRECTIVES", ROWS[0])
    scale = compiled(text, "scale", "neon")
    for shape in ((1, 1), (3, 17), (2, 64)):
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(scale(x=x), 2 * x)
    assert "stream y: the stores of neon do not pass the caches" in scale.c_source


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("elem", ["f64", "i64", "u32", "i16", "u8"])
def test_other_elements(elem: str, target: str) -> None:
    text = SCALE.replace("DIRECTIVES", "vectorize j")
    scale = compiled(text, "scale", target, constants={"T": elem})
    kind = np.dtype({"f": "float", "i": "int", "u": "uint"}[elem[0]] + elem[1:])
    assert "_stream_" in scale.c_source
    for shape in SHAPES:
        x = (np.arange(shape[0] * shape[1]) % 60).astype(kind).reshape(shape)
        for elements in (0, 1, 5):
            y, raw = at_offset(shape, kind, elements)
            scale(x=x, y=y)
            np.testing.assert_array_equal(y, 2 * x)
            assert untouched(y, raw)


@pytest.mark.parametrize("target", HERE)
def test_no_row_reaches_beyond_its_pages(target: str) -> None:
    scale = compiled(SCALE.replace("DIRECTIVES", "vectorize j"), "scale", target)
    for end in (False, True):
        for shape in SHAPES:
            x = poisoned(shape, np.dtype(np.float32), end=end)
            x[...] = np.arange(x.size).reshape(shape)
            y = poisoned(shape, np.dtype(np.float32), end=end)
            scale(x=x, y=y)
            np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(
    "directives",
    [
        "tile i, j by 4, 32 -> io, jo, ii, ji  reorder jo, io, k, ii, ji  unroll ii  vectorize ji",
        "tile i, j by 4, 32 -> io, jo, ii, ji  reorder io, jo, k, ii, ji  unroll ii  vectorize ji"
        "  parallel io",
    ],
)
def test_sums_in_registers(directives: str, target: str) -> None:
    product = compiled(MATMUL.replace("DIRECTIVES", directives), "matmul", target)
    rng = np.random.default_rng(3)
    for m, n, k in ((0, 3, 2), (3, 0, 2), (3, 4, 0), (1, 1, 1), (8, 64, 4), (9, 67, 5)):
        a = rng.integers(-9, 9, (m, k)).astype(np.float32)
        b = rng.integers(-9, 9, (k, n)).astype(np.float32)
        for elements in (0, 1):
            c, raw = at_offset((m, n), np.float32, elements)
            product(A=a, B=b, C=c)
            np.testing.assert_array_equal(c, a @ b)
            assert untouched(c, raw)


def function(text: str, kernel: str, target: str = "avx512") -> v.Function:
    file = parse(text, f"{kernel}.tdsl")
    return run(file, Options(kernel, TARGETS[target])).lowered.function


def test_the_loop_over_whole_vectors_has_aligned_stores_alone() -> None:
    body = function(SCALE.replace("DIRECTIVES", "vectorize j"), "scale").body
    stores = [i for i in items(body) if isinstance(i, v.Store)]
    assert [(s.stream, s.aligned, s.mask is None) for s in stores] == [
        (False, False, False), (True, True, True), (False, False, False),
    ]  # fmt: skip
    inner = [i for i in items(body) if isinstance(i, v.For) and i.var == "j"]
    assert [sum(isinstance(i, v.Store) for i in items(f.body)) for f in inner] == [1, 1]
    assert isinstance(body.items[-1], v.Fence)


def test_a_block_of_several_vectors_is_peeled_too() -> None:
    text = SCALE.replace("DIRECTIVES", "split j by 256 -> jo, ji  reorder jo, i, ji  vectorize ji")
    stores = [i for i in items(function(text, "scale").body) if isinstance(i, v.Store)]
    assert any(s.aligned for s in stores)


def test_blocks_of_a_row_on_threads_are_peeled_once() -> None:
    """Blocks of whole lines begin where lines do: the head and the last block run by themselves."""
    text = SCALE.replace("DIRECTIVES", "split j by 32 -> jo, ji  vectorize ji  parallel jo")
    body = function(text, "scale").body
    (loop,) = [i for i in items(body) if isinstance(i, v.For) and i.parallel]
    assert [(s.aligned, s.mask) for s in items(loop.body) if isinstance(s, v.Store)] == [
        (True, None), (True, None),
    ]  # fmt: skip
    others = [i for i in items(body) if isinstance(i, v.Store) and not i.stream]
    assert len(others) == 4
    assert all(s.mask is not None for s in others)


def test_each_thread_has_a_fence() -> None:
    text = SCALE.replace("DIRECTIVES", "parallel i  vectorize j")
    body = function(text, "scale").body
    (loop,) = [i for i in items(body) if isinstance(i, v.For) and i.parallel]
    assert loop.fence
    assert not any(isinstance(i, v.Fence) for i in items(body))
    source = compiled(text, "scale", "avx2").c_source if "avx2" in X86 else ""
    if source:
        words = ("#pragma omp parallel ", "#pragma omp for", "_mm256_stream_ps(&", "_mm_sfence();")
        order = [source.index(word) for word in words]
        assert order == sorted(order)


def test_terms_of_sums_in_memory_are_not_streamed() -> None:
    """Only complete sums go past the caches."""
    text = MATMUL.replace("DIRECTIVES", "tile i, j by 4, 32 -> io, jo, ii, ji"
                          "  reorder io, jo, k, ii, ji  unroll ii  vectorize ji")  # fmt: skip
    body = function(text, "matmul").body
    streamed = [i for i in items(body) if isinstance(i, v.Store) and i.stream]
    assert streamed
    assert all(s.origin is None for s in streamed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SCALE.replace("DIRECTIVES", "stream y"), "streamed already"),
        (SCALE.replace("stream y", "stream x"), "x is an input"),
        (SCALE.replace("stream y", "stream z"), "there is no array z"),
        (MATMUL.replace("DIRECTIVES", "reorder i, k, j"), "come back from memory"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(Error, match=words):
        kernel = "scale" if "kernel scale" in text else "matmul"
        compiled(text.replace("DIRECTIVES", ""), kernel, "c")


def test_what_is_read_again_is_refused() -> None:
    text = """
    kernel twice(N) {
        in  x: f32[N]
        out y: f32[N]
        out z: f32[N]
        y[i] = x[i] * 2.0
        z[i] = y[i] + 1.0
    }
    schedule twice for any { stream y }
    """
    with pytest.raises(Error, match="z reads what y has stored"):
        compiled(text, "twice", "c")


@pytest.mark.parametrize("target", EVERYWHERE)
def test_an_inout_that_is_read_first(target: str) -> None:
    text = """
    kernel halve(N) {
        inout x: f32[N]
        for i in 0..N - 1 { x[i] = x[i + 1] * 0.5 }
    }
    schedule halve for any { vectorize i  stream x }
    """
    halve = compiled(text, "halve", target)
    for n in (1, 2, 16, 17, 50):
        for elements in (0, 1):
            x, raw = at_offset((n,), np.float32, elements)
            x[...] = np.arange(n)
            want = np.r_[np.arange(1, n) * 0.5, n - 1].astype(np.float32)
            halve(x=x)
            np.testing.assert_array_equal(x, want)
            assert untouched(x, raw)
