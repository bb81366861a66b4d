"""The documents: links lead somewhere, and ARCHITECTURE.md knows every package."""

import re
from hashlib import sha256
from pathlib import Path
from typing import get_args

import pytest

from tdsl.schedule.directives import Directive
from tests.project.modules import FOLDERS, source_files

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "benchmarks", "examples", "examples/images")
    for page in (ROOT / folder).glob("*.md")
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)  # `sum[i](x[i])` is no link


def test_the_documents_are_found() -> None:
    assert {"ARCHITECTURE.md", "CHANGELOG.md", "README.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    path = ROOT / page
    text = CODE.sub("", path.read_text("utf-8"))
    links = [link.split("#")[0] for link in LINK.findall(text)]
    local = [link for link in links if link and "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_architecture_names_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = {
        file.parent.relative_to(ROOT).as_posix() + "/"
        for folder in FOLDERS.values()
        for file in source_files(ROOT / folder)
    }
    assert sorted(folder for folder in folders if f"`{folder}`" not in text) == []


def test_the_page_on_schedules_lists_every_directive() -> None:
    text = (ROOT / "docs" / "schedules.md").read_text("utf-8")
    contents, _, body = text.partition("\n## ")
    names = [directive.__name__.lower() for directive in get_args(Directive)]
    assert [name for name in names if f"`{name}`" not in contents] == []
    written = re.compile(r"^ +(?:on [\w, ]+\{ *)?(" + "|".join(names) + r")\b", re.MULTILINE)
    shown = {match[1] for block in CODE.findall(body) for match in written.finditer(block)}
    shown |= set(re.findall(r"schedule [^\n]*\{ *(\w+) ", body))
    assert sorted(set(names) - shown) == []


def test_each_picture_is_named_and_is_the_one_described() -> None:
    folder = ROOT / "examples" / "images"
    text = (folder / "README.md").read_text("utf-8")
    pictures = [p for p in folder.iterdir() if p.suffix in {".png", ".jpg", ".npy"}]
    assert pictures
    assert [p.name for p in pictures if f"`{p.name}`" not in text] == []
    assert [p.name for p in pictures if sha256(p.read_bytes()).hexdigest() not in text] == []
