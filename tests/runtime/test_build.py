"""The ways to build a request, and the files a user asks for."""

import os
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cffi
import numpy as np
import pytest

from tdsl.diagnostics import ToolchainError
from tdsl.runtime import build
from tdsl.runtime.build import assembly, build_object, build_shared, load
from tdsl.runtime.callable import CompiledKernel
from tdsl.runtime.emit import emit
from tdsl.runtime.files import write_atomically
from tdsl.runtime.interface import BuildRequest
from tests.runtime.support import AXPY, AXPY_ENTRY, AXPY_SHAPES, run_python


def calls(library: build.Library) -> None:
    kernel = CompiledKernel(AXPY_ENTRY, AXPY_SHAPES, library)
    np.testing.assert_array_equal(kernel(a=2.0, x=np.ones(2, np.float32)), [3, 3])


def test_both_modes(capfd: pytest.CaptureFixture[str], new_cache: Path) -> None:
    extension, shared = load(AXPY), load(AXPY, mode="shared")
    assert extension.path != shared.path
    assert extension.path.name.startswith("_tdsl_") and shared.path.name == "libaxpy.so"
    for library in (extension, shared, load(AXPY)):
        calls(library)
    assert capfd.readouterr() == ("", "")  # cffi likes to tell what it does


def test_without_the_headers_of_python_a_shared_library_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "python_headers", lambda: None)
    library = load(AXPY)
    assert library.path.name == "libaxpy.so"
    calls(library)


def test_code_for_another_machine_is_not_loaded() -> None:
    with pytest.raises(ValueError, match="cannot be loaded into this process"):
        load(replace(AXPY, machine="vax"))


def test_a_file_that_is_no_library_is_an_error_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "_tdsl_x.so"
    path.write_text("not a library")
    with pytest.raises(ToolchainError, match=r"cannot be loaded[\s\S]*noexec"):
        build.import_extension("_tdsl_x", path)


def test_flags_and_definitions_reach_the_kernel() -> None:
    request = BuildRequest(
        "value",
        "int value(void *workspace) { (void)workspace; return VALUE; }\n",
        "int value(void *workspace);\n",
        "int value(void *workspace);\n",
        flags=("-O1", "-DVALUE=42", "-Wall", "-Werror"),
    )
    for mode in ("extension", "shared"):
        library = load(request, mode=mode)
        assert library.lib.value(library.ffi.NULL) == 42


# Locals of cffi's code, types and functions of Python.h and of what it includes, of the C library.
@pytest.mark.parametrize(
    "name", ["result", "self", "x0", "args", "setter", "uint", "fadd", "PyObject", "getppid"]
)
@pytest.mark.parametrize("mode", ["extension", "shared"])
def test_a_function_may_have_the_name_of_another_thing(name: str, mode: str) -> None:
    head = f"int {name}(int64_t n, const struct timeval *p)"
    tag = "struct timeval { double v; };\n"
    code = f"#include <stdint.h>\n{tag}{head} {{ return (int)(n + p->v); }}\n"
    request = BuildRequest("named", code, f"{tag}{head};\n", f"{tag}{head};\n")
    library = load(request, mode=mode)
    assert getattr(library.lib, name)(40, library.ffi.from_buffer(
        library.ffi.typeof(getattr(library.lib, name)).args[1], np.array([2.0])
    )) == 42  # fmt: skip
    assert library.address(name) != 0


@pytest.mark.parametrize("name", ["", "../up", "a b", "-o", ".hidden", "a/b"])
def test_a_module_name_is_a_plain_file_name(name: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        replace(AXPY, name=name)


# ---------------------------------------------------------------- files


def test_objects_and_libraries_are_built_to_a_path(tmp_path: Path) -> None:
    built = build_object(AXPY, tmp_path / "new" / "axpy.o")
    assert built.read_bytes()[:4] == b"\x7fELF" or sys.platform == "darwin"
    shared = build_shared(AXPY, tmp_path / "any.so")
    ffi = cffi.FFI()
    ffi.cdef(AXPY.cdef)
    assert ffi.dlopen(str(shared)).axpy_workspace_bytes(3) == 12


def test_assembly_is_the_compilers() -> None:
    text = assembly(AXPY)
    assert re.search(r"^_?axpy:", text, re.MULTILINE) and "ret" in text
    assert assembly(AXPY) == text


def test_emit_writes_what_is_asked(tmp_path: Path) -> None:
    (tmp_path / "axpy.c").write_text("an older one")
    paths = emit(AXPY, tmp_path, ["asm", "c", "h", "so", "o"])
    assert [p.name for p in paths] == ["axpy.s", "axpy.c", "axpy.h", "axpy.so", "axpy.o"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert (tmp_path / "axpy.c").read_text() == AXPY.c_source
    assert (tmp_path / "axpy.h").read_text() == AXPY.header
    with pytest.raises(ValueError, match="there is no output 'exe'; there are c, h, o, so, asm"):
        emit(AXPY, tmp_path, ["exe"])


def test_a_failed_compilation_leaves_the_sources(tmp_path: Path) -> None:
    (tmp_path / "axpy.o").write_text("an older one")
    with pytest.raises(ToolchainError):
        emit(replace(AXPY, c_source="not C"), tmp_path, ["o", "c"])
    assert (tmp_path / "axpy.c").read_text() == "not C"
    assert (tmp_path / "axpy.o").read_text() == "an older one"


def test_files_are_written_whole_with_the_users_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", "text")
        write_atomically(tmp_path / "b", b"bytes", executable=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o750

    def fails(*paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", "newer")
    assert (tmp_path / "a").read_text() == "text"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_clang_serves_as_well() -> None:
    if subprocess.run(["which", "clang"], capture_output=True, check=False).returncode:
        pytest.skip("clang is not installed")
    run_python(
        "from tests.runtime.test_build import calls, AXPY, load\nlibrary = load(AXPY)\n"
        "assert library.compiler.is_clang\ncalls(library)",
        CC="clang",
    )
