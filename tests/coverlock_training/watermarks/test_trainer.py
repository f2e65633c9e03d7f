"""One trainer for every watermark network."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_plugins.networks.network import WatermarkNetwork  # noqa: E402
from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_training.muon import Muon  # noqa: E402
from coverlock_training.watermarks.noise import EVERYDAY, Mixed  # noqa: E402
from coverlock_training.watermarks.photos import TrainingPhotos  # noqa: E402
from coverlock_training.watermarks.trainer import WatermarkRecipe, WatermarkTraining  # noqa: E402
from tests.conftest import saved_pictures  # noqa: E402

RECIPE = WatermarkRecipe(batch=4, steps=4, record_every=2, rate=1e-2)


class Patterns(WatermarkNetwork):
    """A learned pattern a bit, added; read back by a learned projection."""

    def __init__(self, bits: int = 4, size: int = 48) -> None:
        super().__init__(bits, size)
        torch.manual_seed(3)
        self.patterns = torch.nn.Linear(bits, 3 * size * size, bias=False)
        self.reading = torch.nn.Linear(3 * size * (size - 1), bits)

    def encode(self, images, messages):
        return images + 0.05 * self.patterns(2 * messages - 1).view_as(images)

    def decode(self, images):
        return self.reading(images.diff(dim=3).flatten(1))  # neighbours, to see past the cover


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_pictures(tmp_path_factory.mktemp("photos"), 12, (64, 72), 5)


@pytest.fixture
def photos(folder, tmp_path):
    return TrainingPhotos(sorted(folder.iterdir()), 48, tmp_path / "cache")


def train(*given) -> WatermarkTraining:
    training = WatermarkTraining(*given)
    training.run()
    return training


def weights(network: WatermarkNetwork) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in network.parameters()]).numpy()


def test_a_network_learns_its_message(photos, tmp_path):
    network = Patterns()
    run = train(network, photos, replace(RECIPE, steps=100, rate=3e-4), tmp_path / "run")
    accuracy = [record["accuracy"] for record in run.history.steps]
    assert np.mean(accuracy[-20:]) > 0.95 > np.mean(accuracy[:10])


def test_a_run_under_two_recipes_remembers_both(photos, tmp_path):
    small, folder = replace(RECIPE, batch=2, steps=2), tmp_path / "run"
    train(Patterns(), photos, small, folder)
    run = train(Patterns(), photos, RECIPE, folder)
    assert [(s.from_step, s.steps, s.recipe["batch"]) for s in run.sittings] == [
        (0, 2, 2),
        (2, 2, 4),
    ]
    assert run.seen()["images_seen"] == 2 * 2 + 2 * 4
    again = train(Patterns(), photos, replace(RECIPE, image_weight=9.0), folder)  # nothing to do
    assert again.sittings == run.sittings


def test_a_checkpoint_that_does_not_fit_names_the_way_out(photos, tmp_path):
    train(Patterns(), photos, replace(RECIPE, steps=2), tmp_path / "run")
    for network, recipe in (
        (Patterns(bits=8), RECIPE),
        (Patterns(), replace(RECIPE, optimizer="muon")),
    ):
        with pytest.raises(CoverLockError, match=r"made with other settings: name another run"):
            train(network, photos, recipe, tmp_path / "run")


def test_a_gradient_that_is_not_finite_never_reaches_the_checkpoint(photos, tmp_path):
    class Rooted(Patterns):
        def decode(self, images):
            return super().decode(images) + (0 * self.reading.bias).sum().sqrt()  # 0, slope inf

    sound = Patterns()
    train(sound, photos, replace(RECIPE, steps=2), tmp_path / "run")
    with pytest.raises(CoverLockError, match=r"the gradient is nan at step 2, .* last checkpoint"):
        train(Rooted(), photos, RECIPE, tmp_path / "run")
    again = Patterns()
    train(again, photos, replace(RECIPE, steps=2), tmp_path / "run")
    np.testing.assert_array_equal(weights(again), weights(sound))


@pytest.mark.parametrize(
    "change", [{"batch": 3, "inverted_twins": True}, {"batch": 0}, {"early_fidelity": 0.0}]
)
def test_recipes_that_cannot_be_meant_are_refused(change):
    with pytest.raises(CoverLockError, match="batch|early fidelity"):
        replace(RECIPE, **change)


LAYERS = (*EVERYDAY, Mixed(EVERYDAY))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_noise_keeps_size_and_gradient_and_repeats_itself(layer):
    pictures = torch.from_numpy(natural_pictures(2, (32, 32), seed=2)).permute(0, 3, 1, 2) / 255
    marked = (pictures * 0.9).requires_grad_()
    noised = layer(marked, pictures, np.random.default_rng(1))
    assert noised.shape == marked.shape
    noised.mean().backward()
    assert marked.grad is not None
    assert marked.grad.abs().sum() > 0
    torch.testing.assert_close(noised, layer(marked, pictures, np.random.default_rng(1)))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_both_optimizers_resume_exactly(photos, tmp_path, optimizer):
    recipe = replace(RECIPE, optimizer=optimizer, steps=6)
    whole = train(Patterns(), photos, recipe, tmp_path / "whole")
    train(Patterns(), photos, replace(recipe, steps=4), tmp_path / "halves")
    resumed = train(Patterns(), photos, recipe, tmp_path / "halves")
    np.testing.assert_array_equal(weights(whole.model), weights(resumed.model))
    assert type(whole.optimizer) is {"adamw": torch.optim.AdamW, "muon": Muon}[optimizer]


def test_photos_are_cropped_and_drawn_by_the_seed(photos):
    one, same = (photos.batch(4, np.random.default_rng(7)) for _ in range(2))
    assert one.shape == (4, 3, 48, 48)
    assert 0 <= one.min() <= one.max() <= 1
    torch.testing.assert_close(one, same)
