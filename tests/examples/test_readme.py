"""The README's promises to a newcomer."""

import re
from pathlib import Path

import pytest

from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.plugin_manager import plugin_manager

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.skipif(
    not plugin_manager().get("asset", "steganogan").is_present,
    reason="the watermark is not here: coverlock fetch steganogan",
)
def test_the_first_snippet_prints_what_it_says(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    generate_key(tmp_path / "key.json")
    monkeypatch.chdir(tmp_path)
    snippet = re.findall(r"```python\n(.*?)```", README, re.S)[0]
    exec(compile(snippet, "README.md", "exec"), {})
    promised = re.findall(r"^# (.*)$", snippet, re.M)
    assert promised
    assert capsys.readouterr().out.splitlines() == promised


def test_files_that_the_readme_names_exist():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    scripts = re.findall(r"python (\S+\.py)", README)
    assert scripts
    assert [name for name in links + scripts if not (ROOT / name).exists()] == []
