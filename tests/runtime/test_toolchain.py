"""Finding compilers, running them, and what is said when they are missing or fail."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tdsl.diagnostics import ToolchainError, UnsupportedTarget
from tdsl.runtime import toolchain
from tdsl.runtime.build import load
from tdsl.runtime.process import CannotStart, run_all
from tdsl.runtime.toolchain import (
    MACHINES,
    candidates,
    find_compiler,
    find_emulator,
    is_host,
    machine_name,
    probe,
)
from tests.runtime.support import AXPY, ROOT

FOREIGN = "x86_64" if is_host("aarch64") else "aarch64"


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return path


def only(error: ToolchainError) -> tuple[str, list[str], str | None]:
    (diagnostic,) = error.diagnostics
    return diagnostic.message, [note.message for note in diagnostic.notes], diagnostic.help


# ---------------------------------------------------------------- finding


def test_cc_of_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(tmp_path / "my cc", "echo 'mycc 1.2 (clang)'\necho more")
    monkeypatch.setenv("CC", f"'{path}' -m64")
    found = find_compiler(replace(AXPY, compilers=("gcc",)))
    assert found.command == (str(path), "-m64")
    assert (found.version, found.path, found.is_clang) == ("mycc 1.2 (clang)", str(path), True)


@pytest.mark.parametrize("command", ["no-such-compiler", "'", "false", "/etc/passwd"])
def test_a_cc_that_does_not_work_is_an_error(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", command)
    with pytest.raises(ToolchainError) as caught:
        find_compiler(AXPY)
    message, _, advice = only(caught.value)
    assert message == (
        f"the environment variable CC names a compiler that cannot be run: {command}"
    )
    assert advice is not None and advice.startswith("unset CC")


def test_the_version_is_asked_once_for_a_file_as_it_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = program(tmp_path / "cc", f"echo asked >> {log}\necho version 1")
    for _ in range(3):
        found = probe(str(path))
        assert found is not None and found.version == "version 1"
    assert log.read_text() == "asked\n"
    program(path, "echo version 2")
    os.utime(path, ns=(1, 1))
    found = probe(str(path))
    assert found is not None and found.version == "version 2"


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError) as caught:
        load(AXPY)
    message, notes, advice = only(caught.value)
    assert message == "no C compiler was found"
    assert notes == ["tried: gcc, clang, cc"]
    assert advice is not None and "apt-get install gcc libc6-dev" in advice


def test_no_compiler_for_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as caught:
        find_compiler(replace(AXPY, machine=FOREIGN))
    message, _, advice = only(caught.value)
    assert message == f"no C compiler for {FOREIGN} was found"
    assert f"apt-get install {MACHINES[FOREIGN].package}" in str(advice)
    assert "ziglang" in str(advice)
    with pytest.raises(ToolchainError, match="apt-get install qemu-user"):
        find_emulator(FOREIGN)


def test_an_unknown_machine() -> None:
    with pytest.raises(UnsupportedTarget, match="nothing is known about building for vax"):
        find_compiler(replace(AXPY, machine="vax"))


def test_candidates_for_another_machine() -> None:
    names = candidates(replace(AXPY, machine=FOREIGN))
    assert names == (MACHINES[FOREIGN].compiler, f"zig:{FOREIGN}-linux-gnu")
    named = candidates(replace(AXPY, machine=FOREIGN, compilers=("mine-gcc", "clang")))
    assert named[:2] == ("mine-gcc", f"clang --target={FOREIGN}-linux-gnu")


def test_the_package_ziglang_serves_as_a_cross_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How it is called, with a stand-in for the package."""
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__main__.py").write_text(
        "import sys\nprint('clang version', *sys.argv[1:])\n"
    )
    (tmp_path / "ziglang" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = probe("zig:aarch64-linux-gnu")
    assert found is not None
    called = ("cc", "-target", "aarch64-linux-gnu", "-g0")
    assert found.command[1:] == ("-m", "ziglang", *called)
    assert found.version == f"clang version {' '.join(called)} --version"
    assert found.patience > AXPY.time_limit
    static = found.for_static_programs()
    assert static.command == tuple(
        part.replace("aarch64-linux-gnu", "aarch64-linux-musl") for part in found.command
    )


def test_names_of_machines() -> None:
    assert machine_name("ARM64") == "aarch64" and machine_name("AMD64") == "x86_64"
    assert is_host(None) and is_host(machine_name()) and not is_host(FOREIGN)


# ---------------------------------------------------------------- failures


def test_a_compile_error_is_told_with_command_and_output() -> None:
    wrong = replace(AXPY, c_source="int axpy(void) {\n  return x;\n}\n")
    for mode in ("extension", "shared"):
        with pytest.raises(ToolchainError) as caught:
            load(wrong, mode=mode)
        message, (command, output), _ = only(caught.value)
        compiler = find_compiler(wrong)
        assert message == f"{compiler.command[0]} failed with status 1"
        assert command.startswith(f"the command was: {compiler.command[0]} -O1 -ffp-contract=off")
        assert output.startswith("it said:\naxpy.c:") and "return x;" in output


def test_long_output_is_cut() -> None:
    lines = "".join(f"#error line {n}\n" for n in range(100))
    with pytest.raises(ToolchainError) as caught:
        load(replace(AXPY, c_source=lines))
    _, (_, output), _ = only(caught.value)
    assert output.count("\n") == toolchain.OUTPUT_LINES + 1
    assert output.endswith("more lines)")


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("x.c:1:10: fatal error: 'Python.h' file not found", "python3-dev"),
        ("x.c:1:10: fatal error: Python.h: No such file or directory", "python3-dev"),
        ("x.c:1:10: fatal error: stdint.h: No such file or directory", "libc6-dev"),
        ("ld: cannot find -lgomp", "libgomp1"),
        ("as: x.o: No space left on device", "TDSL_CACHE_DIR"),
    ],
)
def test_what_to_do(
    said: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'if [ "$1" = --version ]; then echo cc; else echo "{said}"; exit 1; fi'
    monkeypatch.setenv("CC", str(program(tmp_path / "cc", text)))
    with pytest.raises(ToolchainError) as caught:
        toolchain.compile_all([[str(tmp_path / "cc"), "x.c"]], tmp_path, time_limit=10)
    _, (_, output), found = only(caught.value)
    assert said in output and advice in str(found)


def test_no_header_is_missing_where_python_h_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "In file included from /usr/include/python3.11/Python.h:38: conflicting types"
    text = f'if [ "$1" = --version ]; then echo cc; else echo "{said}"; exit 1; fi'
    monkeypatch.setenv("CC", str(program(tmp_path / "cc", text)))
    with pytest.raises(ToolchainError) as caught:
        toolchain.compile_all([[str(tmp_path / "cc"), "x.c"]], tmp_path, time_limit=10)
    assert caught.value.diagnostics[0].help is None


def test_a_compiler_that_takes_too_long_is_stopped_with_its_children(tmp_path: Path) -> None:
    path = program(tmp_path / "cc", f"sleep 60 & echo $! > {tmp_path}/child\necho begun\nsleep 60")
    start = time.monotonic()
    with pytest.raises(ToolchainError) as caught:
        toolchain.compile_all([[str(path), "x.c"]], tmp_path, time_limit=0.5)
    assert time.monotonic() - start < 20
    message, (_, output), _ = only(caught.value)
    assert message == f"{path} took longer than 0.5 s and was stopped"
    assert output == "it said:\nbegun"
    assert gone(int((tmp_path / "child").read_text()))


def test_a_compiler_that_is_killed(tmp_path: Path) -> None:
    path = program(tmp_path / "cc", "kill -SEGV $$")
    with pytest.raises(ToolchainError, match="was ended by SIGSEGV"):
        toolchain.compile_all([[str(path)]], tmp_path, time_limit=10)


def test_a_compiler_that_vanished(tmp_path: Path) -> None:
    missing = str(tmp_path / "gone")
    with pytest.raises(ToolchainError, match="gone cannot be started: No such file"):
        toolchain.compile_all([[missing]], tmp_path, time_limit=10)
    other = program(tmp_path / "cc", f"echo $$ > {tmp_path}/pid\nsleep 60")
    with pytest.raises(CannotStart):  # and the one that runs already is ended
        run_all([[str(other)], [missing]], tmp_path, time_limit=10)
    pid = tmp_path / "pid"
    assert not pid.exists() or not pid.read_text() or gone(int(pid.read_text()))


def test_commands_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the other's file."""
    wait = "touch {0}; for i in $(seq 500); do [ -e {1} ] && exit 0; sleep 0.02; done; exit 1"
    commands = [["sh", "-c", wait.format(a, b)] for a, b in ("ab", "ba")]
    assert [o.status for o in run_all(commands, tmp_path, time_limit=30)] == [0, 0]


# ---------------------------------------------------------------- Ctrl-C


def gone(pid: int) -> bool:
    """Whether the process ends within a moment; one that only waits to be reaped has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
def test_ctrl_c_during_a_compilation(new_cache: Path, tmp_path: Path) -> None:
    """No orphan, no half-written file, and an ordinary KeyboardInterrupt."""
    path = program(
        tmp_path / "cc",
        'if [ "$1" = --version ]; then echo cc 1; exit; fi\n'
        "echo half > axpy.o; echo half > $TMPDIR/cc-temporary.s\n"
        f"sleep 60 &\necho $! >> {tmp_path}/children\nwait",
    )
    code = (
        "from tests.runtime.support import AXPY\n"
        "from tdsl.runtime.build import load\n"
        "try:\n"
        "    load(AXPY)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )

    def children() -> list[int]:
        log = tmp_path / "children"
        return [int(line) for line in log.read_text().split()] if log.exists() else []

    running = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "CC": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background of a shell, interrupts are ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 60
        while len(children()) < 2:  # kernel and wrapper are compiled side by side
            assert time.monotonic() < deadline and running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=30)
    finally:
        running.kill()
    assert output == "interrupted\n", errors
    assert all(gone(pid) for pid in children())
    assert [p for p in new_cache.rglob("*") if p.is_file()] == []
    assert list((new_cache / "work").iterdir()) == []
