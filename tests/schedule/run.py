"""The front half of the compiler for tests: text -> program -> schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tdsl.ir.kernel import Kernel
from tdsl.polyhedral import model
from tdsl.polyhedral.program import Program
from tdsl.schedule import apply
from tdsl.schedule.choose import choose, size_lets
from tdsl.schedule.resolve import Resolved, resolve
from tdsl.schedule.state import Scheduled
from tdsl.syntax.elaborate import elaborate
from tdsl.syntax.parser import parse
from tdsl.syntax.tree import File, Recipe
from tdsl.syntax.tree import Kernel as KernelItem
from tdsl.targets.target import TARGETS, Target

MATMUL = """
kernel matmul(M, N, K) {
    in  A: f32[M, K]
    in  B: f32[K, N]
    out Y: f32[M, N]
    C[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = max(C[i, j], 0.0)
}
"""


@dataclass(frozen=True)
class Front:
    """A file with one kernel, elaborated."""

    file: File
    kernel: Kernel
    program: Program

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {i.name: i for i in self.file.items if isinstance(i, Recipe)}


def front(
    text: str,
    name: str = "<text>",
    sizes: Mapping[str, int] | None = None,
    constants: Mapping[str, int | float | str] | None = None,
) -> Front:
    file = parse(text, name)
    item = next(i for i in file.items if isinstance(i, KernelItem))
    kernel = elaborate(file, item.name, constants, sizes)
    return Front(file, kernel, model.build(kernel))


def target(name: str = "avx512") -> Target:
    return TARGETS[name]


def resolved(
    made: Front,
    on: str = "avx512",
    knobs: Mapping[str, int] | None = None,
    strict_fp: bool = False,
    variant: str | None = None,
) -> Resolved:
    """The chosen schedule of the file with integers."""
    chosen = choose(made.file, made.kernel, target(on), variant=variant).schedule
    assert chosen is not None
    return resolve(
        chosen.directives,
        target(on),
        made.kernel,
        made.recipes,
        knobs,
        strict_fp,
        size_lets(made.file, made.kernel.name),
    )


def scheduled(
    text: str,
    name: str = "<text>",
    on: str = "avx512",
    sizes: Mapping[str, int] | None = None,
    knobs: Mapping[str, int] | None = None,
    strict_fp: bool = False,
) -> Scheduled:
    """All of it."""
    made = front(text, name, sizes)
    steps = resolved(made, on, knobs, strict_fp)
    return apply.schedule(made.program, steps, target(on), strict_fp=strict_fp)


def on_matmul(directives: str, on: str = "avx512", strict_fp: bool = False) -> Scheduled:
    """Directives for the product."""
    text = f"{MATMUL}\nschedule matmul for any {{\n{directives}\n}}"
    return scheduled(text, on=on, strict_fp=strict_fp)
