"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: str | bytes, *, executable: bool = False) -> None:
    """Write `path` at once: readers see the old file or the new one, a crash leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = data.encode() if isinstance(data, str) else data
    temporary = _beside(path, path.parent)
    # Through os.open, so that the user's umask decides the mode.
    mode = 0o777 if executable else 0o666
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def check_writable(path: Path) -> None:
    """Raise the OSError that `write_atomically` would meet, as far as that is known before."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    folder = next(f for f in path.absolute().parents if f.exists())
    temporary = _beside(path, folder)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    temporary.unlink()


def _beside(path: Path, folder: Path) -> Path:
    return folder / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}"
