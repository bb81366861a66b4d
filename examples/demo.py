"""`make demo`: two kernel files, compiled and run on a photograph.

Each result is checked against one that plain NumPy computes by another way, timed against it, and
written as a picture. Exit status 1 where a check fails.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Both sides on one thread, so that the times compare. It counts before the libraries are loaded.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
from PIL import Image
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

import tdsl
from tdsl import driver
from tdsl.runtime.measure import Comparison, compare
from tdsl.targets import native, target

HERE = Path(__file__).resolve().parent
PHOTOGRAPH = HERE / "images" / "coffee.png"
OUTPUT = HERE.parent / "build" / "demo"
SECONDS = 1.0  # of timing, for each side
ORIENTATIONS = 16

Array = np.ndarray[Any, Any]
console = Console(highlight=False)


class CheckFailed(Exception):
    """A kernel's result differs from NumPy's."""


# ---------------------------------------------------------------- what NumPy computes


def sobel_numpy(img: Array) -> Array:
    """The same operator from shifted copies of the whole picture."""
    x = img.astype(np.int32)
    down = x[:-2] + 2 * x[1:-1] + x[2:]
    across = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    gx = down[:, 2:] - down[:, :-2]
    gy = across[2:] - across[:-2]
    # Truncated, as a conversion to integers is.
    return np.minimum(np.sqrt((gx * gx + gy * gy).astype(np.float32)), 255).astype(np.uint8)


def convolution_numpy(x: Array, w: Array, b: Array) -> Array:
    """All windows of the picture, times the filters, by NumPy's BLAS."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
    return np.tensordot(windows, w, axes=((4, 5, 3), (0, 1, 2))) + b


def gabor_bank(radius: int = 4) -> Array:
    """Waves under a bell, in `ORIENTATIONS` directions, even and odd: [row, column, 1, filter]."""
    r, s = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(np.float64)
    bell = np.exp(-(r * r + s * s) / (2 * (radius / 2) ** 2))
    filters = []
    for phase in (0.0, np.pi / 2):
        for angle in np.arange(ORIENTATIONS) * np.pi / ORIENTATIONS:
            wave = np.cos((s * np.cos(angle) + r * np.sin(angle)) * np.pi / radius + phase)
            filters.append(bell * (wave - (bell * wave).sum() / bell.sum()))
    return np.stack(filters, axis=-1)[:, :, np.newaxis, :].astype(np.float32)


def colours(response: Array) -> Array:
    """Direction as colour, strength as brightness."""
    even, odd = response[..., :ORIENTATIONS], response[..., ORIENTATIONS:]
    strength = np.sqrt(even * even + odd * odd)
    best = strength.argmax(axis=-1)
    peak = strength.max(axis=-1)
    value = np.minimum(peak / np.quantile(peak, 0.98), 1.0)
    hue = best * (255 / ORIENTATIONS)
    saturation = np.full_like(value, 200)
    hsv = np.stack([hue, saturation, 255 * value], axis=-1).astype(np.uint8)
    return np.asarray(Image.fromarray(hsv, "HSV").convert("RGB"))


# ---------------------------------------------------------------- the steps


def compiled(file: str, kernel: str, **options: Any) -> Any:
    """A kernel for this machine, with the time that it took."""
    path = HERE / file
    with console.status(f"compiling {kernel}"):
        start = time.perf_counter()
        made = tdsl.load(path)[kernel].compile(**options)
        spent = time.perf_counter() - start
    console.print(f"[bold]{kernel}[/] from {shown(path)}, proven and compiled in {spent:.2f} s")
    return made


def require(holds: bool, what: str) -> None:
    """Report a check, or raise."""
    if not holds:
        raise CheckFailed(what)
    console.print(f"  [green]checked[/]  {what}")


def timed(
    table: Table, name: str, kernel: Callable[[], object], numpy: Callable[[], object]
) -> None:
    """Time both in turn and add a row."""
    with console.status(f"timing {name}"):
        found: Comparison = compare(
            {"numpy": numpy, "tdsl": kernel}, baseline="numpy", seconds=SECONDS
        )
    ours, theirs = found["tdsl"], found["numpy"]
    row = (f"{theirs.seconds * 1e3:.2f} ms", f"{ours.seconds * 1e3:.3f} ms", f"{ours.speed:.1f} x")
    table.add_row(name, *row)


