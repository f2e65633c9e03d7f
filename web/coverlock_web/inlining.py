"""Parts of pages that stand alone: modules and styles inside the file that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parent / "page"
VIEWER = ("elements.js", "picture.js", "residual.js", "viewer.js")
"""The modules of the slider and the magnified residual, which other pages may show too."""


def source(name: str) -> str:
    """The text of one of the page's files."""
    return (PAGE / name).read_text()


def inlined(modules: Mapping[str, str]) -> str:
    """Elements that hold modules, each after those that it imports; ``boot.js`` runs the last."""
    return "\n".join(
        f'<script type="text/plain" data-module="{name}">{text}</script>'
        for name, text in modules.items()
    )
