"""A hash that was told templates reads pictures of them by how they differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import CoverLockError, load_hash, wrap
from coverlock_sdk.cli.train import train
from coverlock_sdk.cli.train_templates import examples_in
from coverlock_sdk.errors import (
    CorruptModelError,
    CrowdFileError,
    MissingModelError,
    PictureError,
)
from coverlock_sdk.hashing.crowd import crowd_of
from coverlock_sdk.hashing.templates import Templates
from coverlock_sdk.images.distortions import EVALUATION, Crop
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.testing import natural_pictures
from coverlock_sdk.training.crowd import make_crowd
from coverlock_sdk.training.kinds.catalogue import KINDS
from coverlock_sdk.training.templates import learn_templates
from tests.conftest import AdditiveMark

Pictures = list[np.ndarray]

EXAMPLES = 8


def forms(count: int, template: int = 3) -> Pictures:
    """Pictures of one form, filled in differently."""

    def no_photo(rng: np.random.Generator) -> Image.Image:
        return Image.new("RGB", (64, 64), (128, 128, 128))

    drawn = [KINDS["forms"].draw("validation", template, c, no_photo) for c in range(count)]
    return [np.asarray(picture.resize((256, 256))) for picture in drawn]


def agreement(name: str, pictures: Pictures, **options: object) -> float:
    """The share of bits in which two different pictures agree."""
    signs = np.sign(picture_logits(load_hash(name, **options), pictures))
    pairs = (signs @ signs.T)[np.triu_indices(len(signs), 1)] / signs.shape[1]
    return float(0.5 + 0.5 * pairs.mean())


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return forms(EXAMPLES + 6)


@pytest.fixture(scope="module")
def others(pictures: Pictures) -> Pictures:
    """Those that the hash was not told of."""
    return pictures[EXAMPLES:]


@pytest.fixture(scope="module")
def examples(pictures: Pictures, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "forms"
    folder.mkdir()
    for index, picture in enumerate(pictures[:EXAMPLES]):
        Image.fromarray(picture).save(folder / f"{index}.png")
    return folder


@pytest.fixture(scope="module")
def file(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("told") / "forms.safetensors"
    train.main(["templates", str(examples), "-o", str(out)], standalone_mode=False)
    return out


def test_pictures_of_a_known_template_are_told_apart(file: Path, others: Pictures) -> None:
    assert agreement("keen", others) > 0.75
    assert agreement("templates", others, file=file) < 0.62


def test_other_pictures_keep_their_codes(file: Path) -> None:
    photos = list(natural_pictures(6, (192, 192), seed=5))
    plain, told = (
        picture_logits(image_hash, photos)
        for image_hash in (load_hash("keen"), load_hash("templates", file=file))
    )
    assert ((plain > 0) == (told > 0)).all()


def test_a_distorted_picture_keeps_most_of_its_code(file: Path, others: Pictures) -> None:
    told, rng = load_hash("templates", file=file), np.random.default_rng(0)
    codes = picture_logits(told, others) > 0
    for name, most in (("noise", 0.12), ("blur", 0.12), ("jpeg", 0.12), ("crop", 0.35)):
        changed = picture_logits(told, [EVALUATION[name](p, rng) for p in others]) > 0
        assert (codes != changed).mean() < most, name
    assert EVALUATION["crop"] == Crop(0.8)


def test_a_mark_no_longer_passes_from_one_form_to_another(
    file: Path, others: Pictures, additive: AdditiveMark
) -> None:
    def passes(**lock: object) -> int:
        locked = wrap(additive, **lock)
        marked = locked.embed(others[0], "order-4711")
        assert locked.verify(marked, "order-4711")
        residual = marked.astype(int) - others[0]
        forged = [np.clip(p + residual, 0, 255).astype(np.uint8) for p in others[1:]]
        return sum(map(bool, locked.verify(forged, "order-4711")))

    assert passes() > passes(hash=load_hash("templates", file=file)) == 0


def test_gradients_and_network_are_those_of_the_hash(file: Path, others: Pictures) -> None:
    torch = pytest.importorskip("torch")
    told = load_hash("templates", file=file)
    photo = natural_pictures(1, told.input_size, seed=8)[0]
    form = np.asarray(Image.fromarray(others[0]).resize(told.input_size))
    views = np.stack([photo, form]).transpose(0, 3, 1, 2).astype(np.float32) / 255
    weights = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)

    logits, gradient = told.differentiable()(views)
    tensor = torch.from_numpy(views).requires_grad_()
    seen = told.module()(tensor)
    torch.autograd.backward(seen, torch.from_numpy(weights))

    np.testing.assert_allclose(logits, told.logits(views), atol=1e-4)
    np.testing.assert_allclose(seen.detach().numpy(), logits, atol=2e-3)
    for found, expected in zip(gradient(weights), tensor.grad.numpy(), strict=True):
        assert np.abs(found - expected).max() < 2e-3 * np.abs(expected).max()


def test_a_gradient_is_carried_through_the_gate_of_near_templates() -> None:
    """Halfway, where the share of a mean that is taken off changes with the picture."""
    rng = np.random.default_rng(3)
    means = rng.standard_normal((2, 256)).astype(np.float32)
    means[1] = means[0] + 0.3 * means[1]
    templates = Templates("keen", means, np.zeros(32, np.uint8))
    logits = (0.66 * means[:1] + rng.standard_normal((1, 256))).astype(np.float32)
    left = logits - templates.without(logits)
    assert 0.1 < np.linalg.norm(left) / np.linalg.norm(means[0]) < 0.9
    weights, step = rng.standard_normal((1, 256)).astype(np.float32), 1e-3
    direction = rng.standard_normal((1, 256)).astype(np.float32)
    ahead, behind = (templates.without(logits + s * direction) for s in (step, -step))
    slope = float(((ahead - behind) * weights).sum() / (2 * step))
    pulled = float((templates.pull(logits, weights) * direction).sum())
    assert slope == pytest.approx(pulled, rel=0.02)


def test_the_command_says_what_it_brought(
    examples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "told.safetensors"
    train.main(["templates", str(examples.parent), "-o", str(out)], standalone_mode=False)
    said = capsys.readouterr().out
    assert f"--hash templates:file={out}" in said
    assert "forms: two of 8 examples agreed in" in said
    with pytest.raises(CoverLockError, match="exists, and pictures may have been marked"):
        train.main(["templates", str(examples), "-o", str(out)], standalone_mode=False)


def test_how_much_is_taken_off_does_not_depend_on_how_many_templates_are_alike() -> None:
    rng = np.random.default_rng(4)
    mean = rng.standard_normal((1, 256)).astype(np.float32)
    logits = (0.5 * mean + rng.standard_normal((3, 256))).astype(np.float32)
    once, often = (
        Templates("keen", np.repeat(mean, count, axis=0), np.zeros(32, np.uint8)).without(logits)
        for count in (1, 200)
    )
    np.testing.assert_allclose(once, often, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a,b.safetensors", "end at a comma"), ("none/a.safetensors", "there is no folder")],
)
def test_outputs_that_cannot_be_used_are_refused_before_the_work(
    name: str, reason: str, examples: Path, tmp_path: Path
) -> None:
    with pytest.raises(CoverLockError, match=reason):
        train.main(["templates", str(examples), "-o", str(tmp_path / name)], standalone_mode=False)


def test_folders_are_templates_and_those_without_pictures_are_passed_over(
    examples: Path, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "two"
    for folder in (one, other, tmp_path / "notes", tmp_path / ".git"):
        folder.mkdir()
    for number in range(2):
        (one / f"{number}.png").write_bytes((examples / f"{number}.png").read_bytes())
        (other / f"{number}.png").write_bytes((examples / f"{number}.png").read_bytes())
    assert {name: len(paths) for name, paths in examples_in(tmp_path).items()} == {
        "one": 2,
        "two": 2,
    }
    (tmp_path / "loose.png").write_bytes((examples / "0.png").read_bytes())
    with pytest.raises(PictureError, match="pictures and folders of pictures"):
        examples_in(tmp_path)
    with pytest.raises(PictureError, match="contains no pictures"):
        examples_in(tmp_path / "notes")


def test_too_few_examples_are_one_sentence(examples: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for number in range(3):
        (few / f"{number}.png").write_bytes((examples / f"{number}.png").read_bytes())
    with pytest.raises(CoverLockError, match="the template 'few' has 3 pictures: 4 examples"):
        train.main(["templates", str(few), "-o", str(tmp_path / "o")], standalone_mode=False)


def test_files_that_hold_no_templates_are_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(CoverLockError, match="needs a file"):
        load_hash("templates")
    with pytest.raises(MissingModelError, match="coverlock train templates"):
        load_hash("templates", file=tmp_path / "none.safetensors")
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CorruptModelError, match="does not hold templates"):
        load_hash("templates", file=damaged)
    good = Templates.load(file)
    replace(good, means=good.means * np.float32(np.nan)).save(damaged)
    with pytest.raises(CorruptModelError, match="damaged"):
        load_hash("templates", file=damaged)
    replace(good, probe=~good.probe).save(damaged)
    with pytest.raises(CorruptModelError, match="other weights"):
        load_hash("templates", file=damaged)


def test_a_told_hash_cannot_be_told_again(file: Path, examples: Path, tmp_path: Path) -> None:
    told = load_hash("templates", file=file)
    with pytest.raises(CoverLockError, match="was told templates already: name 'keen'"):
        learn_templates(told, examples_in(examples))
    with pytest.raises(CoverLockError, match="it has the crowd of 'keen'"):
        make_crowd(told, [], tmp_path)


def test_it_has_the_reference_crowd_of_the_plain_hash_but_own_codes_apart(
    file: Path, tmp_path: Path, additive: AdditiveMark
) -> None:
    told = load_hash("templates", file=file)
    assert told.name.startswith("keen~")
    crowd = crowd_of(told)
    assert crowd is not None
    assert len(crowd) > 4000
    wrap(additive, hash="keen", crowd=tmp_path / "own.crowd")
    with pytest.raises(CrowdFileError, match="another hash"):
        wrap(additive, hash=told, crowd=tmp_path / "own.crowd")
