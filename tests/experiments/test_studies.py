from __future__ import annotations

import json
from pathlib import Path

import pytest

import coverlock_bench
from coverlock_bench.drawing import DARK, FAINT, INK, LIGHT
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from experiments.doc_plots import draw, stale
from experiments.doc_tables import render
from tests.bench_runs import bench

pytestmark = pytest.mark.usefixtures("additive_plugin")


def test_hardening_is_measured_with_its_cost_and_its_forgeries(photo_folder):
    figures = bench("hardening", photo_folder, "--count", "2")
    bound, hardened = figures["as bound"], figures["hardened"]
    assert figures["no lock"]["lost"]["bit_accuracy"] == 0
    assert bound["time_ratio"] == 1 < hardened["time_ratio"]
    assert hardened["psnr_mean"] == pytest.approx(bound["psnr_mean"], abs=0.5)
    assert hardened["hash_bit_error_mean_of_six"] < bound["hash_bit_error_mean_of_six"]
    assert hardened["soft"]["tpr_clean"] == 1
    assert hardened["soft"]["asr_gt1"] == 0


def test_tables_come_from_result_files(tmp_path):
    with pytest.raises(CoverLockError, match="no table 'nonsense'"):
        render("<!-- table: nonsense -->\n<!-- end of table -->", tmp_path)


def test_the_tables_in_the_docs_are_up_to_date():
    root = Path(__file__).parents[2]
    for path in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        text = path.read_text()
        assert render(text, root / "bench" / "results") == text, f"coverlock bench tables {path}"


def test_the_plots_in_the_docs_are_up_to_date():
    root = Path(__file__).parents[2]
    assert stale(root / "docs" / "plots", root / "bench" / "results") == [], "coverlock bench plots"


def test_plots_are_drawn_for_light_and_dark_pages(tmp_path):
    pytest.importorskip("matplotlib")
    results = tmp_path / "results"
    results.mkdir()
    rows = {"octave": {"cards": {"mean": 0.6, "one_template": True}}}
    (results / "hash.json").write_text(json.dumps({"figures": {"kinds": rows}}))
    draw("kinds.svg", tmp_path, results)
    light, dark = ((tmp_path / f"kinds{end}.svg").read_text() for end in ("", "-dark"))
    assert LIGHT.ink in light
    assert DARK.ink in dark
    assert ">cards<" in light
    for text in (light, dark):
        assert INK not in text
        assert FAINT not in text
        assert "drawn from hash.json" in text


def test_the_table_of_false_positives_shows_every_level_and_interval(photo_folder):
    pytest.importorskip("scipy")
    bench("calibration", photo_folder, "--messages", "2")
    (photo_folder.parent / "r.json").rename(photo_folder.parent / "calibration.json")
    text = "<!-- table: calibration -->\n<!-- end of table -->"
    header, _, *rows = render(text, photo_folder.parent).splitlines()[1:-1]
    assert [header.count(f"p <= {level} ") for level in ("0.1", "0.01", "0.001")] == [2, 2, 2]
    assert [row.count("[") for row in rows] == [7, 7, 6]  # one of the variance, six of shares


def test_the_wheel_holds_no_experiments():
    tomllib = pytest.importorskip("tomllib")
    find_packages = pytest.importorskip("setuptools").find_packages
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    find = project["tool"]["setuptools"]["packages"]["find"]
    shipped = [
        package
        for folder in find["where"]
        for package in find_packages(str(root / folder), include=find["include"])
    ]
    assert "coverlock_bench.auditing" in shipped
    assert not [package for package in shipped if package.startswith("experiments")]


def test_studies_are_there_in_a_checkout_and_nowhere_else(tmp_path, monkeypatch):
    studies = {"interventions", "forgeries", "tables"}
    assert studies <= set(build_cli().commands["bench"].commands)
    installed = tmp_path / "site-packages" / "coverlock_bench" / "__init__.py"
    monkeypatch.setattr(coverlock_bench, "__file__", str(installed))
    assert coverlock_bench._experiments() == []
