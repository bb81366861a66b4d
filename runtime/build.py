"""Builds generated C and loads it.

Ways to build a request, each kept in the cache:

    extension   a CPython extension by cffi (API mode): the fastest calls, what is shipped
    shared      a plain shared library, opened by cffi in ABI mode: the fastest build, for search
    object      an object file         assembly   its assembly text
"""

from __future__ import annotations

import errno
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi

from tdsl.diagnostics import Error, ToolchainError
from tdsl.runtime import glue
from tdsl.runtime.assembly import FLAGS
from tdsl.runtime.cache import (
    FORMAT,
    Cache,
    CacheEntry,
    default_cache,
    digest,
    substitute_cache,
)
from tdsl.runtime.files import write_atomically
from tdsl.runtime.interface import BuildRequest
from tdsl.runtime.threads import note_load
from tdsl.runtime.toolchain import Compiler, compile_all, find_compiler, is_host

# No room left, or no right to write: the cache is at fault, and a temporary one may do.
CACHE_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}


@dataclass(frozen=True)
class Library:
    """A loaded module: `lib.NAME` are its functions. `raw`: cffi's own library, where a function
    is called `prefix` + NAME."""

    ffi: Any
    lib: Any
    path: Path
    request: BuildRequest
    compiler: Compiler
    raw: Any
    prefix: str = ""

    def address(self, name: str) -> int:
        """Of a function."""
        pointer = self.ffi.addressof(self.raw, self.prefix + name)
        return int(self.ffi.cast("uintptr_t", pointer))


def load(request: BuildRequest, *, mode: str = "extension") -> Library:
    """Build a request for this machine, unless it is cached, and load it.

    `mode` is "extension" or "shared"; without the headers of Python an extension cannot be built,
    and a shared library takes its place.
    """
    if not is_host(request.machine):
        raise ValueError(f"code for {request.machine} cannot be loaded into this process")
    extension = mode == "extension" and python_headers() is not None
    library = _load_extension(request) if extension else _load_shared(request)
    note_load()
    return library


def build_object(request: BuildRequest, out: Path) -> Path:
    """Compile to the object file `out`."""
    return _copy(_object(request), out)


def build_shared(request: BuildRequest, out: Path) -> Path:
    """Compile to the shared library `out`."""
    _, entry = _shared(request)
    return _copy(entry[_shared_name(request)], out)


def assembly(request: BuildRequest, *, marked: bool = False) -> str:
    """The assembly text that the compiler makes of a request; marked: with the lines of C and
    the notes that `tdsl.runtime.assembly` reads."""
    compiler = find_compiler(request)
    name = f"{request.name}.s"
    marks = FLAGS if marked else ()
    command = [*compile_command(request, compiler), *marks, "-S", f"{request.name}.c", "-o", name]
    entry = artifact(request, compiler, "assembly", (name,), lambda _: [[command]], marks)
    return entry[name].read_text(errors="replace")


def artifact(
    request: BuildRequest,
    compiler: Compiler,
    kind: str,
    names: tuple[str, ...],
    steps: Callable[[Path], list[list[list[str]]]],
    extra: tuple[str, ...] = (),
) -> CacheEntry:
    """The files `names`, from the cache or built by `steps`.

    `steps(folder)` may write further sources to the folder, where NAME.c and NAME.h already are,
    and returns groups of commands: those of a group run side by side. `extra` are further texts
    that the result depends on.
    """
    key = request_key(request, compiler, kind, extra)

    def build(cache: Cache) -> CacheEntry:
        found = cache.find(key)
        if found is not None:
            return found
        limit = max(request.time_limit, compiler.patience)
        with cache.workspace() as folder:
            (folder / f"{request.name}.c").write_text(request.c_source)
            (folder / f"{request.name}.h").write_text(request.header)
            for commands in steps(folder):
                compile_all(commands, folder, time_limit=limit)
            return cache.publish(key, folder, names)

    try:
        return build(default_cache())
    except OSError as error:
        if error.errno not in CACHE_FAULTS:
            raise
        return build(substitute_cache(error))
    except ToolchainError as error:
        # The compiler was the first to notice that the disk is full.
        if "No space left on device" not in str(error):
            raise
        return build(substitute_cache(error))


def request_key(
    request: BuildRequest, compiler: Compiler, kind: str, extra: tuple[str, ...] = ()
) -> str:
    """What an artifact depends on, as one digest."""
    flags = _flags(request, compiler)
    # "native" means another thing on another machine that shares the folder.
    native = (_processor(),) if any("native" in flag for flag in flags) else ()
    return digest(
        f"tdsl {FORMAT}",
        kind,
        request.name,
        request.c_source,
        request.header,
        request.cdef,
        "\0".join(flags),
        "\0".join(request.libraries),
        "openmp" if request.openmp else "serial",
        "\0".join(sorted(request.features)),
        request.machine or "host",
        "\0".join(compiler.command),
        compiler.path,
        compiler.version,
        *native,
        *extra,
    )


