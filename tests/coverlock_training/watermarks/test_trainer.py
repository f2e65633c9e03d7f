"""One trainer for every watermark network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_plugins.networks.network import Discriminator, WatermarkNetwork  # noqa: E402
from coverlock_sdk.errors import CoverLockError  # noqa: E402
from coverlock_sdk.testing import natural_pictures  # noqa: E402
from coverlock_training.muon import Muon  # noqa: E402
from coverlock_training.watermarks import trainer  # noqa: E402
from coverlock_training.watermarks.examination import examine, quality  # noqa: E402
from coverlock_training.watermarks.noise import EVERYDAY, Brightness, Gaussian, Mixed  # noqa: E402
from coverlock_training.watermarks.photos import TrainingPhotos  # noqa: E402
from coverlock_training.watermarks.trainer import WatermarkRecipe, WatermarkTraining, train  # noqa: E402

RECIPE = WatermarkRecipe(batch=4, steps=4, record_every=2, rate=1e-2)


class Patterns(WatermarkNetwork):
    """A learned pattern a bit, added; read back by a learned projection."""

    def __init__(self, bits: int = 4, size: int = 48) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.bits, self.size = bits, size
        self.settings = {"bits": bits, "size": size}
        self.patterns = torch.nn.Linear(bits, 3 * size * size, bias=False)
        self.reading = torch.nn.Linear(3 * size * (size - 1), bits)

    def encode(self, images, messages):
        return images + 0.05 * self.patterns(2 * messages - 1).view_as(images)

    def decode(self, images):
        return self.reading(images.diff(dim=3).flatten(1))  # neighbours, to see past the cover


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for index, picture in enumerate(natural_pictures(12, (64, 72), seed=5)):
        Image.fromarray(picture).save(folder / f"{index}.png")
    return folder


@pytest.fixture
def photos(folder: Path, tmp_path: Path) -> TrainingPhotos:
    return TrainingPhotos(sorted(folder.iterdir()), 48, tmp_path / "cache")


def weights(network: WatermarkNetwork) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in network.parameters()]).numpy()


def test_a_network_learns_its_message(photos: TrainingPhotos, tmp_path: Path) -> None:
    network = Patterns()
    run = train(network, photos, replace(RECIPE, steps=100, rate=3e-4), tmp_path / "run")
    accuracy = [record["accuracy"] for record in run.history.steps]
    assert np.mean(accuracy[-20:]) > 0.95 > np.mean(accuracy[:10])


def test_a_step_may_see_a_piece_of_each_cover(photos: TrainingPhotos, tmp_path: Path) -> None:
    def covers(piece: int, seed: int = 0) -> torch.Tensor:
        recipe = replace(RECIPE, piece=piece)
        training = WatermarkTraining(Patterns(), photos, recipe, tmp_path / "run")
        return training.draw(0, np.random.default_rng(seed))[0]

    whole, piece = covers(0), covers(32)
    assert whole.shape[2:] == (48, 48)
    assert piece.shape == (*whole.shape[:2], 32, 32)
    places = [(top, left) for top in range(17) for left in range(17)]
    found = [p for p in places if (whole[:, :, p[0] : p[0] + 32, p[1] : p[1] + 32] == piece).all()]
    assert len(found) == 1
    torch.testing.assert_close(covers(48), whole)
    with pytest.raises(CoverLockError, match="-1 pixels a side"):
        replace(RECIPE, piece=-1)
    with pytest.raises(CoverLockError, match="49 pixels a side: covers have 48"):
        covers(49)


def test_batch_statistics_settle_before_the_end(photos: TrainingPhotos, tmp_path: Path) -> None:
    def statistics(settled: int) -> list[float]:
        network, seen = Patterns(), []
        network.add_module("norm", torch.nn.BatchNorm2d(3))
        network.decode = lambda images: Patterns.decode(network, network.norm(images))  # type: ignore[method-assign]
        recipe = replace(RECIPE, steps=6, settled=settled)
        train(
            network,
            photos,
            recipe,
            tmp_path / str(settled),
            report=lambda step, figures: seen.append(float(network.norm.running_mean[0])),
        )
        return seen

    unsettled, settled = statistics(0), statistics(2)
    assert settled[:4] == unsettled[:4]
    assert len(set(unsettled)) > 5
    assert len(set(settled[3:])) == 1


def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
    noisy = replace(RECIPE, noise=EVERYDAY, adversarial_weight=1e-3)
    whole, first, second = Patterns(), Patterns(), Patterns()
    torch.manual_seed(0)
    train(whole, photos, noisy, tmp_path / "whole")
    torch.manual_seed(0)
    train(first, photos, replace(noisy, steps=2), tmp_path / "parts")
    train(second, photos, noisy, tmp_path / "parts")
    np.testing.assert_allclose(weights(second), weights(whole), atol=1e-6)
    curves = json.loads((tmp_path / "parts" / "history.json").read_text())
    assert [record["step"] for record in curves["steps"]] == [0, 1, 2, 3]


def test_a_run_that_was_interrupted_is_one_sitting(photos: TrainingPhotos, tmp_path: Path) -> None:
    def interrupt(step: int, figures: dict[str, float]) -> None:
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Patterns(), photos, RECIPE, tmp_path / "run", report=interrupt)
    run = train(Patterns(), photos, RECIPE, tmp_path / "run")
    [sitting] = run.sittings
    assert (sitting.from_step, sitting.steps, run.seen()["images_seen"]) == (0, 4, 16)


def test_a_run_under_two_recipes_remembers_both(photos: TrainingPhotos, tmp_path: Path) -> None:
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


def test_a_checkpoint_that_does_not_fit_names_the_way_out(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
    train(Patterns(), photos, replace(RECIPE, steps=2), tmp_path / "run")
    for network, recipe in (
        (Patterns(bits=8), RECIPE),
        (Patterns(), replace(RECIPE, adversarial_weight=1e-3)),
    ):
        with pytest.raises(CoverLockError, match=r"made with other settings: name another run"):
            train(network, photos, recipe, tmp_path / "run")


def test_a_checkpoint_of_another_device_goes_on_here(
    photos: TrainingPhotos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(Patterns(), photos, replace(RECIPE, steps=2), tmp_path / "run")
    load, places = torch.load, []

    def watched(file: Path, map_location: str | None = None, **options: Any) -> Any:
        places.append(map_location)
        return load(file, map_location=map_location, **options)

    monkeypatch.setattr(torch, "load", watched)
    train(Patterns(), photos, RECIPE, tmp_path / "run")
    assert places == ["cpu"]


def test_a_loss_that_is_not_finite_stops_and_says_where(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
    class Broken(Patterns):
        def decode(self, images):
            return super().decode(images) * float("nan")

    with pytest.raises(CoverLockError, match=r"nan at step 0, learning rate 0.01; there is no"):
        train(Broken(), photos, RECIPE, tmp_path / "run")


def test_a_gradient_that_is_not_finite_never_reaches_the_checkpoint(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
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


def test_a_discriminator_whose_gradient_is_not_finite_stops_the_run(
    photos: TrainingPhotos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rooted(Discriminator):
        def forward(self, images):
            return super().forward(images) + (0 * self.linear.bias).sum().sqrt()

    monkeypatch.setattr(trainer, "Discriminator", Rooted)
    with pytest.raises(CoverLockError, match="the gradient of the discriminator is nan at step 0"):
        train(Patterns(), photos, replace(RECIPE, adversarial_weight=1e-3), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoint.pt").exists()


def test_fidelity_may_come_second() -> None:
    recipe = WatermarkRecipe(message_first=100)
    shares = [recipe.fidelity_at(step) for step in (0, 100, 150, 200, 5000)]
    assert shares == pytest.approx([0.02, 0.02, 0.02**0.5, 1, 1])
    assert WatermarkRecipe().fidelity_at(0) == 1


def test_a_network_is_told_how_much_fidelity_counts(photos: TrainingPhotos, tmp_path: Path) -> None:
    class Told(Patterns):
        told: tuple[float, ...] = ()

        def relax(self, fidelity: float) -> None:
            self.told = (*self.told, round(fidelity, 3))

    network = Told()
    recipe = replace(RECIPE, message_first=2, early_fidelity=0.25, record_every=10)
    train(network, photos, recipe, tmp_path / "run")
    assert network.told == (0.25, 0.25, 0.25, 0.5, 1.0)  # four steps, and then for use


def test_a_network_may_learn_from_what_pictures_went_through(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
    class Guessing(Patterns):
        def __init__(self) -> None:
            super().__init__()
            self.guess = torch.nn.Parameter(torch.zeros(()))
            self.seen: set[str] = set()

        def decode_in_training(self, images, noise):
            self.seen.add(type(noise).__name__)
            return self.decode(images), (self.guess - float(isinstance(noise, Gaussian))).square()

    network, noise = Guessing(), (Gaussian((0.1, 0.1)),)
    train(network, photos, replace(RECIPE, noise=noise, noise_after=2, rate=0.1), tmp_path / "run")
    assert network.seen == {"Identity", "Gaussian"}
    assert network.guess > 0


def test_twins_are_one_cover_with_a_message_and_its_inverse(
    photos: TrainingPhotos, tmp_path: Path
) -> None:
    class Watched(Patterns):
        def encode(self, images, messages):
            assert torch.equal(*images.chunk(2))
            one, other = messages.chunk(2)
            assert torch.equal(one, 1 - other)
            return super().encode(images, messages)

    run = train(Watched(), photos, replace(RECIPE, inverted_twins=True), tmp_path / "run")
    assert len(run.history.steps) == RECIPE.steps
    assert run.seen() == {"images_seen": 16, "covers_seen": 8}


@pytest.mark.parametrize(
    "change", [{"batch": 3, "inverted_twins": True}, {"batch": 0}, {"early_fidelity": 0.0}]
)
def test_recipes_that_cannot_be_meant_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CoverLockError, match="batch|early fidelity"):
        replace(RECIPE, **change)


@pytest.mark.parametrize("settled", [-1, 4])
def test_statistics_have_to_be_gathered_before_they_settle(settled: int) -> None:
    with pytest.raises(CoverLockError, match=f"{settled} of 4 steps cannot be settled"):
        replace(RECIPE, settled=settled)


def test_noise_may_wait() -> None:
    recipe = replace(RECIPE, noise=EVERYDAY, noise_after=2)
    assert [recipe.noise_at(step) for step in (0, 1, 2)] == [(), (), EVERYDAY]


def test_the_rate_falls_at_the_end() -> None:
    recipe = WatermarkRecipe(rate=1.0, steps=10, decay=4)
    assert [recipe.rate_at(step) for step in (0, 6, 8, 9)] == [1, 1, 0.5, 0.25]


LAYERS = (*EVERYDAY, Mixed(EVERYDAY))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_noise_keeps_size_and_gradient_and_repeats_itself(layer) -> None:
    pictures = torch.from_numpy(natural_pictures(2, (32, 32), seed=2)).permute(0, 3, 1, 2) / 255
    marked = (pictures * 0.9).requires_grad_()
    noised = layer(marked, pictures, np.random.default_rng(1))
    assert noised.shape == marked.shape
    noised.mean().backward()
    assert marked.grad is not None
    assert marked.grad.abs().sum() > 0
    torch.testing.assert_close(noised, layer(marked, pictures, np.random.default_rng(1)))


def test_mixed_noise_is_another_for_every_picture() -> None:
    white = torch.ones(40, 3, 4, 4)
    seen = Mixed((Brightness((0.5, 0.5)), Brightness((1.0, 1.0))))(
        white, white, np.random.default_rng(0)
    )
    dark = int((seen.mean((1, 2, 3)) == 0.5).sum())
    assert 10 < dark < 30
    assert int((seen.mean((1, 2, 3)) == 1.0).sum()) == 40 - dark


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_both_optimizers_resume_exactly(
    photos: TrainingPhotos, tmp_path: Path, optimizer: Any
) -> None:
    recipe = replace(RECIPE, optimizer=optimizer, steps=6)
    whole = train(Patterns(), photos, recipe, tmp_path / "whole")
    train(Patterns(), photos, replace(recipe, steps=4), tmp_path / "halves")
    resumed = train(Patterns(), photos, recipe, tmp_path / "halves")
    np.testing.assert_array_equal(weights(whole.model), weights(resumed.model))
    assert type(whole.optimizer) is {"adamw": torch.optim.AdamW, "muon": Muon}[optimizer]


def test_photos_are_cropped_and_drawn_by_the_seed(photos: TrainingPhotos) -> None:
    one, same = (photos.batch(4, np.random.default_rng(7)) for _ in range(2))
    assert one.shape == (4, 3, 48, 48)
    assert 0 <= one.min() <= one.max() <= 1
    torch.testing.assert_close(one, same)


def test_quality_is_of_saved_pictures(photos: TrainingPhotos) -> None:
    figures = quality(Patterns(), photos.batch(4, np.random.default_rng(0)))
    assert 0 <= figures["bit_accuracy"] <= 1
    assert 10 < figures["psnr_mean"] < 60
    calibration, robustness = examine(Patterns(), photos.batch(3, np.random.default_rng(0)))
    assert calibration.scale > 0
    assert list(robustness) == ["noise", "brightness", "blur", "jpeg", "contrast", "crop"]
