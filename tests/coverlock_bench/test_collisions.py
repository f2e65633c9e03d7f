"""The white-box forger of the hash report."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_bench.hashes.bars import Bar, bars_of  # noqa: E402
from coverlock_bench.hashes.collisions import Collision  # noqa: E402
from coverlock_bench.hashes.ideal_lock import IdealLock  # noqa: E402
from coverlock_bench.hashes.opponents import opponent  # noqa: E402
from coverlock_bench.hashes.tables import COLLISIONS  # noqa: E402
from coverlock_sdk.locking.calibration import Calibration  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    pictures = natural_pictures(8, (96, 96), seed=9).transpose(0, 3, 1, 2)
    return (pictures / 255).astype(np.float32)


@pytest.mark.parametrize("space", ["all", "low", "chroma"])
def test_a_search_keeps_its_budget(images: np.ndarray, space: str) -> None:
    search = Collision(psnr=36.0, space=space, steps=2)
    figures = search.success(opponent("nano"), images[:2], images[2:])
    assert figures["targets"] == 2
    assert figures["psnr"] > 35.8  # rounding to 8 bits adds a little
    assert 0 <= figures["accepted"] <= 2


def test_more_budget_brings_codes_nearer(images: np.ndarray) -> None:
    near, far = (
        Collision(psnr, keyed=True, steps=6, sources=1).success(
            opponent("nano"), images[:2], images[2:]
        )
        for psnr in (24.0, 50.0)
    )
    assert near["agreement"] > far["agreement"] + 0.05


@pytest.mark.parametrize("keyed", [False, True])
def test_an_ideal_lock_accepts_the_source_and_no_stranger(keyed: bool) -> None:
    logits = np.random.default_rng(3).standard_normal((4, 256)).astype(np.float32)
    lock = IdealLock(Calibration(4.0), keyed)
    for rule in ("hard", "soft"):
        assert lock.accepted(logits, logits, rule).tolist() == [1, 1, 1, 1]
        assert lock.accepted(logits, logits[::-1], rule).tolist() == [0, 0, 0, 0]


def test_with_a_key_the_direction_of_all_logits_counts() -> None:
    rng = np.random.default_rng(4)
    logits = rng.standard_normal((3, 256)).astype(np.float32)
    weak = np.where(np.abs(logits) < 0.5, -logits, logits)  # only the faint signs differ
    assert IdealLock(Calibration(4.0), keyed=True).accepted(logits, weak, "hard").mean() > 0.9


@pytest.mark.parametrize("name", ["phash", "pdq"])
def test_gradients_of_a_baseline_lead_to_its_own_bits(name: str, images: np.ndarray) -> None:
    pytest.importorskip("imagehash")
    pytest.importorskip("pdqhash")
    known = opponent(name)
    guessed = known.logits(torch.from_numpy(images)).numpy() > 0
    assert (guessed == (known.judged(images) > 0)).mean() > 0.85


def test_a_hash_that_no_key_suits_has_a_dash_in_the_table() -> None:
    found = {"targets": 3.0, "accepted": 1.0, "agreement": 0.8, "ssim": 0.98}
    figures = {
        "collisions": {"keen": {"34 dB": found, "34 dB, key": found}, "other": {"34 dB": found}}
    }
    assert "| 34 dB, key | 1.0 of 3 (80 %, 0.980) | - |" in COLLISIONS.markdown(figures)


def test_bars_say_what_was_measured_and_allowed() -> None:
    row = {"bar": "x", "measured": "1.00 %", "allowed": "2.00 %", "met": "yes"}
    assert Bar("x", 1.0, 2.0).row() == row
    assert not Bar("x", 3.0, 2.0).met
    agreement = {"mean": 0.5, "std": 0.03, "accepted": {"256": 0.0}}
    row = {
        "bit_error_mean_of_six": 0.019,
        "bit_error": {"crop": 0.06},
        "different": agreement,
        "folders": {"div2k-crops": agreement},
        "bytes": 3_000_000,
    }
    kinds = {"QR codes": {"one_template": True, "mean": 0.7, "accepted_64": 0.01}}
    searches = {"34 dB, key": {"targets": 60, "accepted": 1.5}}
    report = {"hashes": {"h": row}, "kinds": {"h": kinds}, "collisions": {"h": searches}}
    missed = [bar.what for bar in bars_of("h", report) if not bar.met]
    assert missed == ["photos: bit error, 80 % crop", "QR codes: mean agreement"]
