"""The cache of what was compiled, addressed by content.

    $TDSL_CACHE_DIR, or $XDG_CACHE_HOME/tdsl, or ~/.cache/tdsl     private to the user
        entries/<2 digits>/<key>/      complete, never changed: files and manifest.json
        work/<process>-<random>/       being built

An entry is built in work/ and renamed into place, so that two processes that build the same thing
both succeed and none sees half of it. The manifest holds the digest of every file; an entry that
does not match (torn by a crash, changed) is taken away and built again.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FORMAT = 1  # of the manifest and of the folders; part of every key
MANIFEST = "manifest.json"
STALE_SECONDS = 24 * 3600.0


class CacheWarning(UserWarning):
    """The cache cannot be used; what is built lives as long as the process."""


@dataclass(frozen=True)
class CacheEntry:
    """A complete, verified entry."""

    folder: Path
    files: Mapping[str, str]  # name -> sha256

    def __getitem__(self, name: str) -> Path:
        if name not in self.files:
            raise KeyError(name)
        return self.folder / name


def digest(*parts: str | bytes) -> str:
    """The key of a list of texts; their lengths count, so that no two lists look alike."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


class Cache:
    """A folder of entries; makes it, and refuses one that others could write to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._entries = root / "entries"
        self._work = root / "work"
        _make_private(root)
        for folder in (self._entries, self._work):
            folder.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._work):
            pass  # raises now where nothing can be written, and not after a compilation
        self._clean()

    def find(self, key: str) -> CacheEntry | None:
        """The entry of `key` if it is whole; one that is not is removed."""
        folder = self._folder(key)
        if not folder.exists():
            return None
        files = _verified(folder)
        if files is None:
            self._discard(folder)
            return None
        return CacheEntry(folder, files)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A new folder to build in, removed at the end unless it was published."""
        folder = self._work / f"{os.getpid()}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, key: str, workspace: Path, names: tuple[str, ...]) -> CacheEntry:
        """Make the named files of `workspace` the entry of `key`."""
        staged = workspace / "entry"
        staged.mkdir(mode=0o700)
        for name in names:
            os.replace(workspace / name, staged / name)
        files = {name: _file_digest(staged / name) for name in names}
        (staged / MANIFEST).write_text(json.dumps({"format": FORMAT, "files": files}, indent=1))
        target = self._folder(key)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        for _ in range(8):
            try:
                os.rename(staged, target)
                return CacheEntry(target, files)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
            # Another process was first. Its files serve as well, if they are whole.
            found = self.find(key)
            if found is not None:
                return found
        raise OSError(errno.EBUSY, "an entry of the cache keeps changing", str(target))

    def _folder(self, key: str) -> Path:
        return self._entries / key[:2] / key

    def _discard(self, folder: Path) -> None:
        """Take an entry away by renaming it, so that nobody finds half of it in between."""
        away = self._work / f"bad-{os.getpid()}-{secrets.token_hex(8)}"
        with contextlib.suppress(OSError):
            os.rename(folder, away)
            shutil.rmtree(away, ignore_errors=True)

    def _clean(self) -> None:
        """Remove what processes left behind that were killed while they built."""
        old = time.time() - STALE_SECONDS
        with contextlib.suppress(OSError), os.scandir(self._work) as found:
            for item in found:
                with contextlib.suppress(OSError):
                    if item.stat(follow_symlinks=False).st_mtime < old:
                        shutil.rmtree(item.path, ignore_errors=True)


def _make_private(root: Path) -> None:
    """Make the folder with mode 0700, or see that it is ours and that only we write to it."""
    try:
        root.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not root.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(root)) from None
    found = root.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user", str(root))
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EPERM, "other users may write to it", str(root))


def _verified(folder: Path) -> dict[str, str] | None:
    """The files of an entry with their digests, None where something does not match."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            return None
        files = {str(name): str(value) for name, value in manifest["files"].items()}
        whole = all(
            os.path.basename(name) == name and _file_digest(folder / name) == value
            for name, value in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return files if files and whole else None


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---------------------------------------------------------------- the cache of this process


def cache_folder() -> Path:
    """Where the environment says that the cache is."""
    own = os.environ.get("TDSL_CACHE_DIR")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    # The XDG standard has relative paths ignored.
    base = Path(shared) if shared and os.path.isabs(shared) else Path("~/.cache").expanduser()
    return base.absolute() / "tdsl"


_opened: dict[Path, Cache] = {}
_substitutes: dict[int, Cache] = {}  # process id -> its temporary cache


def default_cache() -> Cache:
    """The user's cache, or a temporary one, with a CacheWarning, where that cannot be used."""
    try:
        root = cache_folder()
        if root not in _opened or not root.is_dir():
            _opened[root] = Cache(root)
        return _opened[root]
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        return substitute_cache(error)


def substitute_cache(reason: Exception) -> Cache:
    """A cache in a temporary folder that goes with the process."""
    pid = os.getpid()
    if pid not in _substitutes:
        root = Path(tempfile.mkdtemp(prefix="tdsl-"))
        _substitutes[pid] = Cache(root)
        atexit.register(_remove_substitute, pid, root)
        warnings.warn(
            f"the cache of compiled kernels cannot be used: {reason}. Kernels are compiled again "
            f"in every process; TDSL_CACHE_DIR can name another folder.",
            CacheWarning,
            stacklevel=2,
        )
    return _substitutes[pid]


def _remove_substitute(pid: int, root: Path) -> None:
    """Only the process that made the folder removes it, not one forked from it."""
    if pid == os.getpid():
        shutil.rmtree(root, ignore_errors=True)
