from __future__ import annotations

import json
import re
import shutil
import sqlite3
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.auditing import audit as audit_module
from coverlock_bench.auditing import presets
from coverlock_bench.auditing.gate import Condition
from coverlock_bench.forecast import OverallProgress
from coverlock_sdk import Watermark, hookimpl
from coverlock_sdk.cli import build_cli
from coverlock_sdk.contract import Attack
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark, AdditivePlugin

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

TINY = presets.Preset(
    name="tiny",
    pairs=4,
    attacks={
        "gt": 4,
        "averaging:references=4": 2,
        "averaging": 2,
        "re-embedding": 4,
        "re-locking": 4,
        "optimisation": 2,
    },
    rt_sources=(1, 4, 1000),
    rt_targets=3,
    rt_messages=2,
    locked_sources=4,
    seeds=(0,),
    variants=(),
)


class Broken:
    """A watermark whose decoder returns NaN, and an attack that does nothing."""

    @hookimpl
    def register_watermarks(self, register):
        class Nan(Watermark):
            name = "nan"
            bits = 32
            native_size = (64, 64)

            def embed(self, images, payloads):
                return images

            def decode(self, images):
                return np.full((len(images), 32), np.nan)

        register(Nan)

    @hookimpl
    def register_attacks(self, register):
        class Noted(Attack):
            name = "noted"

            def __init__(self, note):
                self.note = note

            def forge(self, references, targets):
                return targets

        register(Noted)


