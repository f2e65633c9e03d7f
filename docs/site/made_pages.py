"""Pages that `make docs` makes and the site contains: the verify page, and a sample audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

MADE = Path("build/made")
PAGES = ("try.html", "sample-audit.html")


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Add the pages to those of ``docs/``, so that links to them are checked like all others."""
    for name in PAGES:
        page = (MADE / name).resolve()
        if not page.is_file():
            raise PluginError(f"{MADE / name} is missing: build the site with 'make docs'")
        files.append(File.generated(config, name, abs_src_path=str(page)))
    return files
