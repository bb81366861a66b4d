""".ci/run with stand-ins for every program: what it installs, and then `make test`."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"
PRESENT = ["python3", "gcc", "make", "aarch64-linux-gnu-gcc", "qemu-aarch64"]

if shutil.which("bash") is None:
    pytest.skip("bash is not installed", allow_module_level=True)


def stand_in(folder: Path, name: str, text: str = "exit 0") -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def machine(folder: Path, missing: tuple[str, ...] = (), user: int = 0) -> Path:
    """A folder of programs in which `missing` appear once apt-get installs something."""
    for name in ("bash", "cat", "chmod", "dirname", "head", "sh"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in PRESENT:
        if name not in missing:
            stand_in(folder, name, f'echo "{name} $*" >> {folder}/log')
    stand_in(folder, "id", f"echo {user}")
    appear = "".join(
        f"printf '#!/bin/sh\\n' > {folder}/{name}; chmod +x {folder}/{name}; " for name in missing
    )
    stand_in(
        folder,
        "apt-get",
        f'echo "apt-get $*" >> {folder}/log; case "$1" in install) {appear};; esac',
    )
    return folder


def run(folder: Path) -> tuple[int, str, list[str]]:
    """Exit status, output, and the calls that matter."""
    done = subprocess.run(
        [str(folder / "bash"), str(SCRIPT)],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
    )
    log = (folder / "log").read_text().splitlines()
    calls = [line for line in log if line.startswith(("apt-get", "make test"))]
    return done.returncode, done.stdout + done.stderr, calls


def test_nothing_is_fetched_where_all_is_there(tmp_path: Path) -> None:
    status, output, calls = run(machine(tmp_path))
    assert (status, calls) == (0, ["make test"]), output


def test_what_is_missing_is_installed_after_an_update(tmp_path: Path) -> None:
    status, output, calls = run(machine(tmp_path, ("aarch64-linux-gnu-gcc", "qemu-aarch64")))
    wanted = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
    install = f"apt-get install -y --no-install-recommends {wanted}"
    assert (status, calls) == (0, ["apt-get update", install, "make test"]), output


def test_without_root_nothing_is_installed_and_the_command_is_named(tmp_path: Path) -> None:
    status, output, calls = run(machine(tmp_path, ("qemu-aarch64",), user=1000))
    assert (status, calls) == (1, [])
    assert "sudo apt-get install qemu-user" in output


def test_a_failing_make_fails_the_run(tmp_path: Path) -> None:
    folder = machine(tmp_path)
    stand_in(folder, "make", f'echo "make $*" >> {folder}/log; exit 2')
    assert run(folder)[0] == 2
