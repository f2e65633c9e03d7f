"""The tutorial's commands and code, run in order as a reader would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from coverlock_sdk.plugin_manager import plugin_manager

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.M | re.S)
LIMIT = 600


FOLDERS = os.pathsep.join(str(ROOT / name) for name in ("", "plugins", "export", "bench", "web"))

needs_files = pytest.mark.skipif(
    not all(plugin_manager().get("asset", name).is_present for name in ("steganogan", "photos")),
    reason="the watermark or the photos are not here: coverlock fetch steganogan photos",
)


@pytest.mark.slow
@needs_files
def test_the_tutorial_works_from_top_to_bottom(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())
    assert {language for language, _ in blocks} == {"python", "bash"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": FOLDERS, "PATH": path}
    python = ""
    for language, text in blocks:
        if language == "python":
            python += text  # later blocks use the names of earlier ones
            command = [sys.executable, "-c", python]
        else:
            command = ["bash", "-euc", text]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert (tmp_path / "audit" / "report.html").exists()


def test_every_page_of_the_docs_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in map(Path.as_posix, pages) if page not in navigation] == []


@pytest.mark.slow
@needs_files
def test_the_notebook_runs(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", FOLDERS)
    notebook = nbformat.read(ROOT / "examples" / "forge_and_lock.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=LIMIT, cwd=tmp_path).execute()
