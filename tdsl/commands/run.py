"""`tdsl run`: compile one kernel, call it, and say what came out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import click
import numpy as np

from tdsl import driver
from tdsl.built import Built, build, messages, unchecked
from tdsl.checking import kernel_warnings
from tdsl.commands import console
from tdsl.commands.arrays import (
    Values,
    approximate,
    as_declared,
    described,
    difference,
    fill,
    load,
    may_save,
    missing,
    save,
)
from tdsl.commands.options import Request, WrongUse, pairs, request, shared, unknown
from tdsl.diagnostics import Diagnostic, Error
from tdsl.ir.arguments import ArgumentPlan
from tdsl.ir.interp import reference
from tdsl.ir.kernel import Kernel
from tdsl.runtime.laid_out import LaidOut
from tdsl.runtime.threads import set_threads
from tdsl.schedule.builder import Schedule
from tdsl.schedule.choose import choose


@click.command("run")
@shared
@click.option(
    "--input",
    "inputs",
    metavar="x=a.npy",
    multiple=True,
    help="An array from a .npy file. Repeated.",
)
@click.option(
    "--random",
    "seed",
    metavar="SEED",
    type=click.IntRange(min=0),
    help="Fill the inputs that are not given; needs --size for sizes they would tell.",
)
@click.option(
    "--output",
    "outputs",
    metavar="y=b.npy",
    multiple=True,
    help="Write an output to a .npy file. Repeated.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Compare with the reference interpreter: integers, and floats under "
    "--strict-fp but what comes of exp, log and their like, bit for bit; other floats "
    "within 1e-5 (f32; 1e-12 f64, 1e-2 f16, 5e-2 bf16) of the largest value in the array.",
)
@click.option("--threads", metavar="N", type=click.IntRange(min=1),
              help="Threads of parallel loops.")  # fmt: skip
def command(
    file: str,
    kernel: str | None,
    schedule: str | None,
    target: str,
    sizes: tuple[str, ...],
    constants: tuple[str, ...],
    strict_fp: bool,
    inputs: tuple[str, ...],
    seed: int | None,
    outputs: tuple[str, ...],
    check: bool,
    threads: int | None,
) -> int:
    """Compile a kernel of FILE, run it on arrays, and print a line for each output."""
    asked = request(file, kernel, schedule, target, sizes, constants, strict_fp)
    options = asked.only()
    front = driver.run(asked.file, options, until="dependences")
    meaning = front.kernel
    wanted = _outputs(meaning, pairs(outputs, "--output", "y=b.npy"))
    given = _inputs(meaning, pairs(inputs, "--input", "x=a.npy"), seed)
    before = {name: value.copy() for name, value in given.items()}
    used = ArgumentPlan(meaning).sizes(given)
    built = _built(asked, front, used)
    if threads is not None:
        set_threads(threads)
    arrays, seconds = _call(built, meaning, given, used)
    label = built.variant(**used) or "the program's own order"
    click.echo(f"{meaning.name}: {label}, for {options.target.name}, {_duration(seconds)}")
    for name, value in arrays.items():
        if name in _written(meaning):
            click.echo(described(meaning, name, value))
    for name, path in wanted.items():
        save(name, path, arrays[name])
        click.echo(f"wrote {path}")
    return _compare(meaning, before, used, arrays, options.strict_fp) if check else 0


def _written(kernel: Kernel) -> list[str]:
    return [a.name for a in kernel.arguments if a.role in ("out", "inout")]


def _outputs(kernel: Kernel, asked: dict[str, str]) -> dict[str, str]:
    for name in asked:
        if name not in _written(kernel):
            raise unknown("output", name, _written(kernel), f"kernel {kernel.name}")
    for name, path in asked.items():
        may_save(name, path)
    return asked


def _inputs(kernel: Kernel, asked: dict[str, str], seed: int | None) -> dict[str, Values]:
    """Everything that is read, from files or at random."""
    names = [a.name for a in kernel.arguments]
    for name in asked:
        if name not in names:
            raise unknown("argument", name, names, f"kernel {kernel.name}")
    given = {name: load(name, path) for name, path in asked.items()}
    lacking = missing(kernel, given)
    if lacking and seed is None:
        example = " ".join(f"--input {n}={n}.npy" for n in lacking)
        raise WrongUse(
            f"{kernel.name} reads {', '.join(lacking)}, and nothing is given for it",
            f"add {example}, or --random SEED",
        )
    with _wrong_arrays():
        if seed is not None:
            fill(kernel, given, seed)
        ArgumentPlan(kernel).sizes(given)
        return as_declared(kernel, given)


@contextlib.contextmanager
def _wrong_arrays() -> Iterator[None]:
    """Arrays that do not fit are a wrong use of the command, in the words of the call."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise WrongUse(str(error)) from None


