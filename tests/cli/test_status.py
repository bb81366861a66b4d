"""What the process does as a whole: exit statuses, streams, signals, colour, start-up."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tdsl.commands.check as check_module
from tdsl.commands.console import harmless
from tests.cli.conftest import Tdsl

COMMAND = [sys.executable, "-m", "tdsl"]


def process(
    *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, env=env)


def test_the_statuses_of_a_process(folder: Path) -> None:
    assert process("check", "matmul.tdsl").returncode == 0
    assert process("check", "wrong.tdsl").returncode == 1
    assert process("check", "none.tdsl").returncode == 2
    environment = {**os.environ, "CC": "no-such-compiler"}
    assert process("compile", "two.tdsl", "--emit", "o", env=environment).returncode == 3


def test_results_and_diagnostics_go_to_their_streams(folder: Path) -> None:
    done = process("check", "wrong.tdsl")
    assert done.stdout.startswith(b"wrong.tdsl: 2 kernels")
    assert done.stderr.startswith(b"error[schedule]: ")
    assert b"\x1b" not in done.stdout + done.stderr


def test_help_and_version() -> None:
    for arguments in (("--help",), ("-h",), ("--version",), ("compile", "--help")):
        done = process(*arguments)
        assert (done.returncode, done.stderr) == (0, b"")
    assert process("--version").stdout.startswith(b"tdsl ")
    bare = process()
    assert (bare.returncode, bare.stdout) == (2, b"")
    assert b"Usage: tdsl" in bare.stderr


def test_a_defect_is_no_traceback(tdsl: Tdsl, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(check_module, "check_text", broken)
    result = tdsl("check", "matmul.tdsl")
    assert result.status == 70
    assert result.err.startswith("internal error: ZeroDivisionError: of the test\n")
    assert "please report" in result.err
    assert "Traceback" not in result.err
    monkeypatch.setenv("TDSL_DEBUG", "1")
    assert "Traceback" in tdsl("check", "matmul.tdsl").err


def test_memory_that_runs_out(tdsl: Tdsl, monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(check_module, "check_text", hungry)
    assert tdsl("check", "matmul.tdsl").err == "error: not enough memory\n"


def interruptible() -> None:
    """A child hears interrupts also where the tests run in the background of a shell, which
    leaves them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_is_130_and_writes_nothing(folder: Path) -> None:
    fifo = folder / "slow.tdsl"
    os.mkfifo(fifo)
    child = subprocess.Popen(
        [*COMMAND, "compile", "slow.tdsl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=interruptible,
    )
    # It waits for the text once the pipe has a writer.
    with fifo.open("wb"):
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert (out, err.strip()) == (b"", b"interrupted")
    assert not (folder / "build").exists()


def test_an_interrupt_ends_the_compiler_too(folder: Path) -> None:
    compiler, started = folder / "slow-cc", folder / "started"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo cc 1.0; exit 0; }\n'
        f'echo $$ > "{started}.new"\nmv "{started}.new" "{started}"\nexec sleep 60\n'
    )
    compiler.chmod(0o755)
    child = subprocess.Popen(
        [*COMMAND, "compile", "matmul.tdsl", "--emit", "o", "-o", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "CC": str(compiler)},
        preexec_fn=interruptible,
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err.strip()) == (130, b"", b"interrupted")
    assert not (folder / "out").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_goes_away_ends_quietly(folder: Path, buffered: bool) -> None:
    environment = os.environ if buffered else {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        [*COMMAND, "show", "matmul.tdsl", "--stage", "kernel"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=60) == 141
    assert err == b""


def test_names_that_the_terminal_cannot_show_do_no_harm(folder: Path) -> None:
    (folder / "gr\u00fc\u00dfe.tdsl").write_text("kernel f(N) { }")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = process("check", "gr\u00fc\u00dfe.tdsl", env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"e.tdsl: 1 kernel: ok\n")
    (folder / "gr\u00fc\u00dfe.tdsl").write_text("kernel \u00fc(N) { }")
    done = process("check", "gr\u00fc\u00dfe.tdsl", env=environment)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


# ---------------------------------------------------------------- a terminal


def on_terminal(*arguments: str, **environment: str) -> bytes:
    """What a command writes where standard error is a terminal."""
    return terminal_of([*COMMAND, *arguments], **environment)


def terminal_of(command: list[str], **environment: str) -> bytes:
    leader, follower = pty.openpty()
    values = {**os.environ, "TERM": "xterm-256color", **environment}
    for name in ("NO_COLOR", "FORCE_COLOR"):
        if name not in environment:
            values.pop(name, None)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower, env=values)
    os.close(follower)
    written = b""
    try:
        while chunk := os.read(leader, 65536):
            written += chunk
    except OSError:  # Linux says EIO when the other end is closed
        pass
    os.close(leader)
    child.wait(timeout=60)
    return written.replace(b"\r\n", b"\n")


def test_colour_on_a_terminal(folder: Path) -> None:
    written = on_terminal("check", "wrong.tdsl")
    assert b"\x1b[1;31merror" in written
    assert b"\x1b[1;36mnote" in written


def test_no_color_takes_it_away(folder: Path) -> None:
    written = on_terminal("check", "wrong.tdsl", NO_COLOR="1")
    assert b"\x1b" not in written
    assert b"error[schedule]: " in written


def test_a_dumb_terminal_gets_plain_text(folder: Path) -> None:
    assert b"\x1b" not in on_terminal("check", "wrong.tdsl", TERM="dumb")


def test_colour_changes_no_character(folder: Path) -> None:
    plain = process("check", "wrong.tdsl").stderr
    bare = b""
    for index, part in enumerate(on_terminal("check", "wrong.tdsl").split(b"\x1b[")):
        bare += part if index == 0 else part.split(b"m", 1)[1]
    assert bare == plain


def test_control_characters_are_pictures() -> None:
    assert (
        harmless("a\x1b[0m\x07\tb\n\u202e\u00e9\u4e2d") == "a\u241b[0m\u2407\tb\n\ufffd\u00e9\u4e2d"
    )


def test_progress_is_shown_once_something_takes_long(folder: Path) -> None:
    code = (
        "import sys, time; from tdsl.commands import console;"
        "console.PATIENCE = float(sys.argv[1])\n"
        "with console.progress('compiling x'): time.sleep(0.4)"
    )
    assert b"compiling x" in terminal_of([sys.executable, "-c", code, "0.05"])
    assert b"compiling x" not in terminal_of([sys.executable, "-c", code, "30"])


# ---------------------------------------------------------------- start-up


def test_help_loads_neither_the_compiler_nor_numpy() -> None:
    code = (
        "import sys; from tdsl.cli import run; run(['--help']);"
        "print(sorted({m.split('.')[0] for m in sys.modules}"
        " & {'numpy', 'islpy', 'lark', 'cffi'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stderr == b"[]\n"


def test_a_cache_that_cannot_be_used_is_a_warning_like_others(
    tdsl: Tdsl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TDSL_CACHE_DIR", str(folder / "matmul.tdsl"))
    monkeypatch.setattr("tdsl.runtime.cache._substitutes", {})
    sizes = [f"--size={s}=4" for s in "MNK"]
    result = tdsl("run", "matmul.tdsl", *sizes, "--random", "0")
    assert result.status == 0
    warnings = [line for line in result.err.splitlines() if line]
    assert [w.partition(": ")[:1] for w in warnings] == [("warning",)]
    assert "the cache of compiled kernels cannot be used: " in result.err
