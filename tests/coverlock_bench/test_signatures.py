import numpy as np
import pytest

from coverlock_bench.auditing.signatures import feature_variation, residual_patterns
from coverlock_sdk import Watermark
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import stacked_views

torch = pytest.importorskip("torch")
nn = torch.nn


class Pooled(nn.Module):
    """Convolution, pooling, linear: the layout of HiDDeN's decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.answer = nn.Linear(8, 8)

    def forward(self, images):
        return self.answer(self.pool(self.features(images)).flatten(1))


class Sketch(Watermark):
    """Writes a bit into each of eight stripes, and adds what ``cover`` takes from the picture."""

    name = "sketch"
    bits = 8
    native_size = (32, 32)

    def __init__(self, cover: float = 0.0, decoder: nn.Module | None = None) -> None:
        self.cover, self.decoder = cover, decoder

    def embed(self, images, payloads):
        stripes = np.repeat(0.04 * (2.0 * payloads - 1), 4, axis=1)[:, None, :, None]
        own = self.cover * (np.roll(images, 7, axis=-1) - 0.5)
        return np.clip(images + stripes + own, 0, 1).astype(np.float32)

    def decode(self, images):
        return images.mean(axis=(1, 3)).reshape(len(images), 8, 4).mean(axis=2) - 0.5

    def decoder_module(self):
        return self.decoder


def test_residuals_that_ignore_covers_are_alike(photos):
    fixed = residual_patterns(Sketch(), photos)
    assert fixed.averaged.shape == (2, 3, 32, 32)
    assert fixed.averaged_correlation > 0.95
    bound = residual_patterns(Sketch(cover=0.5), photos)
    assert bound.single_correlation < 0.5 < fixed.single_correlation
    assert bound.averaged_correlation > bound.single_correlation  # what covers add averages out


def test_features_are_taken_before_pooling(photos):
    variation = feature_variation(Sketch(decoder=Pooled()), photos)
    assert variation.layer == "pool"
    assert variation.shape == (8, 32, 32)
    assert variation.cover + variation.message == pytest.approx(1)


def test_variation_by_hand(photos):
    """A decoder that averages every row sees stripes and covers, in shares NumPy agrees on."""
    rows = nn.Sequential(nn.AvgPool2d((1, 32)), nn.Conv2d(3, 8, 1))
    sketch = Sketch(decoder=rows)
    sketch.feature_layer = "1"
    variation = feature_variation(sketch, photos, covers=4, messages=3, seed=2)
    rng = np.random.default_rng(2)
    covers = photos[rng.permutation(len(photos))[:4]]
    payloads = rng.integers(0, 2, (3, 8), dtype=np.uint8)
    views = stacked_views([read(cover) for cover in covers], (32, 32))
    features = np.stack([sketch.embed(views, np.tile(p, (4, 1))).mean(axis=3) for p in payloads])
    over_covers = features.var(axis=1, ddof=1).sum() / 3
    over_messages = features.var(axis=0, ddof=1).sum() / 4
    assert variation.cover == pytest.approx(over_covers / (over_covers + over_messages), rel=1e-3)
