"""``coverlock bench omniseal-cards``"""

from __future__ import annotations

from pathlib import Path

import click

from coverlock_sdk.cli.answers import answer
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.plugin_manager import plugin_manager


@click.command("omniseal-cards")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "-w",
    "--watermark",
    "watermarks",
    multiple=True,
    help="NAME. May be repeated; otherwise all that are installed.",
)
@json_option
def omniseal_cards(folder: Path, watermarks: tuple[str, ...], as_json: bool) -> None:
    """Write cards that make watermarks, bare and locked, models of OmniSeal Bench.

    OMNISEAL_MODEL_DIR=FOLDER makes that project find them.
    """
    from coverlock_bench.bridges.omniseal import NAME, write_cards

    manager = plugin_manager()
    for name in watermarks:
        manager.get("watermark", name)  # says what there is instead
    chosen = watermarks or [name for name in manager.names("watermark") if name != NAME]
    cards = write_cards(folder, chosen)
    answer({"cards": [str(card) for card in cards]}, as_json, f"{len(cards)} cards are in {folder}")
