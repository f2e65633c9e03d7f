from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import CoverLock, wrap
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import UnhardenedWarning
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.hardening import MOST_COST


def code_errors(lock, marks):
    """The share of code bits that the six distortions flip."""
    rng = np.random.default_rng(0)
    wrong = []
    for mark in marks:
        code_map = lock.judge.terms("studio", lock.keys[0]).code_map
        for distort in EVALUATION.values():
            _, hashed = lock.logits(distort(mark.picture, rng))
            wrong.append(lock.format.code(hashed, code_map, mark.salt)[0] != mark.code)
    return np.mean(wrong)


@pytest.mark.parametrize("hash_name", ["nano", "keen", "duo", "dct"])
def test_a_hardened_code_survives_more_and_costs_little(additive, photos, hash_name):
    locks = {harden: wrap(additive, hash=hash_name, harden=harden) for harden in (False, True)}
    marks = {
        harden: [lock.mark(photo, "studio") for photo in photos[:2]]
        for harden, lock in locks.items()
    }
    assert code_errors(locks[True], marks[True]) < 0.7 * code_errors(locks[False], marks[False])
    for before, after in zip(marks[False], marks[True], strict=True):
        assert after.verdict
        assert before.psnr - MOST_COST - 0.02 <= after.psnr < before.psnr


def test_hardening_holds_the_bits_that_a_key_selects(additive, photos, key):
    locks = {harden: wrap(additive, key=key, harden=harden) for harden in (False, True)}
    errors = {
        harden: code_errors(lock, [lock.mark(photo, "studio") for photo in photos[:3]])
        for harden, lock in locks.items()
    }
    assert errors[True] <= errors[False]
    marked = locks[True].mark(photos[0], "studio")
    assert locks[False].verify(marked.picture, "studio")


def test_hardening_is_the_default_and_needs_no_torch(additive, photos, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    hardened = wrap(additive).mark(photos[0], "studio")
    plain = wrap(additive, harden=False).mark(photos[0], "studio")
    assert hardened.verdict
    assert hardened.psnr < plain.psnr


def test_a_hash_without_gradients_is_not_hardened_which_is_said_once(additive, photos):
    lock = CoverLock(hash="phash").protect(additive)
    with pytest.warns(UnhardenedWarning, match="'phash' has no gradients"):
        marked = lock.mark(photos[0], "studio")
    plain = CoverLock(hash="phash", harden=False).protect(additive).mark(photos[0], "studio")
    np.testing.assert_array_equal(marked.picture, plain.picture)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnhardenedWarning)
        lock.mark(photos[0], "studio")


def test_verification_never_asks_for_gradients(additive, photos):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnhardenedWarning)
        assert not CoverLock(hash="phash").protect(additive).verify(photos[0], "studio")


@pytest.mark.usefixtures("additive_plugin")
def test_the_command_line_hardens_unless_told_not_to(photos, tmp_path):
    Image.fromarray(photos[0]).save(tmp_path / "a.png")
    arguments = ["embed", str(tmp_path / "a.png"), "-w", "additive", "--id", "studio"]
    outputs = []
    for extra in ([], ["--no-harden"]):
        out = tmp_path / f"marked{len(extra)}.png"
        result = CliRunner().invoke(build_cli(), [*arguments, "-o", str(out), *extra])
        assert result.exit_code == 0, result.output
        outputs.append(np.asarray(Image.open(out)).astype(int))
    assert 0 < np.abs(outputs[0] - outputs[1]).mean() < 2
