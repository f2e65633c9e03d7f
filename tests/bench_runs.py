"""Commands of the bench, run as a user runs them."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from coverlock_sdk.cli import build_cli


def bench(command: str, photos: Path, *options: str) -> Any:
    """What ``coverlock bench COMMAND`` finds out about the test watermark on a folder of photos."""
    arguments = ["bench", command, "-w", "additive", "--images", str(photos), "-o", "r.json"]
    result = CliRunner().invoke(build_cli(), [*arguments, *options, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(Path("r.json").read_text())
    assert document["command"] == f"bench {command}"
    assert document["schema"] == 1
    [figures] = document["figures"].values()
    return figures
