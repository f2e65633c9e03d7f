from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import coverlock_bench
from coverlock_bench.drawing import DARK, FAINT, INK, LIGHT
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.training.kinds.catalogue import KINDS
from experiments.doc_plots import draw, stale
from experiments.doc_tables import render
from tests.bench_runs import bench

pytestmark = pytest.mark.usefixtures("additive_plugin")


def test_round_trips_are_accepted_under_every_binding(photo_folder):
    figures = bench("roundtrip", photo_folder)
    assert len(figures) == 6
    assert all(row["accepted"] == 4 for row in figures.values())
    assert figures["hard: none"]["hash_bit_error"] == 0


def test_rules_see_forgeries_pass_only_without_the_lock(photo_folder):
    figures = bench("rules", photo_folder)
    for rule in ("hard", "soft"):
        assert figures["none"][rule]["asr_gt1"] == 1
        assert figures["coverlock"][rule]["asr_gt1"] == 0
        assert figures["coverlock"][rule]["tpr"]["clean"] == 1


def test_hardening_is_measured_with_its_cost_and_its_forgeries(photo_folder):
    figures = bench("hardening", photo_folder, "--count", "2")
    bound, hardened = figures["as bound"], figures["hardened"]
    assert figures["no lock"]["lost"]["bit_accuracy"] == 0
    assert bound["time_ratio"] == 1 < hardened["time_ratio"]
    assert bound["psnr_mean"] - 0.5 <= hardened["psnr_mean"] < bound["psnr_mean"]
    assert hardened["hash_bit_error_mean_of_six"] < bound["hash_bit_error_mean_of_six"]
    assert hardened["soft"]["tpr_clean"] == 1
    assert hardened["soft"]["asr_gt1"] == 0


def test_telling_templates_stops_forgeries_between_their_pictures(photo_folder, monkeypatch):
    monkeypatch.setattr("experiments.told_templates.KINDS", {"forms": KINDS["forms"]})
    monkeypatch.setattr("coverlock_sdk.training.kinds.collection.KINDS", {"forms": KINDS["forms"]})
    options = ("--hash", "nano", "--examples", "4", "--count", "3")
    figures = bench("templates", photo_folder, *options)
    plain, told = (figures["kinds"]["forms"][name] for name in ("plain", "told"))
    assert plain["forged_tried"] == told["forged_tried"] == 2 * 3 * 2
    assert plain["genuine_tried"] == 2 * 3 * 6
    assert told["agreement"] < 0.8 < plain["agreement"]
    assert told["forged"] < plain["forged"]
    assert figures["all"]["told"]["forged"] == told["forged"]
    assert figures["photos"] == {"count": 4, "read_otherwise": 0}


def test_forgers_onto_templates_are_counted_for_both_readings(photo_folder, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("coverlock_sdk.training.kinds.collection.KINDS", {"forms": KINDS["forms"]})
    searches = {"34 dB": {"psnr": 34.0, "steps": 1, "sources": 1}}
    monkeypatch.setattr("experiments.told_templates.SEARCHES", searches)
    options = ["--images", str(photo_folder), "--hash", "nano", "--examples", "4", "--count", "2"]
    arguments = ["bench", "template-collisions", *options, "-o", "r.json", "--kind"]
    assert CliRunner().invoke(build_cli(), [*arguments, "forms"]).exit_code == 0
    rows = json.loads(Path("r.json").read_text())["figures"]["nano"]["forms"]
    assert [rows[name]["34 dB"]["targets"] for name in ("plain", "told")] == [2, 2]
    refused = CliRunner().invoke(build_cli(), [*arguments, "fog"])
    assert refused.exit_code == 2
    assert "'fog' is not a kind whose pictures share a template: forms" in refused.stderr


def test_a_higher_floor_costs_genuine_pictures_and_stops_forgeries(photo_folder, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("experiments.floors.SEARCHES", {"24 dB": {"psnr": 24.0, "steps": 2}})
    options = ["-w", "additive", "--images", str(photo_folder), "--count", "1", "--targets", "1"]
    arguments = ["bench", "floors", *options, "--hash", "nano", "--work", "w.sqlite", "-o"]
    result = CliRunner().invoke(build_cli(), [*arguments, "first.json"])
    assert result.exit_code == 0, result.output
    assert "the highest floors that cost at most 0.5 points: hard " in result.stderr
    figures = json.loads(Path("first.json").read_text())["figures"]
    for rows in figures.values():
        for way in ("keyless", "scheme 2"):
            costs = [row["cost"][way] for row in rows.values()]
            assert costs[0] == 0
            assert costs == sorted(costs)
        forged = [row["collisions"]["24 dB"]["accepted"] for row in rows.values()]
        assert forged == sorted(forged, reverse=True)
    monkeypatch.setattr("experiments.floors.marked_versions", pytest.fail)  # all is kept
    assert CliRunner().invoke(build_cli(), [*arguments, "again.json"]).exit_code == 0
    assert json.loads(Path("again.json").read_text())["figures"] == figures


def test_pages_of_text_are_measured(tmp_path):
    out = tmp_path / "d.json"
    arguments = ["bench", "documents", "-w", "additive", "--pages", "2", "-o", str(out)]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(out.read_text())["figures"]
    assert set(figures) == {"nano", "dct"}
    assert figures["nano"]["forgeries"] == 2
    assert figures["nano"]["agreement_mean"] > figures["dct"]["agreement_mean"]


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
    rows = {"keen": {"cards": {"mean": 0.6, "one_template": True}}}
    (results / "hash-kinds.json").write_text(json.dumps({"figures": {"kinds": rows}}))
    draw("kinds.svg", tmp_path, results)
    light, dark = ((tmp_path / f"kinds{end}.svg").read_text() for end in ("", "-dark"))
    assert LIGHT.ink in light
    assert DARK.ink in dark
    assert ">cards<" in light
    for text in (light, dark):
        assert INK not in text
        assert FAINT not in text
        assert "drawn from hash-kinds.json" in text


def test_the_table_of_false_positives_shows_every_level_and_interval(photo_folder):
    pytest.importorskip("scipy")
    bench("calibration", photo_folder, "--messages", "2", "--hash", "dct")
    (photo_folder.parent / "r.json").rename(photo_folder.parent / "calibration.json")
    text = "<!-- table: calibration -->\n<!-- end of table -->"
    header, _, *rows = render(text, photo_folder.parent).splitlines()[1:-1]
    assert [header.count(f"p <= {level}") for level in ("1e-2", "1e-3", "1e-4")] == [2, 2, 2]
    assert len(rows) == 2
    assert all(row.count("[") == 7 for row in rows)  # one of the variance, six of shares


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
    studies = {"interventions", "rules", "tables"}
    assert studies <= set(build_cli().commands["bench"].commands)
    installed = tmp_path / "site-packages" / "coverlock_bench" / "__init__.py"
    monkeypatch.setattr(coverlock_bench, "__file__", str(installed))
    assert coverlock_bench._experiments() == []
