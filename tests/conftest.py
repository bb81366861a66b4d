"""What all tests share: places, the neon marker, and how hypothesis runs."""

import os
import shutil
from pathlib import Path

# One thread for NumPy's BLAS: two pytest workers share the processor. It counts only when it is
# set before NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# Compiling C within an example takes as long as it takes, and a failure must come again.
settings.register_profile(
    "tdsl",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tdsl")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of notes and cases beside the checkout; skips where there is none."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared is not beside this checkout")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update` writes what golden tests find into their .expect files; read the difference."""
    parser.addoption("--update", action="store_true", help="rewrite the .expect files of tests")


def missing_neon_tools() -> list[str]:
    """The programs that tests marked neon need and that are not installed."""
    return [t for t in ("aarch64-linux-gnu-gcc", "qemu-aarch64") if shutil.which(t) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked neon where the tools are missing, unless TDSL_TEST_NEON=require."""
    missing = missing_neon_tools()
    if not missing or os.environ.get("TDSL_TEST_NEON") == "require":
        return
    skip = pytest.mark.skip(reason=f"not installed: {', '.join(missing)}")
    for item in items:
        if item.get_closest_marker("neon") is not None:
            item.add_marker(skip)
