"""Arrays between pages that may not be touched."""

import gc
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tdsl.runtime.guard import PAGE, guarded, guarded_copy
from tdsl.runtime.memory import address
from tests.runtime.support import AXPY, AXPY_ENTRY, AXPY_SHAPES, ROOT, compiled


@pytest.mark.parametrize("shape", [0, 1, 7, 1024, 1025, (3, 5), (0, 4), ()])
@pytest.mark.parametrize("dtype", ["f4", "i1", "f2", "f8", bool])
@pytest.mark.parametrize("end", [True, False])
def test_it_is_an_ordinary_array_at_the_edge(
    shape: int | tuple[int, ...], dtype: str, end: bool
) -> None:
    array = guarded(shape, dtype, end=end)
    assert array.shape == np.zeros(shape).shape and array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert not array.any()
    place = address(array) + (array.nbytes if end else 0)
    assert place % PAGE == 0
    array[...] = 1
    assert array.all()


def test_a_copy_has_the_values() -> None:
    x = np.arange(10.0).reshape(2, 5).T
    for end in (True, False):
        np.testing.assert_array_equal(guarded_copy(x, end=end), x)


@pytest.mark.parametrize(("end", "place"), [(True, 4), (False, -1)])
def test_the_next_byte_ends_the_process(end: bool, place: int) -> None:
    code = (
        "import ctypes\n"
        "from tdsl.runtime.guard import guarded\n"
        "from tdsl.runtime.memory import address\n"
        f"array = guarded(4, 'u1', end={end})\n"
        "read = lambda at: ctypes.c_char.from_address(address(array) + at).value\n"
        "print([read(0), read(3)], flush=True)\n"
        f"read({place})\n"
        "print('still here')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[b'\\x00', b'\\x00']\n"
    assert -done.returncode in (signal.SIGSEGV, signal.SIGBUS)


def test_kernels_take_them() -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    for n in (0, 1, 5, 1024):
        for end in (True, False):
            x, y = guarded_copy(np.ones(n, np.float32), end=end), guarded(n, np.float32, end=end)
            np.testing.assert_array_equal(kernel(a=2.0, x=x, y=y), np.full(n, 3))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")
def test_the_memory_goes_with_the_array() -> None:
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    gc.collect()
    before = mappings()
    arrays = [guarded(10, "f4") for _ in range(50)]
    assert mappings() >= before + 50
    views = [array[2:] for array in arrays]
    del arrays
    assert all((view == 0).all() for view in views)
    del views
    gc.collect()
    assert mappings() < before + 25
