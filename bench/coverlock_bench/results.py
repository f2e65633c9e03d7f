"""Result files: every figure is kept with what is needed to make it again."""

from __future__ import annotations

import json
import platform
import subprocess
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
"""Whose versions may matter for a figure."""


def write_result(path: Path, command: str, config: dict[str, Any], figures: Any) -> None:
    """Write ``figures`` with the command, configuration, versions and revision behind them."""
    write_document(path, result_document(command, config, figures))


def result_document(command: str, config: dict[str, Any], figures: Any) -> dict[str, Any]:
    """``figures`` with the command, configuration, versions and revision behind them."""
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
        "figures": figures,
    }


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Write a result file, whole or not at all; whose home folder it was is nobody's business."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2).replace(f"{Path.home()}/", "~/")
    write_file(path, f"{text}\n".encode())


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def revision() -> str | None:
    """The git revision of the code that ran, where it runs from a checkout."""
    here = Path(__file__).parent
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() or None
