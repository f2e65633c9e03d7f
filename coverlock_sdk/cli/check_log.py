"""``coverlock check-log``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.verifier.audit_log import FIRST, check_chain


@click.command("check-log")
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--expect", "noted", metavar="DIGEST", default=FIRST, help="Noted at an earlier check."
)
@json_option
def check_log(log: Path, noted: str, as_json: bool) -> None:
    """Check that nobody changed, removed or added a line of an audit LOG.

    Note the digest of the last line elsewhere, and --expect it later. The log alone does not show
    that somebody changed its last line, cut off its end, or wrote all of it anew.
    """
    lines, digest = check_chain(log, noted)
    intact = f"{log} is intact: {lines} lines, and the digest of the last is {digest}"
    answer({"lines": lines, "last": digest}, as_json, intact)
