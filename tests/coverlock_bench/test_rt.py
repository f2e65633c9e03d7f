import numpy as np
import pytest

from coverlock_bench.rt import residual_transferability, transferability_curve
from coverlock_sdk import Watermark


class ContentBound(Watermark):
    """Its mark is the message XOR something that every picture has of its own."""

    name = "content-bound"
    bits = 16
    native_size = (64, 64)

    def _own(self, images):
        """The signs of coarse differences, which a small residual does not touch."""
        coarse = images.mean(axis=1).reshape(len(images), 8, 8, 8, 8).mean(axis=(2, 4))
        return np.sign(np.diff(coarse, axis=2).reshape(len(images), -1)[:, :16])

    def _pattern(self):
        return np.linalg.qr(np.random.RandomState(0).standard_normal((4096, 16)))[0].T * 64

    def embed(self, images, payloads):
        signs = (2.0 * payloads - 1) * self._own(images)
        return np.clip(images + 0.02 * (signs @ self._pattern()).reshape(-1, 1, 64, 64), 0, 1)

    def decode(self, images):
        grey = images.mean(axis=1)
        fine = grey - grey.reshape(-1, 8, 8, 8, 8).mean(axis=(2, 4)).repeat(8, 1).repeat(8, 2)
        return (fine.reshape(len(images), -1) @ self._pattern().T) * self._own(images)


def test_a_fixed_pattern_transfers_and_a_bound_one_does_not(additive, photos):
    free = residual_transferability(additive, photos, sources=4, targets=6, messages=3)
    bound = residual_transferability(ContentBound(), photos, sources=1, targets=6, messages=6)
    assert free.rt > 0.9
    assert bound.rt < 0.5
    assert free.low <= free.rt <= free.high


def test_a_curve_goes_as_far_as_the_pictures_do(additive, photos):
    curve = transferability_curve(additive, photos, counts=(1, 4, 100), targets=4, messages=2)
    assert curve.missing == {100: 92}
    assert [point.sources for point in curve.points] == [1, 4]
    alone = residual_transferability(additive, photos, sources=4, targets=4, messages=2)
    assert curve.points[1].rt == pytest.approx(alone.rt, abs=0.05)
