from __future__ import annotations

import sys

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk import CoverLock, wrap
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError, MissingModelError
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.hardening import MOST_COST
from coverlock_sdk.locking.keyed_codes import PlainMap
from coverlock_sdk.plugin_manager import plugin_manager
from tests.conftest import AdditivePlugin


def test_a_hardened_code_survives_more_and_costs_little(additive, photos):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    errors = {}
    marks = {}
    for harden in (False, True):
        lock = wrap(additive, harden=harden)
        marks[harden] = [lock.mark(photo, "studio") for photo in photos[:2]]
        seen = [
            (lock.logits(distort(mark.picture, rng))[1], mark.code)
            for mark in marks[harden]
            for distort in EVALUATION.values()
        ]
        errors[harden] = np.mean(
            [(lock.format.code(z, PlainMap.of(None, lock.bits))[0] != c).mean() for z, c in seen]
        )
    assert errors[True] < 0.6 * errors[False]
    for before, after in zip(marks[False], marks[True], strict=True):
        assert after.verdict
        assert before.psnr - MOST_COST <= after.psnr < before.psnr
        np.testing.assert_array_equal(before.code, after.code)


def test_what_was_hardened_verifies_without_hardening(additive, photos, key):
    pytest.importorskip("torch")
    marked = wrap(additive, key=key, harden=True).embed(photos[0], "studio")
    assert wrap(additive, key=key).verify(marked, "studio")


def test_a_hash_without_gradients_is_refused(additive):
    pytest.importorskip("torch")
    with pytest.raises(CoverLockError, match="'phash' has no PyTorch module"):
        CoverLock(hash="phash", harden=True).protect(additive)


def test_hardening_without_torch_names_the_extra(additive, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingModelError, match=r"pip install 'coverlock-sdk\[torch\]'"):
        wrap(additive, harden=True)


def test_the_command_line_hardens(photos, tmp_path):
    pytest.importorskip("torch")
    plugin_manager.cache_clear()
    plugin_manager().add("additive", AdditivePlugin())
    Image.fromarray(photos[0]).save(tmp_path / "a.png")
    arguments = ["embed", str(tmp_path / "a.png"), "-w", "additive", "--id", "studio"]
    outputs = []
    for extra in ([], ["--harden"]):
        out = tmp_path / f"marked{len(extra)}.png"
        result = CliRunner().invoke(build_cli(), [*arguments, "-o", str(out), *extra])
        assert result.exit_code == 0, result.output
        outputs.append(np.asarray(Image.open(out)).astype(int))
    plugin_manager.cache_clear()
    assert 0 < np.abs(outputs[0] - outputs[1]).mean() < 2
