import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from coverlock_bench.photos import to_float
from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.locking.bound import additive_bound, spectra
from coverlock_sdk.testing import natural_pictures
from experiments.forger_edits import (
    MILD,
    TorchCode,
    band_cosines,
    best_change,
    code_of,
    edited,
    moved,
)
from experiments.forger_edits import additive as least_change
from experiments.forgers import Study, forgers, table
from tests.conftest import saved_pictures

OWN, MARKED = natural_pictures(2, (256, 256), seed=5)


@pytest.fixture(scope="module")
def code():
    return OctaveCode()


@pytest.fixture(scope="module")
def wanted(code):
    return code_of(code, MARKED)


def psnr(one, other):
    return read(one).psnr(read(other))


def is_a_picture(picture):
    return picture.dtype == np.uint8 and picture.shape == OWN.shape


def test_pytorch_computes_the_same_code(code):
    image = resample(to_float(OWN), (128, 128))
    found = torch.cat(TorchCode(code)(torch.tensor(image))).numpy()
    np.testing.assert_allclose(found, code_of(code, OWN), atol=1e-3)


def test_the_best_change_is_the_bound(code, wanted):
    own = code_of(code, OWN)
    bound = additive_bound(code, own, wanted, np.ones(64, np.float32), 34)
    length = (10**-3.4 * 3 * 128**2) ** 0.5
    size = code.bands[0]
    reached, weights = best_change(own[:size], wanted[:size], *spectra(code)[0], length)
    assert reached == pytest.approx(bound.cosines[0], abs=1e-3)
    moved = np.r_[own[:size] + code.gram_of(0, 0) @ weights, own[size:]]
    assert band_cosines(code, moved, wanted)[0] == pytest.approx(reached, abs=1e-4)


@pytest.mark.parametrize("decibels", [34, 31])
def test_an_additive_change_keeps_to_its_decibels_and_helps(code, wanted, decibels):
    forged = least_change(code, OWN, wanted, decibels)
    assert is_a_picture(forged)
    assert decibels - 0.2 < psnr(OWN, forged) < decibels + 1
    before = np.mean(band_cosines(code, code_of(code, OWN), wanted))
    assert np.mean(band_cosines(code, code_of(code, forged), wanted)) > before + 0.1


def test_photographic_edits_keep_to_their_ranges_and_help(code, wanted):
    forged = edited(code, OWN, OWN, wanted, MILD, steps=10)
    assert is_a_picture(forged)
    before = np.mean(band_cosines(code, code_of(code, OWN), wanted))
    assert np.mean(band_cosines(code, code_of(code, forged), wanted)) > before
    flat = np.full_like(OWN, 120)
    lit = edited(code, flat, OWN, wanted, MILD, steps=10).astype(int)
    assert np.abs(lit - 120).max() <= 120 * (1.1 * 1.15 - 1) + 1


def test_a_study_counts_forgeries_and_genuine_pictures(additive, tmp_path):
    pictures = list(natural_pictures(5, (256, 256)))
    study = Study(additive, pictures, 2, 3, 2, tmp_path / "registry.sqlite")
    parts = study.parts(bound_pairs=1)
    found = {name: parts[name]() for name in ("hybrid-14", "border", "bound-34")}
    assert found["hybrid-14"]["registry"]["successes"] == 0
    assert found["border"]["registry"]["successes"] == 2
    assert 0 <= found["bound-34"]["odds"] <= 1
    assert "0 of 2" in table(found)


class Blurred(ImageHash):
    """A network that hashes: a random projection of a picture, and a bend."""

    name, input_size, bands = "blurred", (160, 160), (64,)

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(
            torch.nn.AvgPool2d(20), torch.nn.Flatten(), torch.nn.Linear(192, 64), torch.nn.Tanh()
        ).requires_grad_(False)

    def logits(self, images):
        return self.network(torch.from_numpy(np.ascontiguousarray(images)) - 0.5).numpy()

    def module(self):
        return torch.nn.Sequential(Centred(), self.network)


class Centred(torch.nn.Module):
    def forward(self, images):
        return images - 0.5


def test_gradients_find_a_change_for_a_network_within_its_decibels():
    network = Blurred()
    wanted = code_of(network, MARKED)
    forged = moved(network, OWN, wanted, 31, steps=40)
    assert is_a_picture(forged)
    assert psnr(OWN, forged) > 30.8
    [before], [after] = (band_cosines(network, code_of(network, p), wanted) for p in (OWN, forged))
    assert after > before + 0.05
    styled = code_of(network, edited(network, OWN, OWN, wanted, MILD, steps=40))
    assert band_cosines(network, styled, wanted)[0] > before


def test_a_study_of_a_network_seeks_by_gradient_and_knows_no_bound(additive, tmp_path):
    pictures = list(natural_pictures(5, (256, 256)))
    registry = tmp_path / "registry.sqlite"
    study = Study(additive, pictures, 1, 3, 2, registry, image_hash=Blurred())
    [seen] = study.vendor.alone.logits(pictures[0])[1]
    np.testing.assert_allclose(code_of(study.code, pictures[0]), seen, atol=5e-3)
    parts = study.parts(bound_pairs=1)
    assert not {"additive-34", "bound-34"} & set(parts)
    found = {name: parts[name]() for name in ("moved-34", "edits")}
    assert all(row["registry"]["trials"] == 1 for row in found.values())
    assert "a change of 34 dB, sought by gradient" in table(found)


def test_a_hash_that_is_no_network_has_no_gradients_to_follow():
    with pytest.raises(CoverLockError, match="'phash' is no network"):
        moved(load_hash("phash"), OWN, np.ones(256, np.float32), 31, 1)


def test_a_run_goes_on_where_it_stopped(additive_plugin, tmp_path):
    folder, out = saved_pictures(tmp_path / "photos", 3, (256, 256), seed=5), tmp_path / "out.json"
    given = ["-w", "additive", "--images", str(folder), "--pairs", "1", "--sources", "2"]
    given += ["--bound-pairs", "1", "-o", str(out)]
    for name in ("caption", "border"):
        answer = CliRunner().invoke(forgers, [*given, "--only", name], catch_exceptions=False)
        assert answer.exit_code == 0
    document = json.loads(out.read_text())
    assert list(document["figures"]) == ["caption", "border"]
    assert document["config"]["seed"] == 0
    answer = CliRunner().invoke(forgers, [*given, "--steps", "7"])
    assert "was measured with" in str(answer.exception)
