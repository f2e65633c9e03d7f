"""No row of the page about the paper is orphaned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coverlock_sdk.cli import build_cli
from experiments.doc_tables import by_command
from experiments.fidelity import FIDELITY, ITEMS

ROOT = Path(__file__).parents[2]

IN_THE_PAPER = {
    *(f"table {number}" for number in range(1, 7)),
    *("figure 1 left", "figure 1 right", "figure 2 left", "figure 2 right", "figure 3"),
    *("figure 4a", "figure 4b", "figure 4c"),
    *(f"figure {number}" for number in range(5, 10)),
    *(f"appendix {letter}" for letter in "BCDEFG"),
}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.place}, {item.what}")
def test_a_row_has_a_home_a_command_and_a_reason(item):
    assert (ROOT / item.home).exists()
    command = [word for word in item.command.split() if word.islower()]
    group = build_cli()
    for word in command[1:3]:
        group = group.commands[word]
        if not hasattr(group, "commands"):
            break
    assert item.word == "same" or item.why


@pytest.mark.parametrize("name", sorted(IN_THE_PAPER))
def test_everything_in_the_paper_has_a_row(name):
    assert any(name in item.place for item in ITEMS)


def test_our_figures_come_from_result_files():
    documents = [json.loads(p.read_text()) for p in sorted((ROOT / "bench/results").glob("*.json"))]
    text = FIDELITY.markdown(by_command(documents))
    assert "mbrs 0.9" in text
    assert "| not measured yet |" in text  # where no result file tells
