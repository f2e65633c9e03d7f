"""Result files: every figure comes with what you need to reproduce it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from coverlock_sdk.images.codecs import write_file

SCHEMA = 1
PACKAGES = (
    "coverlock-sdk",
    "numpy",
    "pillow",
    "torch",
    "onnxruntime",
    "openvino",
    "imagehash",
    "pdqhash",
    "scipy",
    "scikit-image",
)
"""Packages whose versions may matter for a figure."""

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("coverlock_sdk", "plugins", "export", "bench", "training", "web")
"""The folders of a checkout that hold code."""


def write_result(path: Path, command: str, config: dict[str, Any], figures: Any) -> None:
    """Write ``figures`` with the command, configuration, versions and revision behind them."""
    write_document(path, result_document(command, config, figures))


def result_document(command: str, config: dict[str, Any], figures: Any) -> dict[str, Any]:
    """``figures`` with the command, configuration, versions, revision and code behind them."""
    return {
        "schema": SCHEMA,
        "command": command,
        "config": config,
        "made": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "revision": revision(),
        "code": code(),
        "figures": figures,
    }


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a result file completely or not at all, without the name of the home folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2).replace(f"{Path.home()}/", "~/")
    write_file(path, f"{text}\n".encode())


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def revision() -> str | None:
    """The git revision of the code, if it runs from a checkout.

    It ends in "-dirty" if tracked files have uncommitted changes, other than results.
    """
    named = _git("rev-parse", "--short=12", "HEAD")
    if named is None:
        return None
    changed = _git("diff", "--name-only", "HEAD", "--", ":/", ":(top,exclude)bench/results")
    return f"{named}-dirty" if changed else named


def code() -> list[str]:
    """The files of the checkout that this process has imported; none outside a checkout."""
    files = [getattr(module, "__file__", None) for module in tuple(sys.modules.values())]
    inside = [Path(file) for file in files if file and Path(file).is_relative_to(CHECKOUT)]
    own = {file.relative_to(CHECKOUT) for file in inside}
    return sorted(file.as_posix() for file in own if file.parts[0] in FOLDERS)


def _git(*words: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *words],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
