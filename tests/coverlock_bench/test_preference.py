import numpy as np
import pytest

torch = pytest.importorskip("torch")

from coverlock_bench.attacks.wmforger import PreferenceResidual  # noqa: E402
from coverlock_bench.preference.network import (  # noqa: E402
    PREFIXES,
    PUBLISHED,
    PreferenceNetwork,
    lift,
)
from coverlock_bench.preference.weights import import_official, load_preference  # noqa: E402
from coverlock_plugins.convnext.network import Shape  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402

SMALLEST = Shape((1, 1, 1, 1), (8, 8, 8, 8))


def test_lifting_raises_the_score_and_stays_a_picture():
    torch.manual_seed(0)
    network = PreferenceNetwork(SMALLEST).requires_grad_(False)
    images = torch.rand(2, 3, 64, 64)
    cleaned = lift(network, images, steps=5, rate=5.0)
    assert (network(cleaned) > network(images)).all()
    assert cleaned.min() >= 0
    assert cleaned.max() <= 1


def test_the_model_that_ships_lifts_something():
    marked = natural_pictures(1, (64, 64), seed=0).transpose(0, 3, 1, 2).astype(np.float32) / 255
    targets = np.full((2, 3, 96, 80), 0.5, np.float32)
    forged = PreferenceResidual(side=64, steps=2).forge(marked, targets)
    assert forged.shape == targets.shape
    assert 0 < np.abs(forged - targets).max() < 0.5


def _published_names(network: PreferenceNetwork) -> dict[str, torch.Tensor]:
    """A network's weights under the names of the authors' checkpoint."""
    renamed = {}
    for name, value in network.state_dict().items():
        theirs, ours = next(pair for pair in PREFIXES.items() if name.startswith(pair[1]))
        renamed[theirs + name.removeprefix(ours)] = value
    return renamed


def test_the_published_checkpoint_is_imported_by_its_names(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    torch.manual_seed(0)
    theirs = PreferenceNetwork(PUBLISHED)
    names = _published_names(theirs)
    assert names["convnext.stages.2.8.pwconv1.weight"].shape == (4 * 384, 384)
    assert names["pixel_decoder.linear.weight"].shape == (1, 768)
    torch.save({"model": names}, tmp_path / "theirs.pth")
    import_official(tmp_path / "theirs.pth")
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(load_preference("official")(images), theirs(images))
