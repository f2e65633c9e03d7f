"""No row of the page about the paper is orphaned."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (ROOT / "docs" / "research" / "paper.md").read_text().splitlines()
    if line.startswith("| ") and "`" in line
]
IN_THE_PAPER = {
    *(f"table {number}" for number in range(1, 7)),
    *("figure 1 left", "figure 1 right", "figure 2 left", "figure 2 right", "figure 3"),
    *("figure 4a", "figure 4b", "figure 4c"),
    *(f"figure {number}" for number in range(5, 10)),
    *(f"appendix {letter}" for letter in "BCDEFG"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}, {row[1]}")
def test_a_row_has_a_home_and_a_word(row):
    assert (ROOT / row[2].strip("`")).exists()
    assert re.match(r"\*\*(same|reduced|differs|missing)\*\*", row[4])


@pytest.mark.parametrize("name", sorted(IN_THE_PAPER))
def test_everything_in_the_paper_has_a_row(name):
    assert any(name in row[0] for row in ROWS)
