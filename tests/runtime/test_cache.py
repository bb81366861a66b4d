"""The cache survives other processes, torn files, and folders that cannot be used."""

import errno
import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdsl.diagnostics import ToolchainError
from tdsl.runtime import cache as cache_module
from tdsl.runtime.build import artifact, load, request_key
from tdsl.runtime.cache import Cache, CacheWarning, cache_folder, default_cache, digest
from tdsl.runtime.toolchain import find_compiler
from tests.runtime.support import AXPY, AXPY_ENTRY, AXPY_SHAPES, ROOT, compiled, run_python


def entries(root: Path) -> list[Path]:
    return sorted(p.parent for p in root.glob("entries/*/*/manifest.json"))


def works() -> bool:
    y = compiled(AXPY, AXPY_ENTRY, AXPY_SHAPES)(a=2.0, x=np.ones(3, np.float32))
    return bool((y == 3).all())


@pytest.fixture
def no_substitute(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the temporary cache of this process, and remove the one that the test makes."""
    made: dict[int, Cache] = {}
    monkeypatch.setattr(cache_module, "_substitutes", made)
    yield
    for substitute in made.values():
        shutil.rmtree(substitute.root, ignore_errors=True)


# ---------------------------------------------------------------- what is kept


def test_a_second_build_is_found(new_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert works()
    (folder,) = entries(new_cache)
    before = folder.stat().st_mtime_ns
    monkeypatch.setattr("tdsl.runtime.build.compile_all", None)  # compiling again would fail
    assert works()
    assert [f.stat().st_mtime_ns for f in entries(new_cache)] == [before]
    assert list((new_cache / "work").iterdir()) == []


def test_the_folders_are_private(new_cache: Path) -> None:
    assert works()
    assert stat.S_IMODE(new_cache.stat().st_mode) == 0o700
    for folder in new_cache.rglob("*"):
        if folder.is_dir():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_the_key_holds_everything_that_the_result_depends_on() -> None:
    compiler = find_compiler(AXPY)
    requests = [
        AXPY,
        replace(AXPY, name="axpz"),
        replace(AXPY, c_source=AXPY.c_source + "\n"),
        replace(AXPY, header=AXPY.header + "\n"),
        replace(AXPY, cdef=AXPY.cdef + "\n"),
        replace(AXPY, flags=("-O2", "-ffp-contract=off")),
        replace(AXPY, flags=("-O1-ffp-contract=off",)),
        replace(AXPY, openmp=True),
        replace(AXPY, features=("avx2",)),
        replace(AXPY, features=("avx2", "fma")),
        replace(AXPY, machine="aarch64"),
        replace(AXPY, libraries=()),
    ]
    keys = [request_key(request, compiler, "shared") for request in requests]
    keys += [
        request_key(AXPY, compiler, "object"),
        request_key(AXPY, replace(compiler, version="13"), "shared"),
        request_key(AXPY, replace(compiler, path="/elsewhere/gcc"), "shared"),
        request_key(AXPY, compiler, "shared", ("cffi 9",)),
    ]
    assert len(set(keys)) == len(keys)
    turned = [replace(AXPY, features=f) for f in (("a", "b"), ("b", "a"))]
    assert len({request_key(request, compiler, "shared") for request in turned}) == 1


def test_native_is_spelt_out_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler(AXPY)
    native = replace(AXPY, flags=("-O1", "-march=native"))
    before = request_key(native, compiler, "shared"), request_key(AXPY, compiler, "shared")
    monkeypatch.setattr("tdsl.runtime.build._processor", lambda: "another one")
    after = request_key(native, compiler, "shared"), request_key(AXPY, compiler, "shared")
    assert before[0] != after[0] and before[1] == after[1]


def test_no_two_lists_of_texts_look_alike() -> None:
    lists = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ()]
    assert len({digest(*parts) for parts in lists}) == len(lists)


# ---------------------------------------------------------------- torn and changed files


@pytest.mark.parametrize("damage", ["torn", "empty", "changed", "gone", "manifest", "no manifest"])
def test_an_entry_that_does_not_match_is_built_again(new_cache: Path, damage: str) -> None:
    # Looked at through the cache alone: a library that is loaded must not be cut short.
    compiler = find_compiler(AXPY)

    def build() -> Path:
        steps = [[[*compiler.command, "-c", "axpy.c", "-o", "axpy.o"]]]
        return artifact(AXPY, compiler, "object", ("axpy.o",), lambda _: steps)["axpy.o"]

    path = build()
    whole = path.read_bytes()
    manifest = path.parent / "manifest.json"
    match damage:
        case "torn":
            path.write_bytes(whole[: len(whole) // 2])
        case "empty":
            path.write_bytes(b"")
        case "changed":
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        case "gone":
            path.unlink()
        case "manifest":
            manifest.write_text(manifest.read_text()[:-20])
        case _:
            manifest.unlink()
    assert default_cache().find(request_key(AXPY, compiler, "object")) is None
    assert build() == path
    assert path.read_bytes() == whole
    assert list((new_cache / "work").iterdir()) == []


def test_a_torn_library_is_not_loaded(new_cache: Path) -> None:
    code = (
        "from tests.runtime.test_cache import works; assert works()\n"
        "from tests.runtime.support import AXPY\n"
        "from tdsl.runtime.build import load\n"
        "print(load(AXPY).path)"
    )

    def run() -> Path:
        return Path(run_python(code).stdout.strip())

    path = run()
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert run() == path
    assert len(path.read_bytes()) == len(whole)


@pytest.mark.parametrize("manifest", ["[]", "{}", '{"format": 0, "files": {}}', "nonsense", "null"])
def test_any_manifest_is_survived(new_cache: Path, manifest: str) -> None:
    cache = default_cache()
    key = digest("something")
    with cache.workspace() as folder:
        (folder / "a").write_text("a")
        cache.publish(key, folder, ("a",))
    found = cache.find(key)
    assert found is not None and found["a"].read_text() == "a"
    with pytest.raises(KeyError):
        found["b"]
    (found.folder / "manifest.json").write_text(manifest)
    assert cache.find(key) is None
    assert not found.folder.exists()


def test_a_manifest_may_not_point_elsewhere(new_cache: Path, tmp_path: Path) -> None:
    cache = default_cache()
    key = digest("something")
    with cache.workspace() as folder:
        (folder / "a").write_text("a")
        entry = cache.publish(key, folder, ("a",))
    (new_cache / "evil").write_text("a")
    files = {"../../../evil": entry.files["a"]}
    (entry.folder / "manifest.json").write_text(json.dumps({"format": 1, "files": files}))
    assert cache.find(key) is None


# ---------------------------------------------------------------- several processes


def _build_when_told(barrier: Any, queue: Any) -> None:
    barrier.wait()
    queue.put((works(), str(load(AXPY).path)))


def test_eight_processes_build_the_same(new_cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(8), context.Queue()
    processes = [context.Process(target=_build_when_told, args=(barrier, queue)) for _ in range(8)]
    for process in processes:
        process.start()
    results = [queue.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert all(right for right, _ in results)
    assert len({path for _, path in results}) == 1
    assert len(entries(new_cache)) == 1
    assert list((new_cache / "work").iterdir()) == []


def test_the_second_to_publish_takes_what_is_there(new_cache: Path) -> None:
    cache, key = default_cache(), digest("something")
    with cache.workspace() as one, cache.workspace() as two:
        for folder in (one, two):
            (folder / "a").write_text(folder.name)
        first = cache.publish(key, one, ("a",))
        second = cache.publish(key, two, ("a",))
    assert first == second and second["a"].read_text() == one.name


def test_the_second_to_publish_replaces_what_is_torn(new_cache: Path) -> None:
    cache, key = default_cache(), digest("something")
    with cache.workspace() as one, cache.workspace() as two:
        for folder in (one, two):
            (folder / "a").write_text(folder.name)
        cache.publish(key, one, ("a",))["a"].write_text("torn")
        second = cache.publish(key, two, ("a",))
    assert second["a"].read_text() == two.name


def test_what_killed_processes_left_is_removed_when_old(new_cache: Path) -> None:
    Cache(new_cache)
    old, new = new_cache / "work" / "1-old", new_cache / "work" / "1-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "half.o").write_text("half")
    past = time.time() - 2 * cache_module.STALE_SECONDS
    os.utime(old, (past, past))
    Cache(new_cache)
    assert not old.exists() and new.exists()


# ---------------------------------------------------------------- folders that cannot be used


def unusable(kind: str, tmp_path: Path) -> Path:
    """A folder for the cache that cannot be one."""
    folder = tmp_path / "cache"
    match kind:
        case "below a file":
            (tmp_path / "file").write_text("")
            return tmp_path / "file" / "cache"
        case "a file":
            folder.write_text("")
        case "others write":
            folder.mkdir()
            folder.chmod(0o777)
        case "another owner":
            folder.mkdir()
            if os.geteuid() != 0:
                pytest.skip("only root can give a folder away")
            os.chown(folder, 12345, 12345)
        case "kernel's":
            return Path("/proc/tdsl")
        case "not writable":
            folder.mkdir()
            folder.chmod(0o500)
            if os.access(folder, os.W_OK):
                pytest.skip("this user may write everywhere")
    return folder


@pytest.mark.parametrize(
    "kind",
    ["below a file", "a file", "others write", "another owner", "kernel's", "not writable"],
)
def test_a_folder_that_cannot_be_used_is_a_warning(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_substitute: None
) -> None:
    folder = unusable(kind, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("TDSL_CACHE_DIR", str(folder))
    with pytest.warns(CacheWarning, match="TDSL_CACHE_DIR can name another folder"):
        assert works()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert works()  # told once
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_full_disk_is_a_warning(
    error: int, new_cache: Path, monkeypatch: pytest.MonkeyPatch, no_substitute: None
) -> None:
    publish = Cache.publish

    def full(self: Cache, key: str, workspace: Path, names: tuple[str, ...]) -> object:
        if self.root == new_cache:
            raise OSError(error, os.strerror(error))
        return publish(self, key, workspace, names)

    monkeypatch.setattr(Cache, "publish", full)
    with pytest.warns(CacheWarning, match=os.strerror(error)):
        assert works()
    assert entries(new_cache) == [] and list((new_cache / "work").iterdir()) == []


def test_a_compiler_that_finds_the_disk_full(
    new_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_substitute: None
) -> None:
    real = find_compiler(AXPY).path
    script = tmp_path / "cc"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then exec {real} --version; fi\n'
        f'case "$PWD" in {new_cache}*) echo "x.s: No space left on device"; exit 1;; esac\n'
        f'exec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    with pytest.warns(CacheWarning, match="No space left on device"):
        assert works()


def test_a_real_file_system_that_is_full(tmp_path: Path) -> None:
    """On a file system of 64 KiB, in a mount namespace of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    code = "from tests.runtime.test_cache import works; assert works(); print('works')"
    script = (
        f"mount -t tmpfs -o size=64k,mode=0700 tmpfs {disk} || exit 77\n"
        f'TDSL_CACHE_DIR={disk}/tdsl exec {sys.executable} -c "{code}"'
    )
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.stdout == "works\n", done.stderr
    assert "CacheWarning" in done.stderr and "Traceback" not in done.stderr


def test_an_error_of_the_program_is_not_taken_for_the_disk(new_cache: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ToolchainError, match="failed with status 1"):
            load(replace(AXPY, c_source="not C"))
    assert entries(new_cache) == [] and list((new_cache / "work").iterdir()) == []


# ---------------------------------------------------------------- where it is


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/someone")
    monkeypatch.setenv("TDSL_CACHE_DIR", "/data/kernels")
    assert cache_folder() == Path("/data/kernels")
    monkeypatch.delenv("TDSL_CACHE_DIR")
    assert cache_folder() == Path("/var/someone/tdsl")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/someone/.cache/tdsl")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path("/home/someone/.cache/tdsl")
    monkeypatch.setenv("TDSL_CACHE_DIR", "here")
    monkeypatch.chdir(tmp_path)
    assert cache_folder() == tmp_path / "here"


def test_a_temporary_cache_goes_with_its_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = (
        "import os, sys\n"
        "from tests.runtime.test_cache import works\n"
        "from tdsl.runtime.cache import default_cache\n"
        "assert works()\n"
        "root = default_cache().root\n"
        "if os.fork() == 0:\n"
        "    sys.exit()\n"
        "os.wait()\n"
        "assert root.is_dir(), 'the child removed it'\n"
        "print(root)"
    )
    done = run_python(code, TDSL_CACHE_DIR=str(tmp_path / "file" / "x"))
    assert "CacheWarning" in done.stderr and "Traceback" not in done.stderr
    assert not Path(done.stdout.strip()).exists()
