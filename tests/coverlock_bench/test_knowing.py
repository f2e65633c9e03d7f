from __future__ import annotations

import numpy as np
import pytest

from coverlock_bench.attacks.optimisation import Optimisation
from coverlock_bench.keyed import key_of
from coverlock_bench.knowing.codes import Released, Vendor
from coverlock_bench.knowing.collusion import Collusion
from coverlock_bench.knowing.correlation import Correlation
from coverlock_bench.knowing.hardened import HardeningPushes, OneRotation, sparsest_rotation
from coverlock_bench.knowing.hidden_salts import first_guess
from coverlock_bench.knowing.known_map import KnownMap
from coverlock_bench.knowing.linear import Ridge
from coverlock_bench.knowing.queries import BlendWalk, PValueClimb, Service
from coverlock_bench.knowing.reembedding import Reembedding
from coverlock_bench.known_originals import known_originals
from coverlock_bench.ledger import Session
from coverlock_bench.photos import to_float
from coverlock_sdk import Calibration, Watermark
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.testing import natural_pictures

HASH = Calibration(scale=3.0, power=0.5)


def logits(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 256)).astype(np.float32)


def vendor(scheme: str) -> Vendor:
    return Vendor.of(key_of(scheme), 64, HASH, 1e-6)


def forged(scheme: str, attack, count: int) -> int:
    rng, vendors, targets = np.random.default_rng(0), vendor(scheme), logits(20, 1)
    released = vendors.release(logits(count, 2), "victim", rng)
    payloads = attack.payloads(released, targets, rng)
    return sum(v.accepted for v in vendors.verify(payloads, targets, "victim", rng))


@pytest.mark.parametrize("scheme", ["keyless", "scheme 1", "scheme 2"])
def test_what_the_vendor_releases_verifies(scheme: str) -> None:
    rng, vendors, hashed = np.random.default_rng(0), vendor(scheme), logits(20, 2)
    released = vendors.release(hashed, "victim", rng)
    assert all(v.accepted for v in vendors.verify(released.payloads, hashed, "victim", rng))


@pytest.mark.parametrize("scheme", ["keyless", "scheme 1", "scheme 2"])
def test_whoever_has_the_map_forges_from_one_picture(scheme: str) -> None:
    assert forged(scheme, KnownMap(vendor(scheme).judge, "victim"), 1) == 20


def test_counting_recovers_a_key_of_scheme_1_and_none_of_scheme_2() -> None:
    assert forged("scheme 1", Correlation(), 30) == 20
    assert forged("scheme 2", Correlation(), 30) == 0


@pytest.mark.parametrize("attack", [Ridge(), Reembedding(), Reembedding(nearest=False)], ids=repr)
def test_five_hundred_pictures_are_not_enough_against_scheme_2(attack) -> None:
    assert forged("scheme 2", attack, 500) == 0


def test_identifiers_share_a_map_under_scheme_1_only() -> None:
    for scheme, expected in {"scheme 1": 20, "scheme 2": 0}.items():
        rng, vendors = np.random.default_rng(3), vendor(scheme)
        pools = [vendors.release(logits(2, 10 + i), f"colluder {i}", rng) for i in range(60)]
        assert forged(scheme, Collusion(pools), 1) == expected


def test_pictures_of_one_salt_are_found_by_how_their_payloads_agree() -> None:
    rng = np.random.default_rng(0)
    truth, centre = rng.integers(0, 2, 400), rng.standard_normal(256)
    hashed = (centre * rng.choice([-1, 1], (400, 1)) + rng.standard_normal((400, 256))) / 2
    maps = [np.linalg.qr(rng.standard_normal((256, 64)))[0] for _ in range(2)]
    payloads = np.stack([row @ maps[salt] > 0 for row, salt in zip(hashed, truth, strict=True)])
    seen = Released(hashed.astype(np.float32), payloads.astype(np.uint8))
    guess = first_guess(seen.directions, seen.signs, 2, rng)
    assert max((guess == truth).mean(), (guess != truth).mean()) > 0.9


def test_directions_show_in_sparse_sums_of_them() -> None:
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((24, 24)))[0]
    sparse = rng.standard_normal((600, 24)) * (rng.random((600, 24)) < 0.1)
    found = sparsest_rotation(sparse @ truth, 60, rng)
    assert np.abs(found @ truth.T).max(axis=0).min() > 0.95


@pytest.mark.slow
def test_turns_keep_the_directions_of_hardened_pictures_secret() -> None:
    for judge, expected in ((OneRotation, range(15, 21)), (Judge, range(1))):
        rng = np.random.default_rng(0)
        vendors = Vendor.of(key_of("scheme 2"), 64, HASH, 1e-6, judge)
        _, code_map, _, _ = vendors.judge.terms("victim", vendors.judge.keys[0])
        released, targets = vendors.release(logits(1200, 2), "victim", rng), logits(20, 1)
        bound = HardeningPushes(vendors.judge.format, code_map, steps=40)
        payloads = bound.payloads(released, targets, rng)
        verdicts = vendors.verify(payloads, targets, "victim", rng)
        assert sum(v.accepted for v in verdicts) in expected


@pytest.mark.parametrize("scheme", ["scheme 1", "scheme 2"])
@pytest.mark.parametrize("attack", [PValueClimb(), BlendWalk()], ids=repr)
def test_a_service_that_answers_without_limit_is_an_oracle(scheme: str, attack) -> None:
    rng, vendors, [source, target] = np.random.default_rng(0), vendor(scheme), logits(2, 5)
    released = vendors.release(source[None], "victim", rng)

    def ask(blend: float, payload: np.ndarray):
        hashed = ((1 - blend) * source + blend * target)[None]
        shown = 2 * payload[None].astype(np.float32) - 1
        return vendors.judge.verify(shown, hashed, "victim")[0]

    assert attack.forged(Service(ask, 3000), released.payloads[0], rng)
    assert not attack.forged(Service(ask, 10), released.payloads[0], rng)


def test_an_average_over_known_originals_removes_bare_marks_and_fewer_locked_ones(additive):
    photos = list(natural_pictures(18, (128, 128), seed=5))
    found = {
        defense: known_originals(additive, defense, photos, 6, 1e-6, Session())
        for defense in ("none", "coverlock-keyed")
    }
    bare, locked = found["none"], found["coverlock-keyed"]
    assert bare["genuine"]["successes"] == bare["averaged"]["successes"] == 6
    assert bare["cleaned 1"]["successes"] == 0
    assert locked["genuine"]["successes"] == 6
    assert locked["cleaned 1"]["successes"] > 2
    assert locked["averaged"]["successes"] == locked["single"]["successes"] == 0


def test_pictures_can_be_written_with_a_decoder_alone():
    torch = pytest.importorskip("torch")

    class Projections(Watermark):
        """Reads the signs of projections of the picture, and says how."""

        name, bits, native_size = "projections", 16, (64, 64)
        module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 64, 16))

        def embed(self, images, payloads):
            raise AssertionError("an attacker with the decoder alone has no encoder")

        def decode(self, images):
            return self.module(torch.from_numpy(images)).detach().numpy()

        def decoder_module(self):
            return self.module

    torch.manual_seed(0)
    watermark = Projections()
    pictures = np.stack([to_float(p) for p in natural_pictures(3, (64, 64), seed=2)])
    forged = Optimisation().forge(pictures[:1], pictures[1:], watermark=watermark)
    read = watermark.decode(forged) > 0
    assert (read == (watermark.decode(pictures[:1]) > 0)).mean() > 0.9
    assert -10 * np.log10(((forged - pictures[1:]) ** 2).mean()) > 30
