import numpy as np
import pytest

from coverlock_sdk import ImageHash
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.locking.hardening import WantedCode, least_change
from coverlock_sdk.locking.keys import Key
from coverlock_sdk.locking.secret_rotations import CodeMap, SecretRotation, code_map
from coverlock_sdk.testing import natural_pictures
from experiments import key_learners as learners

BANDS = (16, 24)


KEY = Key(b"a key for the learners of tests.", "tests")


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def small_map(rng):
    """Three salts over forty dimensions: small enough to be learned in no time."""
    rotations = tuple(
        SecretRotation.of(KEY, f"{band}/small", size, 3) for band, size in enumerate(BANDS)
    )
    return CodeMap(rotations, rng.integers(2, size=(3, 32), dtype=np.uint8), BANDS)


@pytest.fixture(scope="module")
def pictures(rng, small_map):
    codes = rng.standard_normal((1500, sum(BANDS))).astype(np.float32)
    return learners.released(codes, small_map)


def cosines(found, locked, salt):
    """Between directions found and true ones, pads included."""
    truth = locked.directions(salt) * np.where(locked.pads[salt], -1, 1)
    norms = np.linalg.norm(found, axis=0) * np.linalg.norm(truth, axis=0)
    return (found * truth).sum(axis=0) / norms


@pytest.mark.parametrize("learn", [learners.averaged, learners.logistic])
def test_directions_of_a_known_salt_are_learned(learn, pictures, small_map):
    own = pictures.salts == 1
    found = learn(pictures.codes[own], pictures.bits[own], BANDS)
    assert cosines(found, small_map, 1).min() > 0.75


def test_salts_are_found_from_codes_and_payloads_alone(pictures, rng):
    labels = learners.hidden(pictures.codes, pictures.bits, BANDS, 3, rng)
    assert learners.purity(labels, pictures.salts, 3) > 0.95


def test_nothing_is_found_in_payloads_without_a_relation(pictures, small_map, rng):
    bits = rng.permutation(pictures.bits)
    labels = learners.hidden(pictures.codes, bits, BANDS, 3, rng)
    found = learners.averaged(pictures.codes[labels == 0], bits[labels == 0], BANDS)
    assert max(np.abs(cosines(found, small_map, salt)).mean() for salt in range(3)) < 0.3


@pytest.fixture(scope="module")
def octave():
    return OctaveCode()


@pytest.fixture(scope="module")
def octave_codes(rng, octave):
    return rng.standard_normal((24, octave.dimensions)).astype(np.float32)


def test_a_forger_with_the_key_passes_and_one_without_does_not(octave, octave_codes, rng):
    locked = code_map(KEY, "id/a", 64, octave.bands)
    forger = learners.CodeForger(octave_codes, locked, octave)
    truth = locked.directions(3) * np.where(locked.pads[3], -1, 1).astype(np.float32)
    known = forger.figures([truth])
    assert known["plain"]["bits_right"] == known["steered"]["passed"] == 1
    guessed = forger.figures([rng.standard_normal(truth.shape).astype(np.float32)])
    assert guessed["steered"]["bits_right"] < 0.65
    assert guessed["steered"]["passed"] == 0


def test_hardening_is_modelled_as_it_is_done(octave, monkeypatch):
    picture = natural_pictures(1, (128, 128))[0].transpose(2, 0, 1).astype(np.float32) / 255
    locked = code_map(KEY, "id/a", 64, octave.bands)
    pictures = learners.released(octave.code(picture), locked)
    salt = int(pictures.salts[0])
    seen = locked.seen(pictures.codes)[0, salt]
    wanted = WantedCode(locked.directions(salt), np.sign(seen), 1.0)
    done = least_change(octave, picture, wanted)
    monkeypatch.setattr(learners, "ROUNDING", 0.0)
    monkeypatch.setattr(learners, "MOST_COST", 100.0)
    [added] = learners.hardened(pictures, locked, octave, 0)
    parts = np.split(added, np.cumsum(octave.bands)[:-1])
    weights = [
        learners._root(octave.gram_of(band, band), -0.5) @ part for band, part in enumerate(parts)
    ]
    modelled = octave.pull_back(np.concatenate(weights).astype(np.float32))
    assert np.linalg.norm(modelled - done) < 0.02 * np.linalg.norm(done)


def test_hardening_beside_originals_shows_the_directions(octave, rng):
    locked = code_map(KEY, "id/a", 30, octave.bands)
    codes = rng.standard_normal((2400, octave.dimensions)).astype(np.float32)
    pictures = learners.released(codes, locked)
    own = pictures.salts == 0
    changes = learners.hardened(pictures, locked, octave, 0)
    found = learners.spanned(codes[own], pictures.bits[own], changes[own], octave)
    assert cosines(found, locked, 0).mean() > 0.9


def test_a_network_is_learned_from_but_not_steered(rng):
    class Network(ImageHash):
        name, input_size = "network", (32, 32)

        def logits(self, images):
            raise NotImplementedError

    codes = rng.standard_normal((700, 256)).astype(np.float32)
    scale = learners.Scale(told=(100,), hidden=((64, (200,)),), more_salts=(), serials=20)
    *_, figures = learners.key_learning(codes, Network(), 0, scale)
    assert figures["originals"] == figures["dictionary"] == {}
    [row] = figures["told"].values()
    assert row["plain"]["bits_right"] > 0.6
    assert "steered" not in row
    assert figures["safe"]["hidden"].keys() == {"64"}
    assert "told, 100: 0." in learners.summary(figures)
