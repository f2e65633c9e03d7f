import json

import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_bench.auditing import presets, security, trials
from coverlock_bench.auditing.trials import Division, Trials
from coverlock_bench.ledger import Ledger, Session, fingerprint
from coverlock_bench.settings import KEYLESS, PAPER, Setting
from coverlock_bench.trial import judge, mark
from coverlock_sdk import CoverLock, Watermark
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError, MissingModelError
from coverlock_sdk.locking.verdict import Floors
from coverlock_sdk.plugin_manager import plugin_manager
from tests.conftest import plugin_of

pytest.importorskip("scipy")
pytest.importorskip("skimage")

TINY = presets.Preset(
    name="tiny",
    pairs=2,
    attacks={"gt": 2, "averaging": 2},
    rt_sources=(1,),
    rt_targets=2,
    rt_messages=1,
)


def absent():
    raise MissingModelError("the weights of 'absent' are not here")


@pytest.mark.usefixtures("additive_plugin")
def test_tables_for_every_system_and_defence(photo_folder, tmp_path, monkeypatch):
    plugin_manager().add("elsewhere", plugin_of(absent=absent)())
    monkeypatch.setitem(presets.PRESETS, "smoke", TINY)
    monkeypatch.setattr(security, "SIDE", 128)
    out = tmp_path / "results" / "security.json"
    arguments = ["bench", "security", "-w", "additive", "-w", "absent", "--preset", "smoke"]
    arguments += ["-d", "none", "-d", "coverlock", "--images", str(photo_folder)]
    arguments += ["--work", str(tmp_path / "kept.sqlite"), "-o", str(out)]
    result = CliRunner().invoke(build_cli(), arguments)
    assert result.exit_code == 0, result.output
    figures = json.loads(out.read_text())["figures"]
    assert figures["systems"]["absent"]["not_measured"] == "the weights of 'absent' are not here"
    behind = figures["systems"]["additive"]["security"]
    gt = {name: cell["attacks"]["gt"]["asr"] for name, cell in behind.items()}
    assert (gt["none"]["successes"], gt["none"]["trials"]) == (2, 2)
    assert gt["coverlock"]["successes"] == 0
    assert gt["coverlock"]["high"] > 0.3
    locked = behind["coverlock"]["genuine"]
    assert locked["clean"]["tpr"]["rate"] == 1
    assert locked["jpeg"]["error"]["hash"] is not None
    assert behind["none"]["genuine"]["jpeg"]["error"]["hash"] is None
    assert figures["systems"]["additive"]["metrics"]["locked_rt"] < 0.8
    assert "needs 100 marked pictures" in result.output
    row = "| additive | pasting the true residual | 2 of 2 (15.8-100.0 %) | 0 of 2 "
    assert row in result.output


def test_sources_and_targets_are_disjoint(photos):
    division = Division.of(list(photos), 100, seed=5)
    assert len(division.sources) == len(division.targets) == 6
    robbed = {picture.tobytes() for picture in division.sources}
    assert not robbed & {picture.tobytes() for picture in division.targets}


def test_work_is_kept_per_picture_payload_and_attack(additive, photos, tmp_path, monkeypatch):
    division = Division.of(list(photos), 3, seed=0)
    first = Trials(additive, Setting("none"), 1e-6, Session(Ledger(tmp_path / "l.sqlite")))
    rows = first.forgeries(Setting("gt"), division, 2)
    again = Trials(additive, Setting("none"), 1e-6, Session(Ledger(tmp_path / "l.sqlite")))
    marked = []
    monkeypatch.setattr(trials, "mark", lambda *a: marked.append(a) or mark(*a))
    assert again.forgeries(Setting("gt"), division, 2) == rows
    assert not marked
    assert again.forgeries(Setting("gt"), division, 3)[:2] == rows
    assert len(marked) == 1


def test_settings_are_read_and_written():
    setting = Setting.parse("coverlock:hash=phash,rounds=1")
    assert setting.options == (("hash", "phash"), ("rounds", 1))
    for text in ("coverlock:hash=phash,rounds=1", "coverlock:rule=hard", KEYLESS, "none"):
        assert str(Setting.parse(text)) == text
    assert setting.defense(fpr=1e-3).rounds == 1
    with pytest.raises(CoverLockError, match="'octave' in 'coverlock:octave' is not OPTION=VALUE"):
        Setting.parse("coverlock:octave")


def test_a_lock_has_the_key_of_the_run_unless_it_says_otherwise(key):
    locks = {text: Setting.parse(text).defense(key) for text in ("coverlock", KEYLESS)}
    assert locks["coverlock"].key is key
    assert locks[KEYLESS].key is None
    Setting("none").defense(key)  # which has no use for it


def test_every_setting_of_a_lock_is_part_of_its_fingerprint(additive, key):
    changed = {"fpr": 1e-4, "rule": "hard", "rounds": 1, "harden": False, "psnr": 40.0}
    changed["floors"] = Floors(forger=0.9)
    settings = [{}, *({name: value} for name, value in changed.items())]
    locks = [CoverLock(key=key, **setting).protect(additive) for setting in settings]
    assert len({fingerprint(lock) for lock in locks}) == len(locks)


def test_the_bench_judges_as_the_product_does(additive, photos, key):
    """Settings that were asked for are those that judge, and verdicts those that vendors get."""
    strict = Setting.parse("coverlock:floors=0.999")
    protected = strict.defense(key, fpr=1e-6).protect(additive)
    marked = mark(protected, photos[0], "order-1")
    noise = np.random.default_rng(0).normal(0, 25, marked.picture.shape)
    noisy = np.clip(marked.picture + noise, 0, 255)
    pictures = [marked.picture, noisy.astype(np.uint8), photos[1]]
    lock = CoverLock(key=key, floors=Floors(forger=0.999)).protect(additive)
    wanted = lock.verify(pictures, "order-1")
    found = judge(protected, pictures, "order-1", marked)
    assert [(o.accepted, o.matches, o.p_value) for o in found] == [
        (v.accepted, v.matches, v.p_value) for v in wanted
    ]
    usual = Setting("coverlock").defense(key, fpr=1e-6).protect(additive)
    assert judge(usual, pictures, "order-1")[1].accepted is not found[1].accepted


def test_the_papers_method_is_a_setting(additive):
    lock = Setting.parse(PAPER).defense(fpr=1e-6).protect(additive)
    assert (lock.lock.rule, lock.keyring, lock.binder.rounds, lock.binder.harden) == (
        "hard", None, 1, False,
    )  # fmt: skip
    assert lock.lock.floors.least(48) == 0


def test_other_weights_under_the_same_name_are_measured_anew(additive, photos):
    class Darker(Watermark):
        name, bits, native_size = "additive", additive.bits, additive.native_size

        def embed(self, images, payloads):
            return np.clip(additive.embed(images, payloads) * 0.9, 0, 1)

        def decode(self, images):
            return additive.decode(images)

    session = Session()
    rows = {}
    for system in (additive, Darker()):
        trials = Trials(system, Setting("none"), 1e-6, session)
        rows[system] = trials.genuine(photos[:1], 0, {})["clean"]
    assert rows[additive][0]["psnr"] > rows[system][0]["psnr"] + 1