@pytest.fixture(autouse=True)
def _plugins(monkeypatch):
    monkeypatch.setenv("COVERLOCK_PLUGINS", "bench")
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    plugin_manager().add("broken", Broken())
    monkeypatch.setitem(presets.PRESETS, "smoke", TINY)
    monkeypatch.setattr(audit_module, "SIDE", 128)
    yield
    plugin_manager.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos of mixed sizes and modes, and a file that is none."""
    folder = tmp_path_factory.mktemp("photos")
    for index, photo in enumerate(natural_pictures(22, (128, 128), seed=3)):
        picture = Image.fromarray(photo)
        if index == 0:
            picture = picture.resize((200, 130))
        picture = picture.convert(["RGB", "RGBA", "L", "RGB"][index % 4])
        picture.save(folder / f"{index:02}.png")
    (folder / "zz-broken.png").write_bytes(b"not a picture")
    return folder


@pytest.fixture
def decoded(monkeypatch):
    """Grows with every call of the decoder."""
    calls = []
    decode = AdditiveMark.decode

    def counting(self, images):
        calls.append(len(images))
        return decode(self, images)

    monkeypatch.setattr(AdditiveMark, "decode", counting)
    return calls


def run(folder, out, *options, watermark="additive"):
    arguments = ["audit", watermark, "--images", str(folder), "-o", str(out), "--preset", "smoke"]
    return CliRunner().invoke(build_cli(), [*arguments, *options])


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """An audit that several tests look at."""
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    out = tmp_path_factory.mktemp("audit") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "smoke", TINY)
        patch.setattr(audit_module, "SIDE", 128)
        result = run(folder, out, "--fail-if", "asr>0.01", "--fail-if", "locked_asr>0.01")
    assert result.exit_code == 1, result.output
    return out, result


def test_the_verdict_names_attacks_and_what_the_lock_does(finished):
    out, result = finished
    words = " ".join(result.output.split())
    assert "Forgeable" in words
    assert "GT@1 4 of 4" in words
    assert re.search(r"Behind CoverLock, with a key made for this run, 0 of \d+ forgeries", words)
    assert "failed: asr>0.01" in words
    assert "failed: locked_asr" not in words
    assert (out / "report.html").exists()


def test_the_verdict_tells_what_each_kind_of_attacker_gets(finished):
    words = " ".join(finished[1].output.split())
    assert "Given your encoder and decoder, re-embedding forges 4 of 4 as it is, " in words
    assert (
        "re-embedding forges 4 of 4 as it is, 0 of 4 behind CoverLock, "
        "0 of 4 behind CoverLock without a key" in words
    )
    assert (
        "who knows the lock forges 0 of 4 behind CoverLock, "
        "4 of 4 behind CoverLock without a key" in words
    )
    assert "optimising the picture ('additive' has no decoder_module()" in words
    metrics = json.loads((finished[0] / "results.json").read_text())["figures"]["metrics"]
    assert metrics["asr_given_encoder"] == metrics["keyless_asr_given_encoder"] == 1
    assert metrics["locked_asr_given_encoder"] == metrics["locked_asr"] == 0
    page = (finished[0] / "report.html").read_text()
    assert "given your encoder and decoder" in page
    assert "CoverLock without a key" in page


def test_a_mark_that_only_its_own_library_copies_is_not_called_resisted(tmp_path, folder):
    chosen = ("-a", "noted:note=nothing", "-a", "re-embedding", "-d", "none")
    gate = ("--fail-if", "asr>0.01", "--fail-if", "asr_given_encoder>0.01")
    result = run(folder, tmp_path / "out", *chosen, *gate)
    assert result.exit_code == 1, result.output
    assert "whoever has your networks copies the mark" in " ".join(result.output.split())
    document = json.loads((tmp_path / "out" / "results.json").read_text())
    assert document["verdict"]["level"] == "copied"
    assert document["failed"] == ["asr_given_encoder>0.01"]


def test_results_are_a_versioned_document(finished):
    document = json.loads((finished[0] / "results.json").read_text())
    figures = document["figures"]
    assert document["schema"] == 1
    assert document["command"] == "audit"
    assert document["failed"] == ["asr>0.01"]
    assert document["verdict"]["level"] == "forgeable"
    forged = figures["security"]["none"]["attacks"]["gt"]["asr"]
    assert forged["hard"]["successes"] == forged["hard"]["trials"] == 4
    assert 0.3 < forged["hard"]["low"] < forged["hard"]["high"] == 1
    assert figures["metrics"]["rt"] > 0.9
    assert figures["metrics"]["locked_rt"] < 0.5
    assert figures["rt"]["locked"]["raw_accuracy"] > 0.9
    assert figures["rt"]["missing"] == {"1000": 981}
    reason = figures["security"]["none"]["attacks"]["averaging"]["not_measured"]
    assert reason == "needs 100 marked pictures and other targets, there are 4"
    assert figures["pictures"]["read"] + len(figures["pictures"]["left_out"]) <= 23


def test_the_page_stands_alone(finished):
    page = (finished[0] / "report.html").read_text()
    assert page.index("Forgeable") < page.index("Which forgeries are accepted")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page.replace("xlink:href", "href"))
    assert "@import" not in page
    assert page.count("<svg") == 3
    assert page.count("data:image/png;base64,") == len(list((finished[0] / "pictures").iterdir()))
    assert "981 more pictures are needed" in page


def test_headlines_say_how_many_they_are_about(finished):
    words = " ".join(finished[1].output.split())
    assert "(n = 6 forgeries)" in words
    assert "n = 3 targets" in words
    assert "Genuine pictures accepted (n = 4)" in words
    assert (finished[0] / "report.html").read_text().count("n = ") >= 5


def test_a_report_shows_pictures_under_a_slider(finished):
    page = (finished[0] / "report.html").read_text()
    for side in ("before", "after"):
        for name in re.findall(rf'data-{side}="([\w-]+)"', page):
            assert f'<img id="{name}"' in page
    assert 'data-module="viewers.js"' in page


def test_whatever_was_not_measured_has_its_reason(finished):
    page = (finished[0] / "report.html").read_text()
    listed = page[page.index("What was not measured, and why") :]
    for reason in (
        "needs 100 marked pictures and other targets, there are 4",
        "981 more pictures are needed",
        "&#39;additive&#39; has no decoder_module()",
    ):
        assert reason in listed
    assert "picture: what GT@100 lifts" in listed


def test_a_run_without_time_has_pictures_all_the_same(tmp_path, folder):
    result = run(folder, tmp_path / "out", "--minutes", "0.0001")
    assert result.exit_code == 0, result.output
    names = {file.name for file in (tmp_path / "out" / "pictures").iterdir()}
    assert {"cover.png", "target.png", "forged-none.png", "forged-coverlock.png"} <= names
    assert 'data-after="forged-none"' in (tmp_path / "out" / "report.html").read_text()


def test_the_stages_of_an_audit_are_known_before(tmp_path, folder, monkeypatch):
    began = []
    steps = OverallProgress.steps

    def noted(self, items, stage):
        began.append((stage, self.forecast.stages))
        return steps(self, items, stage)

    monkeypatch.setattr(OverallProgress, "steps", noted)
    result = run(folder, tmp_path / "out", "-a", "gt", "-a", "re-locking")
    assert result.exit_code == 0, result.output
    stages = [stage for stage, _ in began]
    assert len(stages) == began[0][1]
    assert stages[0] == "RT of additive"
    assert stages[-1] == "additive: pictures"


def test_a_second_run_measures_nothing_anew(finished, folder, decoded):
    result = run(folder, finished[0])
    assert result.exit_code == 0
    assert len(decoded) < 20  # which tell that the networks are still the same


def test_few_pictures_are_counted(tmp_path, folder):
    few = tmp_path / "few"
    few.mkdir()
    for photo in sorted(folder.glob("0[1-3].png")):
        (few / photo.name).write_bytes(photo.read_bytes())
    result = run(few, tmp_path / "out")
    assert result.exit_code == 2
    assert "needs at least 20 pictures" in result.output
    assert "has 3 that can be read" in result.output


def test_an_empty_folder_is_named(tmp_path):
    (tmp_path / "empty").mkdir()
    result = run(tmp_path / "empty", tmp_path / "out")
    assert result.exit_code == 2
    assert "contains no pictures" in result.output


def test_a_decoder_that_returns_nan_is_named(tmp_path, folder):
    result = run(folder, tmp_path / "out", watermark="nan")
    assert result.exit_code == 2
    assert "plugin 'nan' returned NaN or infinite values from decode" in result.output
    assert not (tmp_path / "out" / "report.html").exists()


def test_a_full_disk_is_one_sentence(tmp_path, folder, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

        def execute(self, *_):
            raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: Full())
    result = run(folder, tmp_path / "out")
    assert result.exit_code == 2
    assert "database or disk is full" in result.output
    assert "what is in it is not lost" in result.output


def test_an_interrupted_audit_goes_on(tmp_path, folder, decoded, monkeypatch):
    decode = AdditiveMark.decode

    def interrupted(self, images):
        if len(decoded) == 40:
            raise KeyboardInterrupt
        return decode(self, images)

    with monkeypatch.context() as patch:
        patch.setattr(AdditiveMark, "decode", interrupted)
        result = run(folder, tmp_path / "out")
    assert result.exit_code == 2
    assert "the same command goes on" in result.output
    kept = sqlite3.connect(tmp_path / "out" / "measurements.sqlite")
    assert kept.execute("SELECT COUNT(*) FROM measurements").fetchone()[0] > 5
    assert run(folder, tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_json_is_all_there_is_on_stdout(finished, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["coverlock", "audit", "--json"])
    result = run(folder, finished[0], "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"]["level"] == "forgeable"


def test_a_deadline_leaves_cells_empty_and_says_so(tmp_path, folder):
    result = run(folder, tmp_path / "out", "--minutes", "0.0001")
    assert result.exit_code == 0, result.output
    assert "Time ran out" in result.output
    assert "No attack on 'additive' could be run" in " ".join(result.output.split())


def test_what_is_kept_is_reported_even_without_time(finished, folder):
    result = run(folder, finished[0], "--minutes", "0.0001", "--fail-if", "locked_asr>0.01")
    assert result.exit_code == 0, result.output
    assert "GT@1 4 of 4" in " ".join(result.output.split())
    assert "Time ran out" not in result.output


def test_a_report_among_the_photos_is_not_taken_for_photos(finished, folder, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(folder, photos)
    shutil.copytree(finished[0], photos / "audit")
    (photos / "copy.png").write_bytes((photos / "05.png").read_bytes())
    result = run(photos, photos / "audit")
    assert result.exit_code == 0, result.output
    pictures = json.loads((photos / "audit" / "results.json").read_text())["figures"]["pictures"]
    assert pictures["found"] == 24
    assert pictures["read"] == 22
    assert sum("is a copy of another picture" in why for why in pictures["left_out"].values()) == 1


def test_nothing_is_called_resisted_that_nobody_attacked(tmp_path, folder):
    result = run(folder, tmp_path / "out", "-d", "coverlock", "-a", "gt")
    assert result.exit_code == 0, result.output
    assert "Not known: no attack on the unprotected watermark was run" in result.output
    refused = run(folder, tmp_path / "out", "-d", "coverlock", "--fail-if", "asr>0.01")
    assert refused.exit_code == 2
    assert "there is no metric 'asr': use one of locked_asr" in " ".join(refused.output.split())


def test_an_option_may_be_a_path(tmp_path, folder):
    setting = "noted:note=runs/some/file.txt"
    result = run(folder, tmp_path / "out", "-a", setting, "--fail-if", f"asr_{setting}>0.5")
    assert result.exit_code == 0, result.output
    names = {file.name for file in (tmp_path / "out" / "pictures").iterdir()}
    assert "lifted-noted-note-runs-some-file.txt.png" in names


def test_a_condition_is_checked_before_and_decided_after(tmp_path, folder):
    misspelt = run(folder, tmp_path / "out", "--fail-if", "ars>0.01")
    assert misspelt.exit_code == 2
    assert "there is no metric 'ars'" in misspelt.output
    undecided = run(folder, tmp_path / "out", "--minutes", "0.0001", "--fail-if", "asr>0.01")
    assert undecided.exit_code == 2
    assert "'asr' was not measured" in undecided.output
    assert (tmp_path / "out" / "report.html").exists()


def test_conditions():
    assert Condition.parse("asr>0.01").holds({"asr": 0.02})
    assert not Condition.parse(" rt@100 <= 1e-1 ").holds({"rt@100": 0.2})
    with pytest.raises(CoverLockError, match="'asr=1' is not a condition"):
        Condition.parse("asr=1")
    with pytest.raises(CoverLockError, match="'tpr' was not measured; there are asr"):
        Condition.parse("tpr<0.9").holds({"asr": 0.0})
