"""Calls side by side, and after a fork."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.threads import max_threads, set_threads
from tests.runtime.support import (
    AXPY,
    AXPY_ENTRY,
    AXPY_SHAPES,
    Shapes,
    compiled,
    entry,
    module,
    run_python,
)

# Each call waits until another one is inside as well: they meet only if the GIL is released.
MEET = module(
    "meet",
    "int meet(int64_t N, int64_t *met, void *workspace);\n",
    "#include <sched.h>\n"
    "static int inside;\n"
    "int meet(int64_t N, int64_t *met, void *workspace) {\n"
    "  (void)workspace;\n"
    "  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);\n"
    "  *met = 0;\n"
    "  for (int64_t i = 0; i < N && !*met; i++) {\n"
    "    *met = __atomic_load_n(&inside, __ATOMIC_SEQ_CST) >= 2;\n"
    "    sched_yield();\n"
    "  }\n"
    "  return 0;\n"
    "}\n",
)
MEET_ENTRY = entry("meet", "N", "out met: i64[0]")

SQUARES = module(
    "squares",
    "int squares(int64_t N, int64_t *y, void *workspace);\n",
    "int squares(int64_t N, int64_t *y, void *workspace) {\n"
    "  (void)workspace;\n"
    "#pragma omp parallel for\n"
    "  for (int64_t i = 0; i < N; i++) y[i] = i * i;\n"
    "  return 0;\n"
    "}\n",
    openmp=True,
)
SQUARES_ENTRY = entry("squares", "N", "out y: i64[1]")
SQUARES_SHAPES = Shapes(y=("N",))


@pytest.mark.parametrize("mode", ["extension", "shared"])
def test_calls_release_the_gil(mode: str) -> None:
    kernel = compiled(MEET, MEET_ENTRY, Shapes(), mode)
    alone = kernel(N=10)
    assert alone == 0
    with ThreadPoolExecutor(2) as pool:
        met = list(pool.map(lambda _: int(kernel(N=20_000_000)), range(2)))
    assert 1 in met


def test_threads_have_workspaces_of_their_own() -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    start = threading.Barrier(4)

    def work(number: int) -> bool:
        start.wait()
        right = True
        for n in range(1, 400):
            x = np.full(n * 11, number, np.float32)
            right = right and bool((kernel(a=2.0, x=x) == 2 * number + 1).all())
        return right

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_forked_process_calls_on() -> None:
    kernel = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)
    x = np.ones(100, np.float32)
    kernel(a=2.0, x=x)
    assert in_a_fork(kernel, a=2.0, x=x) == 3.0


def in_a_fork(kernel: CompiledKernel, **arguments: object) -> float:
    """The last element that the kernel gives in a forked process."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, repr(float(kernel(**arguments)[-1])).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return float(text)


def test_parallel_kernels_run_after_a_fork() -> None:
    """GNU's OpenMP would wait for threads that a fork leaves behind."""
    code = (
        "import os, threading\n"
        "from tests.runtime.test_threads import *\n"
        "from tdsl.runtime.threads import max_threads\n"
        "kernel = compiled(SQUARES, SQUARES_ENTRY, SQUARES_SHAPES)\n"
        "assert kernel(N=1000)[-1] == 999**2\n"
        "before = max_threads()\n"
        "print(in_a_fork(kernel, N=1000))\n"
        "print(max_threads() == before)\n"
    )
    done = run_python(code, OMP_NUM_THREADS="4")
    assert done.stdout == f"{999.0**2}\nTrue\n"


@pytest.mark.parametrize("loaded_by", ["kernel(N=1000)", "ctypes_region()"])
def test_processes_of_a_pool_that_forks_do_not_hang(loaded_by: str) -> None:
    """Whoever used OpenMP before, and in forks of forks; more threads are refused."""
    code = (
        "import ctypes, multiprocessing\n"
        "from tests.runtime.test_threads import *\n"
        "kernel = compiled(SQUARES, SQUARES_ENTRY, SQUARES_SHAPES)\n"
        "def ctypes_region():\n"
        "    y = np.zeros(1000, np.int64)\n"
        "    library = ctypes.CDLL(kernel.library_path)\n"
        "    library.squares(ctypes.c_int64(1000), ctypes.c_void_p(y.ctypes.data), None)\n"
        "    assert y[-1] == 999**2\n"
        "def child(depth):\n"
        "    last = int(kernel(N=1000)[-1])\n"
        "    try:\n"
        "        set_threads(2)\n"
        "    except RuntimeError as error:\n"
        "        assert 'spawn' in str(error)\n"
        "    else:\n"
        "        last = -1\n"
        "    with ThreadPoolExecutor(1) as threads:\n"
        "        last += int(threads.submit(lambda: kernel(N=1000)[-1]).result())\n"
        "    if depth:\n"
        "        process = multiprocessing.get_context('fork').Process(target=child, args=(0,))\n"
        "        process.start()\n"
        "        process.join()\n"
        "        last += process.exitcode\n"
        "    return last\n"
        f"{loaded_by}\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(set(pool.map_async(child, [0] * 4).get(60)))\n"
        "reader, writer = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(writer, str(child(1)).encode())\n"
        "    os._exit(0)\n"
        "print(os.read(reader, 99).decode())\n"
        "set_threads(2)\n"
        "print(kernel(N=1000)[-1])\n"
    )
    done = run_python(code, OMP_NUM_THREADS="4")
    both = 2 * 999**2
    assert done.stdout == f"{ {both} }\n{both}\n{999**2}\n"


def test_the_number_of_threads_can_be_set() -> None:
    code = (
        "from tests.runtime.test_threads import *\n"
        "print(max_threads())\n"
        "kernel = compiled(SQUARES, SQUARES_ENTRY, SQUARES_SHAPES)\n"
        "print(max_threads())\n"
        "set_threads(2)\n"
        "print(max_threads(), (kernel(N=100) == np.arange(100) ** 2).all())\n"
    )
    assert run_python(code, OMP_NUM_THREADS="3").stdout == "1\n3\n2 True\n"
    with pytest.raises(ValueError, match="at least 1 thread"):
        set_threads(0)
    for wrong in ("a", 1.5, True):
        with pytest.raises(TypeError, match="expected a number of threads, got"):
            set_threads(wrong)  # type: ignore[arg-type]
    assert max_threads() >= 1


def test_a_library_with_threads_is_not_closed() -> None:
    """Closing it would end the process."""
    code = (
        "from tests.runtime.test_threads import *\n"
        "import gc\n"
        "for _ in range(3):\n"
        "    kernel = compiled(SQUARES, SQUARES_ENTRY, SQUARES_SHAPES, 'shared')\n"
        "    assert kernel(N=100)[-1] == 99**2\n"
        "    del kernel\n"
        "    gc.collect()\n"
        "print('alive')\n"
    )
    assert run_python(code, OMP_NUM_THREADS="4").stdout == "alive\n"
