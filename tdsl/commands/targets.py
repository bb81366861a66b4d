"""`tdsl targets`: what there is to compile for, and what of it runs here.

The form of --json, in which fields are added but none changes its meaning:

    {"version": 1, "machine": ..., "native": ..., "features": [...],
     "targets": [{"name", "native", "runs": "here" | "emulated" | "no", "reason", "registers",
                  "vector_bits", "compiler", "emulator", "extensions": [...]}]}
"""

from __future__ import annotations

import json
from typing import Any

import click

from tdsl import driver
from tdsl.diagnostics import Error
from tdsl.runtime.toolchain import find_compiler, find_emulator, is_host
from tdsl.targets import TARGETS, Target, cpu_features, machine, native, runnable, target
from tdsl.targets.target import EXTENSIONS


@click.command("targets")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(as_json: bool) -> None:
    """List the targets, the compiler of each, and whether this machine runs its code."""
    rows = [_row(target(name)) for name in TARGETS]
    asked = frozenset(f for t in TARGETS.values() for f in t.features)
    asked |= frozenset(f for of in EXTENSIONS.values() for more in of.values() for f in more)
    features = sorted(asked & cpu_features())
    if as_json:
        found = {
            "version": 1,
            "machine": machine(),
            "native": native().name,
            "features": features,
            "targets": rows,
        }
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"this machine: {machine()}; native is {native().name}")
    click.echo(f"its features: {', '.join(features) or 'none of those that targets use'}")
    head = ("target", "runs", "vectors", "extensions", "compiler")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[c]) for line in lines) for c in range(len(head))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _row(of: Target) -> dict[str, Any]:
    request = driver.probe(of)
    reason, compiler, emulator = runnable(of), None, None
    try:
        compiler = str(find_compiler(request))
    except Error as missing:
        reason = reason or missing.diagnostics[0].message
    if not is_host(request.machine):
        try:
            emulator = find_emulator(request.machine)
        except Error as missing:
            reason = f"{reason}; {missing.diagnostics[0].message}"
    runs = "here" if reason is None else "emulated" if emulator and compiler else "no"
    return {
        "name": of.name,
        "native": of.name == native().base,
        "runs": runs,
        "reason": reason,
        "registers": of.registers if of.widths else None,
        "vector_bits": of.vector_bytes * 8 or None,
        "compiler": compiler,
        "emulator": emulator,
        "extensions": list(EXTENSIONS.get(of.name, ())),
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    runs = {
        "here": "here, native" if row["native"] else "here",
        "emulated": f"under {row['emulator']}",
        "no": f"no: {row['reason']}",
    }[row["runs"]]
    vectors = f"{row['registers']} x {row['vector_bits']} bit" if row["registers"] else "none"
    return (row["name"], runs, vectors, ", ".join(row["extensions"]) or "-", row["compiler"] or "-")
