"""The service's image installs what was locked, and that is what the package asks for."""

import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11
pytest.importorskip("packaging")
from packaging.requirements import Requirement  # noqa: E402
from packaging.utils import canonicalize_name  # noqa: E402

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "docker" / "service.lock"
EXTRAS = ("cpu", "redis", "serve", "sign")


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [
        line for extra in EXTRAS for line in project["optional-dependencies"][extra]
    ]
    return [Requirement(line) for line in lines]


def locked() -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", LOCK.read_text(), re.M):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return versions


@pytest.mark.parametrize("requirement", wanted(), ids=str)
def test_a_requirement_is_locked_at_a_version_that_it_allows(requirement):
    versions = locked()[canonicalize_name(requirement.name)]
    assert all(version in requirement.specifier for version in versions)


def test_every_version_has_digests_and_no_place_to_fetch_from():
    entries = [entry for entry in re.split(r"\n(?=\S)", LOCK.read_text()) if "==" in entry[:80]]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries if not entry.startswith("#"))
    assert "://" not in LOCK.read_text()
