import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_bench import commands
from coverlock_sdk.errors import CoverLockError
from experiments.__main__ import STUDIES, studies
from experiments.tables import TABLES, render
from tests.bench_runs import bench

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_found_by_its_name(name):
    pytest.importorskip("torch")
    result = CliRunner().invoke(studies, [name, "--help"])
    assert result.exit_code == 0, result.output


def test_studies_are_a_module():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT / "bench")])}
    command = [sys.executable, "-m", "experiments", "--help"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for name in STUDIES:
        assert name in shown.stdout


def test_the_bench_has_six_commands_and_no_study():
    offered = set(commands.bench.commands)
    assert offered == {"security", "hash", "calibration", "latency", "service", "siege"}


def test_a_table_that_nobody_knows_is_refused(tmp_path):
    with pytest.raises(CoverLockError, match="no table 'nonsense'"):
        render("<!-- table: nonsense -->\n<!-- end of table -->", tmp_path)


def test_every_table_is_declared_where_it_says():
    pytest.importorskip("torch")
    from pkgutil import resolve_name

    for _, place, _ in TABLES.values():
        assert callable(resolve_name(place).markdown)


def test_the_tables_in_the_docs_are_up_to_date():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text()
        assert render(text, ROOT / "bench" / "results") == text, (
            f"python -m experiments tables {path}"
        )


@pytest.mark.usefixtures("additive_plugin")
def test_the_table_of_false_positives_shows_every_level_and_interval(photo_folder):
    pytest.importorskip("scipy")
    bench("calibration", photo_folder, "--messages", "2")
    (photo_folder.parent / "r.json").rename(photo_folder.parent / "calibration.json")
    text = "<!-- table: calibration -->\n<!-- end of table -->"
    header, _, *rows = render(text, photo_folder.parent).splitlines()[1:-1]
    assert [header.count(f"p <= {level} ") for level in ("0.1", "0.01", "0.001", "1e-05")] == [
        1
    ] * 4
    assert [row.count("[") for row in rows] == [5, 5, 4]  # one of the variance, four of shares


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
