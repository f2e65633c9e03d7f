import json
import re
import sqlite3

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_bench.auditing import audit as audit_module
from coverlock_bench.auditing import presets
from coverlock_bench.auditing.verdict import Condition, findings
from coverlock_bench.intervals import rate
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark, AdditivePlugin

pytest.importorskip("jinja2")
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
)


@pytest.fixture(scope="module", autouse=True)
def _plugins():
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "smoke", TINY)
        patch.setattr(audit_module, "SIDE", 128)
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


def run(folder, out, *options):
    arguments = ["audit", "additive", "--images", str(folder), "-o", str(out), "--preset", "smoke"]
    return CliRunner().invoke(build_cli(), [*arguments, *options])


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """An audit that several tests look at."""
    out = tmp_path_factory.mktemp("audit") / "out"
    result = run(folder, out, "--fail-if", "asr>0.01", "--fail-if", "locked_asr>0.01")
    assert result.exit_code == 1, result.output
    return out, result


def words(text):
    return " ".join(text.split())


def document(out):
    return json.loads((out / "results.json").read_text())


def test_one_sentence_of_verdict_one_of_advice_and_three_tiles(finished):
    out, result = finished
    assert words(result.output).startswith(
        "“additive” can be forged from released pictures alone: 2 of 2 forgeries by averaging"
    )
    verdict = document(out)["verdict"]
    assert verdict["level"] == "forgeable"
    assert verdict["verdict"] in words(result.output)
    assert verdict["advice"] in words(result.output)
    assert verdict["advice"].startswith("Lock it with a key: none of 14 forgeries were accepted")
    assert "4 of 4 genuine pictures still are" in verdict["advice"]
    assert [tile["count"] for tile in verdict["tiles"]] == ["10 of 10", "0 of 6", "0 of 8"]
    assert [tile["tone"] for tile in verdict["tiles"]] == ["bad", "good", "good"]
    assert verdict["tiles"][1]["note"].startswith("a success rate of at most 46 %")
    assert "failed: asr>0.01" in words(result.output)
    assert "failed: locked_asr" not in words(result.output)


def test_metrics_have_upper_ends_and_attackers_with_the_networks(finished):
    metrics = document(finished[0])["figures"]["metrics"]
    assert metrics["asr_given_networks"] == metrics["keyless_asr_given_networks"] == 1
    assert metrics["locked_asr_given_networks"] == metrics["locked_asr"] == 0
    four, two = 1 - 0.025 ** (1 / 4), 1 - 0.025 ** (1 / 2)
    assert metrics["locked_asr_given_networks_high"] == pytest.approx(four)
    assert metrics["locked_asr_high"] == pytest.approx(two)  # of the smallest sample
    assert metrics["keyless_asr_given_networks_high"] == 1


def test_the_recommended_gate_fails_for_a_small_sample_without_a_new_measurement(
    finished, folder, decoded
):
    gates = ("locked_asr_high>0.1", "locked_asr_given_networks_high>0.1", "locked_tpr<0.99")
    options = [word for gate in gates for word in ("--fail-if", gate)]
    result = run(folder, finished[0], *options)
    assert result.exit_code == 1, result.output
    assert document(finished[0])["failed"] == list(gates[:2])
    assert len(decoded) < 20  # which tell that the networks are still the same


def test_a_mark_that_only_its_own_library_copies_is_not_called_resisted(tmp_path, folder):
    chosen = ("-a", "denoise:strength=0", "-a", "re-embedding", "-d", "none")
    gate = ("--fail-if", "asr>0.01", "--fail-if", "asr_given_networks>0.01")
    result = run(folder, tmp_path / "out", *chosen, *gate)
    assert result.exit_code == 1, result.output
    assert "can be forged by anyone who has your encoder or decoder" in words(result.output)
    assert "Audit the lock too" in result.output
    assert document(tmp_path / "out")["verdict"]["level"] == "copied"
    assert document(tmp_path / "out")["failed"] == ["asr_given_networks>0.01"]


@pytest.mark.parametrize(("moved", "level"), [(1, "copied"), (12, "transferable")])
def test_the_verdict_is_about_the_attacker_who_gets_further(moved, level):
    attacks = {"gt": {"asr": rate(moved, 12)}, "re-embedding": {"asr": rate(12, 12)}}
    found = findings({"name": "public", "security": {"none": {"attacks": attacks}}})
    assert found.level == level