def write(picture: Array, name: str) -> None:
    """Write a picture and say where."""
    path = OUTPUT / name
    Image.fromarray(picture).save(path)
    console.print(f"  [green]written[/]  {shown(path)}\n")


def shown(path: Path) -> str:
    """A path as seen from the root of the checkout."""
    root = HERE.parent
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def sobel(grey: Array, table: Table) -> None:
    """Edges of the photograph, in integers: equal to the last bit."""
    kernel = compiled("sobel.tdsl", "sobel")
    mag = kernel(img=grey)
    expected = sobel_numpy(grey)
    require(np.array_equal(mag, expected), "every pixel is what NumPy computes")
    timed(table, "sobel", lambda: kernel(img=grey, mag=mag), lambda: sobel_numpy(grey))
    write(mag, "sobel.png")


def convolution(grey: Array, table: Table) -> None:
    """Directions in the photograph: a bank of 32 filters, two vectors of channels at a time."""
    kernel = compiled("conv2d.tdsl", "conv2d")
    w = gabor_bank()
    b = np.zeros(w.shape[-1], np.float32)
    x = np.ascontiguousarray(grey[np.newaxis, :, :, np.newaxis].astype(np.float32) / 255)
    y = kernel(x=x, w=w, b=b)
    expected = convolution_numpy(x.astype(np.float64), w.astype(np.float64), b)
    error = float(np.abs(y - expected).max())
    # Each of the 81 terms and sums rounds once, relative to the largest partial sum.
    bound = (
        w[:, :, 0].size
        // w.shape[-1]
        * np.finfo(np.float32).eps
        * float(np.abs(w).sum((0, 1, 2)).max())
    )
    what = f"within {bound:.1e} of NumPy in double precision (largest difference {error:.1e})"
    require(error <= bound, what)
    timed(
        table,
        f"conv2d, {w.shape[-1]} filters",
        lambda: kernel(x=x, w=w, b=b, y=y),
        lambda: convolution_numpy(x, w, b),
    )
    write(colours(y[0]), "directions.png")


def neon_text() -> None:
    """The same convolution as C for ARM, which needs no ARM here."""
    path = HERE / "conv2d.tdsl"
    file = tdsl.load(path).file
    parts = [driver.run(file, driver.Options("conv2d", target("neon")))]
    module = driver.emit("conv2d", parts)
    folder = OUTPUT / "neon"
    folder.mkdir(exist_ok=True)
    for suffix, text in ((".c", module.c_source), (".h", module.header)):
        (folder / f"conv2d{suffix}").write_text(text)
    lines = module.c_source.splitlines()
    console.print(f"[bold]conv2d[/] for another machine: {shown(folder / 'conv2d.c')}")
    console.print("  as from: tdsl compile examples/conv2d.tdsl --target neon --emit c,h")
    at = max(i for i, line in enumerate(lines) if "vfma" in line)
    excerpt = textwrap.dedent("\n".join(lines[at - 3 : at + 1]))
    console.print(Padding(Syntax(excerpt, "c", background_color="default"), (1, 2)))


def main() -> int:
    """All steps; the exit status."""
    start = time.perf_counter()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with Image.open(PHOTOGRAPH) as photograph:
        grey = np.asarray(photograph.convert("L"))
    console.print(
        f"{shown(PHOTOGRAPH)}, {grey.shape[1]} x {grey.shape[0]}; target {native().name}\n"
    )
    table = Table("kernel", "NumPy", "TDSL", "speed", title="one thread, interleaved, medians")
    try:
        sobel(grey, table)
        convolution(grey, table)
    except CheckFailed as failed:
        console.print(f"[bold red]FAILED[/]  not true: {failed}")
        return 1
    except tdsl.Error as error:
        console.print(f"[bold red]FAILED[/]  {error}", markup=True)
        return 1
    neon_text()
    console.print(table)
    console.print(f"done in {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