def _built(asked: Request, front: driver.Compilation, sizes: dict[str, int]) -> Built:
    """The kernel with the schedule that holds for these sizes, which need not be bound."""
    options = front.options
    choice = choose(front.file, front.kernel, options.target, sizes, _name(options))
    with console.progress(f"compiling {asked.name}"):
        made = driver.resume(front, options, choice.schedule)
        told = replace(made, warnings=(*choice.warnings, *made.warnings))
        console.show((*kernel_warnings(made), *messages(told), *unchecked([made])))
        return build([made], asked.module)


def _name(options: driver.Options) -> str | None:
    assert not isinstance(options.schedule, Schedule)
    return options.schedule


def _call(
    built: Built, kernel: Kernel, given: dict[str, Values], sizes: dict[str, int]
) -> tuple[dict[str, Values], float]:
    """All arrays after the call, and how long it took, the first time. Files hold arrays in the
    order of the text, whatever a schedule makes of it."""
    if built.layouts and isinstance(built, LaidOut):
        stored = {n: built.laid_out(n, v) for n, v in given.items()}
        stored, seconds = _timed(built, kernel, stored, sizes)
        plan = ArgumentPlan(kernel)
        return {n: built.natural(n, v, plan.shape(n, sizes)) for n, v in stored.items()}, seconds
    return _timed(built, kernel, given, {})


def _timed(
    built: Built, kernel: Kernel, given: dict[str, Values], sizes: dict[str, int]
) -> tuple[dict[str, Values], float]:
    with _wrong_arrays(), console.progress(f"running {kernel.name}"):
        start = time.perf_counter()
        result = built(**given, **sizes)
        seconds = time.perf_counter() - start
    returned = built.entry.returned
    values = (result,) if len(returned) == 1 else tuple(result or ())
    made = dict(zip(returned, values, strict=True))
    arrays = {a.name: made.get(a.name, given.get(a.name)) for a in kernel.arguments}
    return {n: np.asarray(v) for n, v in arrays.items()}, seconds


def _compare(
    kernel: Kernel,
    before: dict[str, Values],
    sizes: dict[str, int],
    after: dict[str, Values],
    strict_fp: bool,
) -> int:
    inputs = {a.name: before[a.name] for a in kernel.arguments if a.role != "out"}
    with console.progress(f"running {kernel.name} in the reference interpreter"):
        expected = reference(kernel, sizes, inputs)
    functions, loose = approximate(kernel)
    wrong = [
        Diagnostic(text, code="check", help=_why(kernel, name, strict_fp))
        for name, want in expected.items()
        if (text := difference(kernel, name, after[name], want, strict_fp and name not in loose))
    ]
    if wrong:
        raise Error(*wrong)
    floats = [n for n in expected if kernel.array(n).type.kind == "float"]
    said = "check: equal to the reference"
    names = [n for n in floats if n in loose]
    if strict_fp and names:
        said += f", bit for bit but for {', '.join(names)}: {', '.join(functions)} "
        said += f"{'is' if len(functions) == 1 else 'are'} within 2 units in the last place"
    elif strict_fp or not floats:
        said += ", bit for bit"
    click.echo(said)
    return 0


def _why(kernel: Kernel, name: str, strict_fp: bool) -> str | None:
    """What to do about a difference that may be one of rounding."""
    if strict_fp or kernel.array(name).type.kind != "float":
        return None
    return (
        "this may be rounding alone: products and sums are fused, and an ill-conditioned "
        "computation enlarges that; --strict-fp rounds like the reference"
    )


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
