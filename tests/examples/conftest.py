"""A cache of the tests' own, so that they neither read nor fill the user's."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "tdsl"


@pytest.fixture(autouse=True)
def own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TDSL_CACHE_DIR", str(session_cache))
    monkeypatch.delenv("CC", raising=False)
    yield session_cache


@pytest.fixture(autouse=True, scope="session")
def compiler() -> None:
    if not any(shutil.which(name) for name in ("gcc", "clang", "cc")):
        pytest.skip("no C compiler is installed")
