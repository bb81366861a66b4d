"""What the figures depend on: processor, libraries, compiler."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnxruntime
import threadpoolctl

from tdsl.runtime.peak import copy_seconds, peak
from tdsl.targets import native

# NumPy's BLAS obeys these; unset, it chooses its kernels for the processor at hand.
FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def environment() -> dict[str, str]:
    """This process's environment with one thread and nothing forced on NumPy's BLAS."""
    kept = {name: value for name, value in os.environ.items() if name not in FORCED}
    return {**kept, **dict.fromkeys(ONE_THREAD, "1")}


def facts() -> dict[str, str]:
    """Names and versions."""
    blas = [i for i in threadpoolctl.threadpool_info() if i["user_api"] == "blas"]
    library = ", ".join(
        f"{i['internal_api']} {i['version']}, {i.get('architecture', 'unknown')} kernels, "
        f"{i['num_threads']} thread"
        for i in blas
    )
    return {
        "processor": _processor(),
        "target": native().name,
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "NumPy": f"{np.__version__} ({library or 'no BLAS found'})",
        "onnxruntime": onnxruntime.__version__,
        "PyTorch": _installed("torch"),
        "Halide": _installed("halide"),
        "C compiler": _first_line(["gcc", "--version"]),
        "at best, one thread": _best(),
        "load at the start": f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} processors",
    }


def _best() -> str:
    """What nothing here can be faster than."""
    of, copied = native(), 64 << 20
    found = []
    for kind in ("f32", "f64", "int8", "bf16"):
        speed = peak(kind, of.features, of.vector_bytes)
        if speed is not None:
            found.append(f"{speed * 1e-9:.0f} G op/s {kind}")
    return ", ".join([*found, f"copy {copied / copy_seconds(copied) * 1e-9:.0f} GB/s"])


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed: its cases are left out"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not found"
    return done.stdout.splitlines()[0]