def test_results_are_a_versioned_document(finished):
    found = document(finished[0])
    figures = found["figures"]
    assert found["schema"] == 1
    assert found["command"] == "audit"
    forged = figures["security"]["none"]["attacks"]["gt"]["asr"]
    assert forged["successes"] == forged["trials"] == 4
    assert 0.3 < forged["low"] < forged["high"] == 1
    assert figures["metrics"]["rt"] > 0.9
    assert figures["metrics"]["locked_rt"] < 0.5
    assert figures["security"]["coverlock"]["attacks"]["gt"]["error"]["payload"] < 0.1
    assert figures["rt"]["missing"] == {"1000": 981}
    reason = figures["security"]["none"]["attacks"]["averaging"]["not_measured"]
    assert reason == "needs 100 marked pictures and other targets, there are 4"
    assert figures["pictures"]["read"] + len(figures["pictures"]["left_out"]) <= 23


def test_the_bound_on_invisible_changes_is_printed(finished):
    """For a lock with a key; the others have none."""
    out, _ = finished
    security = document(out)["figures"]["security"]
    bound = security["coverlock"]["bound"]
    assert 0 <= bound["mean"] <= bound["most"] <= 1
    assert bound["pairs"] > 1
    assert "not_measured" in security["none"]["bound"]
    page = words((out / "report.html").read_text())
    assert page.count("holds for every such change") == 1


def test_the_page_stands_alone(finished):
    page = (finished[0] / "report.html").read_text()
    assert page.index("can be forged") < page.index("Which forgeries are accepted")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "@import" not in page
    assert page.count("data:image/png;base64,") == len(list((finished[0] / "pictures").iterdir()))
    assert "needs 981 more pictures" in page


def test_the_first_screen_has_no_internal_names(finished):
    page = (finished[0] / "report.html").read_text()
    screen = page[page.index("<header>") : page.index("<details>")]
    text = re.sub(r"<[^>]*>", " ", screen)
    for internal in ("results.json", "references=", "coverlock:", "key=", " none ", " gt", "asr"):
        assert internal not in text.replace("none of", "")
    assert screen.count("forgeries accepted:") == 3
    assert "The attacker has your encoder and decoder too" in screen
    assert "locked without a key" in screen


def test_the_first_screen_compares_the_locks_that_were_named(tmp_path, folder):
    locks = ("coverlock:key=none,hash=phash", "coverlock:hash=phash")
    chosen = [word for lock in ("none", *locks) for word in ("-d", lock)]
    gate = ("--fail-if", "locked_asr>0.01", "-a", "gt", "-a", "re-locking")
    result = run(folder, tmp_path / "out", *chosen, *gate)
    assert result.exit_code == 0, result.output
    found = document(tmp_path / "out")
    assert [(tile["title"], tile["count"]) for tile in found["verdict"]["tiles"]] == [
        ("As it is", "4 of 4"),
        ("Locked with a key (hash phash)", "0 of 4"),
        ("Locked with a key (hash phash), attacker has your networks", "0 of 4"),
    ]
    assert "Lock it with a key (hash phash): none of 8" in found["verdict"]["advice"]
    assert found["figures"]["metrics"]["keyless_asr_re-locking"] > 0.5
    page = (tmp_path / "out" / "report.html").read_text()
    assert "locked without a key (hash phash)" in page
    assert "Again, locked with a key (hash phash): <b>rejected" in page


def test_an_interrupted_audit_goes_on(tmp_path, folder, decoded, monkeypatch):
    decode = AdditiveMark.decode

    def interrupted(self, images):
        if len(decoded) == 20:
            raise KeyboardInterrupt
        return decode(self, images)

    with monkeypatch.context() as patch:
        patch.setattr(AdditiveMark, "decode", interrupted)
        result = run(folder, tmp_path / "out", "-a", "gt", "-d", "none")
    assert result.exit_code == 130
    assert re.search(r"interrupted in stage \d+ of \d+; run the same command", result.output)
    kept = sqlite3.connect(tmp_path / "out" / "measurements.sqlite")
    assert kept.execute("SELECT COUNT(*) FROM measurements").fetchone()[0] > 5
    assert run(folder, tmp_path / "out", "-a", "gt", "-d", "none").exit_code == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_nothing_is_called_resisted_that_nobody_attacked(tmp_path, folder):
    result = run(folder, tmp_path / "out", "-d", "coverlock", "-a", "gt")
    assert result.exit_code == 0, result.output
    assert "no attack on the unprotected “additive” was run" in words(result.output)


def test_a_condition_is_checked_before_and_decided_after(tmp_path, folder):
    unknown = run(folder, tmp_path / "out", "-d", "coverlock", "--fail-if", "asr>0.01")
    assert unknown.exit_code == 2
    assert "there is no metric 'asr': use one of locked_asr" in words(unknown.output)
    undecided = run(
        folder, tmp_path / "out", "-a", "averaging", "-d", "none", "--fail-if", "asr>0.01"
    )
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
