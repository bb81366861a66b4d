"""Variants whose conditions ask about sizes: each call picks one."""

import threading

import numpy as np
import pytest

import tdsl
from tdsl import built
from tdsl.driver import Compilation


@pytest.fixture
def fast(module: tdsl.Module) -> built.DispatchingKernel:
    with pytest.warns(tdsl.CompileWarning, match="for some sizes wide, low may hold"):
        kernel = module["scale"].compile(target="c")
    assert isinstance(kernel, built.DispatchingKernel)
    return kernel


SIZES = {0: "low", 1: "low", 3: "low", 4: "", 63: "", 64: "wide", 1000: "wide"}


@pytest.mark.parametrize("size", SIZES)
def test_the_size_picks_the_variant(fast: built.DispatchingKernel, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    assert fast.variant(size) == fast.variant(N=size) == SIZES[size]
    assert fast.for_sizes(size).variant(size) == SIZES[size]
    assert (fast(x=x, a=1.0) == 3 * x + 1).all()


def test_a_variant_is_compiled_once_and_when_it_is_needed(
    fast: built.DispatchingKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = built.build

    def counting(compilation: Compilation, name: str) -> built.Built:
        made.append(compilation.label)
        return real(compilation, name)

    monkeypatch.setattr(built, "build", counting)
    x = np.ones(100, np.float32)
    assert fast.variant(100) == "wide"
    assert made == []
    for _ in range(3):
        fast(x=x, a=0.0)
        fast(x=x[:2], a=0.0)
        fast(x=x[:70], a=0.0)
    assert made == ["wide", "low"]


def test_it_has_the_interface_of_a_compiled_kernel(fast: built.DispatchingKernel) -> None:
    assert fast.name == "scale"
    assert fast.schedule == ""
    assert "scale(" in fast.header
    assert fast.c_source == fast.for_sizes(10).c_source != fast.for_sizes(100).c_source
    assert fast.library_path == fast.for_sizes(10).library_path
    assert "scale" in fast.assembly
    assert fast.workspace_bytes(100) == 0


def test_calls_by_position_into_out_and_with_scalars(fast: built.DispatchingKernel) -> None:
    x, y = np.arange(70, dtype=np.float32), np.zeros(70, np.float32)
    assert fast(x, np.float32(2.0), y) is y
    assert (y == 3 * x + 2).all()


def test_wrong_calls_are_those_of_a_compiled_kernel(fast: built.DispatchingKernel) -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="missing argument 'a'"):
        fast(x=x)
    with pytest.raises(TypeError, match="argument 'x': expected float32 array of 1 dimension"):
        fast(x=[1.0, 2.0], a=1.0)
    with pytest.raises(TypeError, match="there is no argument 'b'"):
        fast(x=x, a=1.0, b=2)
    with pytest.raises(TypeError, match="takes 3 arguments"):
        fast(x, 1.0, x, x)
    with pytest.raises(TypeError, match="argument 'x': expected float32"):
        fast(x=np.zeros(3), a=1.0)
    with pytest.raises(TypeError, match="takes 1 size"):
        fast.variant(1, 2)
    # After a right call with these shapes, too.
    fast(x=x, a=1.0)
    with pytest.raises(TypeError, match="argument 'x': expected float32"):
        fast(x=np.zeros(3), a=1.0)


def test_a_bound_size_decides_when_it_is_compiled(module: tdsl.Module) -> None:
    kernel = module["scale"].compile(target="c", sizes={"N": 100})
    assert not isinstance(kernel, built.DispatchingKernel)
    assert kernel.variant() == "wide"


def test_a_name_overrides_the_condition(module: tdsl.Module) -> None:
    kernel = module["scale"].compile(target="c", schedule="wide")
    x = np.arange(2, dtype=np.float32)
    assert kernel.variant(2) == "wide"
    assert (kernel(x=x, a=0.0) == 3 * x).all()


def test_threads_compile_a_variant_once(fast: built.DispatchingKernel) -> None:
    x = np.arange(80, dtype=np.float32)
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(fast(x=x, a=0.0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all((r == 3 * x).all() for r in results)
