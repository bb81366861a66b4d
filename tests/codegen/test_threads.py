"""Parallel loops of a kernel that is called by many threads already."""

from __future__ import annotations

from pathlib import Path

import pytest

from tdsl.codegen import emit_module
from tdsl.targets import target
from tests.codegen.harness import WARNINGS, compiler, execute, write
from tests.codegen.test_structure import doubled

PROGRAM = r"""
#include <omp.h>
#include <stdio.h>
#include "doubled.h"

static double x[4][4096], y[4][1024];
static int alone, inside;

/* What a compiler makes of a parallel region: 1 thread where an `if` does not hold. */
void __real_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
void __wrap_GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
    if (threads != 1)
        __atomic_add_fetch(omp_in_parallel() ? &inside : &alone, 1, __ATOMIC_SEQ_CST);
    __real_GOMP_parallel(body, data, threads, flags);
}

int main(void)
{
    int wrong = 0;
    omp_set_max_active_levels(4);
    omp_set_num_threads(4);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 4096; i++)
            x[t][i] = i % 4 == 0 ? t + i / 4 : 0;
#pragma omp parallel for reduction(| : wrong) schedule(static, 1)
    for (int t = 0; t < 4; t++)
        wrong |= doubled(1024, x[t], y[t], NULL);
    wrong |= doubled(1024, x[0], y[0], NULL);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 1024; i++)
            wrong |= y[t][i] != 2.0 * (t + i);
    printf("%d %d %d\n", wrong, inside, alone);
    return 0;
}
"""


@pytest.mark.parametrize("name", ["c", "native"])
def test_they_start_no_threads_of_their_own(name: str, tmp_path: Path) -> None:
    of = target(name)
    command = compiler(of)
    if command != "gcc":
        pytest.skip("looks at calls of gcc's library")
    source = write(emit_module("doubled", [doubled(True, "stack")], of), tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    program = tmp_path / "program"
    options = [*WARNINGS, "-std=gnu11", "-O2", "-fopenmp", "-Wl,--wrap=GOMP_parallel"]
    files: list[str | Path] = [source, tmp_path / "main.c", "-o", program, "-lm"]
    execute([command, *options, *files])
    execute(["sh", "-c", f"{program} > {tmp_path}/out"])
    assert (tmp_path / "out").read_text() == "0 0 2\n"  # main's region, and the last call
