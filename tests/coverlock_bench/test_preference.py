from __future__ import annotations

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
from coverlock_bench.preference.weights import (  # noqa: E402
    import_official,
    load_preference,
    shape_of,
)
from coverlock_plugins.convnext.network import Shape  # noqa: E402
from coverlock_sdk.errors import CorruptModelError, MissingModelError  # noqa: E402
from coverlock_sdk.models.checkpoints import write_weights  # noqa: E402
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


def test_a_saved_model_comes_back(tmp_path):
    network = PreferenceNetwork(SMALLEST)
    write_weights(tmp_path / "mine.safetensors", network.state_dict(), shape_of(network))
    again = load_preference(str(tmp_path / "mine.safetensors"))
    images = torch.rand(1, 3, 64, 64)
    torch.testing.assert_close(again(images), network(images))


def test_what_is_no_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock import wmforger"):
        load_preference("official")
    with pytest.raises(MissingModelError, match="there is no preference model 'nothing'"):
        load_preference("nothing")
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(CorruptModelError, match="cannot be read as a preference model"):
        load_preference(str(tmp_path / "broken.safetensors"))


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


def test_a_checkpoint_of_something_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    torch.save({"model": {"linear.weight": torch.zeros(2)}}, tmp_path / "other.pth")
    with pytest.raises(CorruptModelError, match="linear.weight"):
        import_official(tmp_path / "other.pth")
    torch.save({"weights": {}}, tmp_path / "nothing.pth")
    with pytest.raises(CorruptModelError, match="no 'model'"):
        import_official(tmp_path / "nothing.pth")
    assert not (tmp_path / "wmforger").exists()
