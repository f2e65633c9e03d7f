import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_sdk.errors import CoverLockError
from experiments.__main__ import STUDIES, studies
from experiments.head import LOSSES, curves
from experiments.tables import TABLES, render

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_found_by_its_name(name):
    pytest.importorskip("torch")
    result = CliRunner().invoke(studies, [name, "--help"])
    assert result.exit_code == 0, result.output


def test_a_table_that_nobody_knows_is_refused(tmp_path):
    with pytest.raises(CoverLockError, match="no table 'nonsense'"):
        render("<!-- table: nonsense -->\n<!-- end of table -->", tmp_path)


def test_the_tables_in_the_docs_are_up_to_date():
    used, results = set(), ROOT / "bench" / "results"
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text()
        used |= set(re.findall(r"<!-- table: ([\w-]+) -->", text))
        assert render(text, results) == text, f"python -m experiments tables {path}"
    unused = {name: TABLES[name][0] for name in set(TABLES) - used}
    assert not [name for name, pattern in unused.items() if list(results.glob(pattern))]


def test_the_wheel_holds_no_experiments():
    tomllib = pytest.importorskip("tomllib")
    find_packages = pytest.importorskip("setuptools").find_packages
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    find = project["tool"]["setuptools"]["packages"]["find"]
    shipped = [
        package
        for folder in find["where"]
        for package in find_packages(str(ROOT / folder), include=find["include"])
    ]
    assert "coverlock_bench.auditing" in shipped
    assert not [package for package in shipped if package.startswith("experiments")]


def test_the_losses_of_a_training_are_averaged_between_validations():
    steps = [{"step": step, **dict.fromkeys(LOSSES, float(step))} for step in range(8)]
    rows = curves({"steps": steps, "validation": [{"step": 4, "error": 0.2}, {"step": 8}]})
    assert [row["stability"] for row in rows] == [1.5, 5.5]
    assert rows[0]["error"] == 0.2