def _processor() -> str:
    """What tells this processor from others."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return sysconfig.get_platform()
    words = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(words)}))


def compile_command(request: BuildRequest, compiler: Compiler) -> list[str]:
    """The compiler with the request's flags."""
    flags = _flags(request, compiler)
    return [*compiler.command, *flags, *(["-fopenmp"] if request.openmp else [])]


def _flags(request: BuildRequest, compiler: Compiler) -> tuple[str, ...]:
    """Those that the compiler knows: clang moves invariants otherwise than gcc."""
    if not compiler.is_clang:
        return request.flags
    return tuple(flag for flag in request.flags if flag != "-fno-move-loop-invariants")


def link_flags(request: BuildRequest) -> list[str]:
    """What follows the objects on a linker's command line."""
    openmp = ["-fopenmp"] if request.openmp else []
    return [*openmp, *(f"-l{name}" for name in request.libraries)]


def _object(request: BuildRequest) -> Path:
    compiler = find_compiler(request)
    name = f"{request.name}.o"
    command = [*compile_command(request, compiler), "-fPIC", "-c", f"{request.name}.c", "-o", name]
    return artifact(request, compiler, "object", (name,), lambda _: [[command]])[name]


# ---------------------------------------------------------------- shared library, ABI mode


def _shared_name(request: BuildRequest) -> str:
    return f"lib{request.name}.so"


def _shared(request: BuildRequest) -> tuple[Compiler, CacheEntry]:
    compiler = find_compiler(request)
    name = _shared_name(request)
    command = [
        *compile_command(request, compiler),
        *("-fPIC", "-shared", f"{request.name}.c", "-o", name),
        *link_flags(request),
    ]
    return compiler, artifact(request, compiler, "shared", (name,), lambda _: [[command]])


# Closing a library while the threads of its OpenMP runtime live ends the process, so that
# libraries that use it stay open.
_kept: list[Any] = []


def _load_shared(request: BuildRequest) -> Library:
    compiler, entry = _shared(request)
    path = entry[_shared_name(request)]
    ffi = cffi.FFI()
    ffi.cdef(request.cdef)
    try:
        lib = ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_LOCAL)
    except OSError as error:
        raise _cannot_load(path, error) from error
    if request.openmp:
        _kept.append(lib)
    return Library(ffi, lib, path, request, compiler, lib)


# ---------------------------------------------------------------- extension, API mode


def python_headers() -> Path | None:
    """The folder of Python.h, if it is installed."""
    folder = Path(sysconfig.get_paths()["include"])
    return folder if (folder / "Python.h").is_file() else None


def _load_extension(request: BuildRequest) -> Library:
    compiler = find_compiler(request)
    abi = (
        cffi.__version__,
        sysconfig.get_config_var("SOABI") or sys.version,
        str(python_headers()),
        glue.source(request.cdef),
    )
    # A module's name is its identity for the interpreter: one name, one content.
    module = f"_tdsl_{request_key(request, compiler, 'extension', abi)[:32]}"
    name = f"{module}.so"

    def steps(folder: Path) -> list[list[list[str]]]:
        ffi = cffi.FFI()
        ffi.cdef(glue.declarations(request.cdef))
        ffi.set_source(module, glue.source(request.cdef), compiler_verbose=0)
        ffi.emit_c_code(str(folder / f"{module}.c"))
        kernel = [*compile_command(request, compiler), "-fPIC", "-c", f"{request.name}.c"]
        wrapper = [*compiler.command, "-O1", "-w", "-fPIC", "-DNDEBUG", "-c", f"{module}.c"]
        link = [*compiler.command, *extension_flags(), f"{request.name}.o", f"{module}.o"]
        return [
            [
                [*kernel, "-o", f"{request.name}.o"],
                [*wrapper, f"-I{python_headers()}", "-o", f"{module}.o"],
            ],
            [[*link, "-o", name, *link_flags(request)]],
        ]

    entry = artifact(request, compiler, "extension", (name,), steps, abi)
    loaded = import_extension(module, entry[name])
    lib = glue.named(loaded.lib, request.cdef)
    return Library(loaded.ffi, lib, entry[name], request, compiler, loaded.lib, glue.PREFIX)


def extension_flags() -> list[str]:
    """How a linker makes an extension of Python, whose functions are its own, whatever the
    process has of their names."""
    if sys.platform == "darwin":
        return ["-bundle", "-undefined", "dynamic_lookup"]
    return ["-shared", "-Wl,-Bsymbolic"]


def import_extension(module: str, path: Path) -> Any:
    """Load an extension from where it is, by its name."""
    loader = importlib.machinery.ExtensionFileLoader(module, str(path))
    spec = importlib.util.spec_from_file_location(module, path, loader=loader)
    assert spec is not None
    try:
        loaded = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
    except ImportError as error:
        raise _cannot_load(path, error) from error
    return loaded


def _cannot_load(path: Path, error: Exception) -> Error:
    return ToolchainError.at(
        None,
        f"the compiled module cannot be loaded: {error}",
        help=f"the file system may forbid execution (noexec): set TDSL_CACHE_DIR elsewhere "
        f"than {path.parent}",
    )


def _copy(source: Path, out: Path) -> Path:
    write_atomically(out, source.read_bytes(), executable=os.access(source, os.X_OK))
    return out
