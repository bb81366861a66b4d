"""The documents say what is true: their programs compile, their messages and outputs are real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import tdsl
from tdsl import driver
from tdsl.checking import check_text
from tdsl.cli import run
from tdsl.diagnostics import Error, render
from tdsl.imports import linked
from tdsl.syntax import tree
from tdsl.syntax.parser import parse
from tdsl.targets import target
from tests.docs.pages import (
    Block,
    agrees,
    all_blocks,
    blocks_of,
    function_of,
    pages,
    replace_block,
    with_source,
)

BLOCKS = all_blocks()
GOOD = [b for b in BLOCKS if b.kind == "tdsl" and not b.is_error]
BAD = [b for b in BLOCKS if b.is_error]
QUOTED = list(with_source())
TARGETS = ("c", "avx2", "avx512", "neon")


def test_the_documents_have_examples() -> None:
    assert {b.page for b in GOOD} >= {"README.md", "docs/language.md", "docs/schedules.md"}
    assert len(GOOD) > 20 and len(BAD) > 5 and len(QUOTED) > 10


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    known = {"tdsl", "text", "c", "console", "python", "sh"}
    assert [str(b) for b in BLOCKS if b.kind not in known] == []


def compiled(text: str, name: str, where: str) -> list[driver.Compilation]:
    """Every kernel of a file, through every pass, by the schedule that is taken for `where`."""
    file = linked(parse(text, name), name)
    kernels = [i.name for i in file.items if isinstance(i, tree.Kernel)]
    return [driver.run(file, driver.Options(k, target(where))) for k in kernels]


def refused(block: Block) -> str:
    """What is said against a file; what only lowering can see takes a compilation."""
    found = check_text(block.text, block.file).diagnostics
    if not found:
        try:
            compiled(block.text, block.file, "avx2")
        except Error as error:
            found = list(error.diagnostics)
    return "".join(render(d) + "\n" for d in found)


@pytest.mark.parametrize("block", GOOD, ids=str)
def test_programs_are_right(block: Block) -> None:
    report = check_text(block.text, block.file)
    assert [render(d) for d in report.diagnostics] == []


@pytest.mark.parametrize("where", TARGETS)
@pytest.mark.parametrize("block", GOOD, ids=str)
def test_programs_compile(block: Block, where: str) -> None:
    module = driver.emit("example", compiled(block.text, block.file, where))
    assert module.c_source


@pytest.mark.slow
@pytest.mark.parametrize("block", GOOD, ids=str)
def test_programs_compute_what_the_interpreter_does(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kernel by every schedule, on this machine."""
    path = tmp_path / block.file
    path.write_text(block.text, "utf-8")
    for kernel in tdsl.load(path).kernels.values():
        sizes = [f"--size={name}=9" for name in kernel.sizes]
        for schedule in kernel.schedules:
            names = [f"--kernel={kernel.name}", f"--schedule={schedule}"]
            assert run(["run", str(path), *names, *sizes, "--random=0", "--check"]) == 0
            assert "equal to the reference" in capsys.readouterr().out


@pytest.mark.parametrize("block", BAD, ids=str)
def test_wrong_programs_are_refused_and_their_message_follows(block: Block) -> None:
    assert refused(block) != ""
    assert any(source == block for source, _ in QUOTED), "no message is quoted below"


def said_of(source: Block, output: Block, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the compiler says, in the form of the quotation."""
    if source.is_error:
        return refused(source)
    if output.words == ("header",):
        return driver.emit("example", compiled(source.text, source.file, "c")).header
    file = folder / source.file
    file.write_text(source.text, "utf-8")
    stage = "c" if output.kind == "c" else output.words[0]
    chosen = output.words if output.kind == "c" else output.words[1:]
    options = ["--target", chosen[0] if chosen else "c"]
    options += ["--schedule", chosen[1]] if len(chosen) > 1 else []
    assert run(["show", str(file), "--stage", stage, *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("source", "output"), QUOTED, ids=str)
def test_quotations_are_real(
    source: Block,
    output: Block,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    said = said_of(source, output, tmp_path, capsys)
    is_c = output.kind == "c"
    same = f"\n{output.text}" in said if is_c else agrees(said, output.text)
    if not same and pytestconfig.getoption("--update"):
        # Other blocks of the page move: repeat it until nothing fails.
        replace_block(output, function_of(said) if is_c else said)
    assert same and output.text.strip(), said


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.name)
def test_commands_and_python_do_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks_of(page):
        if block.kind == "tdsl":
            Path(block.file).write_text(block.text, "utf-8")
        elif block.kind == "python":
            exec(compile(block.text, str(block), "exec"), names)
            capsys.readouterr()
        elif block.kind == "console":
            for command, shown in commands(block):
                status = run(shlex.split(command, comments=True)[1:])
                out, err = capsys.readouterr()
                assert agrees(out + err, shown), f"{block}: {command}\n{out}{err}"
                assert status == ("error" in block.words)


def commands(block: Block) -> list[tuple[str, str]]:
    """(command, what it prints)."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(
    ("said", "quoted", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\n", False),
        ("a\nb\nc\nd\n", "a\n...\nd\n", True),
        ("a\nd\n", "a\n...\nd\n", True),
        ("a\nb\nc\n", "a\n...\nd\n", False),
        ("took 3.5 ms\n", "took ... ms\n", True),
        ("took 3.5 s\n", "took ... ms\n", False),
        ("a.c\n", "abc\n", False),
        ("a\n", "...\n", True),
    ],
)
def test_a_quotation_may_leave_out_but_not_change(said: str, quoted: str, same: bool) -> None:
    assert agrees(said, quoted) is same
