"""HiDDeN, MBRS and CIN: published layouts, imports, switches, and what the reference weights do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_plugins.cin import convert as convert_cin  # noqa: E402
from coverlock_plugins.cin.network import CinNetwork, Haar, UndecimatedHaar  # noqa: E402
from coverlock_plugins.cin.selector import JpegSelector  # noqa: E402
from coverlock_plugins.hidden import PublishedHidden  # noqa: E402
from coverlock_plugins.hidden import convert as convert_hidden  # noqa: E402
from coverlock_plugins.hidden.network import HiddenNetwork  # noqa: E402
from coverlock_plugins.mbrs import convert as convert_mbrs  # noqa: E402
from coverlock_plugins.mbrs.network import MbrsNetwork  # noqa: E402
from coverlock_plugins.networks.network import NoiseLayer, WatermarkNetwork  # noqa: E402
from coverlock_plugins.networks.weights import load_network, save_network  # noqa: E402
from coverlock_plugins.rivagan.network import RivaganNetwork  # noqa: E402
from coverlock_sdk import load_watermark  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import CorruptModelError, CoverLockError, MissingModelError  # noqa: E402
from coverlock_sdk.images.resampling import resample  # noqa: E402
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
from coverlock_training.watermarks.noise import Identity, Mixed, RealJpeg  # noqa: E402
from coverlock_training.watermarks.trainer import WatermarkTraining  # noqa: E402
from tests.coverlock_plugins import published_layouts  # noqa: E402
from tests.coverlock_plugins.scenes import eight_bit, scenes  # noqa: E402

SMALL: dict[str, Callable[[], WatermarkNetwork]] = {
    "hidden": lambda: HiddenNetwork(bits=8, size=32, channels=8),
    "hidden without broadcast": lambda: HiddenNetwork(8, 32, 8, broadcast=False),
    "hidden without pooling": lambda: HiddenNetwork(8, 32, 8, gap=False),
    "hidden without either": lambda: HiddenNetwork(8, 32, 8, broadcast=False, gap=False),
    "mbrs": lambda: MbrsNetwork(bits=16, size=32, channels=8),
    "mbrs with diffusion": lambda: MbrsNetwork(bits=10, size=32, channels=8, diffusion=64),
    "mbrs with broadcast and pooling": lambda: MbrsNetwork(16, 32, 8, broadcast_gap=True),
    "cin": lambda: CinNetwork(bits=8, size=32, couplings=2, growth=4, jpeg_channels=0),
    "cin with its second decoder": lambda: CinNetwork(8, 32, 2, 4, jpeg_channels=8),
    "cin with broadcast and pooling": lambda: CinNetwork(8, 32, 2, 4, 0, broadcast_gap=True),
    "rivagan": lambda: RivaganNetwork(bits=8, size=32, kernel=3),
    "rivagan with fixed attention": lambda: RivaganNetwork(8, 32, 3, fixed_attention=True),
}

PUBLISHED: dict[str, tuple[Callable[[], WatermarkNetwork], published_layouts.Layout]] = {
    "hidden": (HiddenNetwork, published_layouts.hidden()),
    "mbrs": (MbrsNetwork, published_layouts.mbrs()),
    "mbrs at 128 pixels": (lambda: MbrsNetwork(bits=256, size=128), published_layouts.mbrs(3)),
    "mbrs diffusion": (
        lambda: MbrsNetwork(bits=30, size=128, diffusion=256),
        published_layouts.mbrs_diffusion(),
    ),
    "cin": (CinNetwork, published_layouts.cin()),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_full_network_is_the_published_one(name: str) -> None:
    build, layout = PUBLISHED[name]
    with torch.device("meta"):
        state = build().state_dict()
    assert [(key, tuple(value.shape)) for key, value in state.items()] == layout


@pytest.mark.parametrize("name", SMALL)
def test_networks_keep_their_shapes_and_learn_through_both_ends(name: str) -> None:
    torch.manual_seed(0)
    network = SMALL[name]()
    images = torch.from_numpy(scenes(2))[:, :, :32, :32]
    messages = torch.randint(0, 2, (2, network.bits)).float()
    marked = network.encode(images, messages)
    assert marked.shape == images.shape
    for noise in (Identity(), RealJpeg((50, 50))):
        logits, own_loss = network.decode_in_training(marked, noise)
        assert logits.shape == messages.shape
        (logits.square().sum() + own_loss).backward(retain_graph=True)
    untrained = [n for n, p in network.named_parameters() if p.requires_grad and p.grad is None]
    assert untrained == []


@pytest.mark.parametrize("name", [name for name in SMALL if "broadcast and pooling" in name])
def test_broadcasting_lays_nothing_out_in_space(name: str) -> None:
    torch.manual_seed(0)
    network = SMALL[name]().eval()
    message = torch.randint(0, 2, (1, network.bits)).float()
    with torch.inference_mode():
        marked = network.encode(torch.full((1, 3, 96, 96), 0.5), message)
    inner = marked[:, :, 40:56, 40:56]  # borders differ
    torch.testing.assert_close(inner, inner[:, :, :1, :1].expand_as(inner))


@pytest.mark.parametrize("haar", [Haar(), UndecimatedHaar()])
def test_wavelets_of_cin_are_inverted(haar: Haar) -> None:
    images = torch.from_numpy(scenes(2))[:, :, :32, :32]
    torch.testing.assert_close(haar.inverse(haar(images)), images)


def test_every_bit_reaches_the_picture_that_cin_hides() -> None:
    torch.manual_seed(0)
    network = CinNetwork(16, 32, 2, 4, 0, broadcast_gap=True).eval()
    covers = torch.from_numpy(scenes(1))[:, :, :32, :32].expand(17, -1, -1, -1)
    messages = torch.cat([torch.zeros(1, 16), torch.eye(16)])
    with torch.inference_mode():
        pictures = network.message_picture(messages, covers).flatten(1)
    assert torch.linalg.matrix_rank(pictures[1:] - pictures[0]) == 16  # more than its 12 bands


@pytest.mark.slow
def test_the_selector_of_cin_is_taught_and_not_asked_in_training() -> None:
    torch.manual_seed(0)
    network = CinNetwork(8, 32, 2, 4, jpeg_channels=8)
    images = torch.from_numpy(scenes(4))[:, :, :32, :32].requires_grad_()
    optimizer = torch.optim.Adam(network.nsm_model.parameters(), lr=1e-4)
    losses = []
    for _ in range(4):
        logits, loss = network.decode_in_training(images, RealJpeg((50, 50)))
        assert torch.equal(logits, network.decode_jpeg(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert images.grad is None  # the mark is not to please the selector
    logits, loss = network.decode_in_training(images, Identity())
    assert torch.equal(logits, network.decode_by_inversion(images))
    assert loss.item() > losses[-1]  # after four batches of JPEG files
    with pytest.raises(CoverLockError, match="one noise a batch"):
        network.decode_in_training(images, Mixed((Identity(),)))


@pytest.mark.parametrize("name", SMALL)
def test_a_weight_file_is_enough_to_build_the_network(name: str, tmp_path: Path) -> None:
    network = SMALL[name]().eval()
    save_network(network, tmp_path / "w.safetensors")
    again = load_network(tmp_path / "w.safetensors", type(network))
    images = torch.from_numpy(scenes(1))[:, :, :32, :32]
    messages = torch.ones(1, network.bits)
    with torch.inference_mode():
        torch.testing.assert_close(again.encode(images, messages), network.encode(images, messages))


def published_noise(name: str) -> dict[str, NoiseLayer]:
    """The layers of a published recipe, by the name of their kind."""
    return {type(n).__name__: n for n in plugin_manager().get("network", name)().recipe.noise}


def test_a_third_of_the_pixels_stay_in_the_dropout_of_hidden() -> None:
    marked, covers = torch.ones(8, 3, 64, 64), torch.zeros(8, 3, 64, 64)
    noised = published_noise("hidden")["Dropout"](marked, covers, np.random.default_rng(0))
    assert 0.24 < noised.mean() < 0.36


def test_the_blur_of_cin_is_seven_pixels_wide() -> None:
    point = torch.zeros(1, 3, 31, 31)
    point[:, :, 15, 15] = 1
    blurred = published_noise("cin")["KernelBlur"](point, point, np.random.default_rng(0))
    assert ((blurred[0, 0] > 0).sum(dim=0) > 0).sum() == 7
    across = blurred[0, 0, 15, 12:19] / blurred[0, 0, 15, 15]
    places = torch.arange(-3, 4)
    torch.testing.assert_close(across, torch.exp(-places.square() / (2 * 2.0**2)))


def test_the_resizing_of_cin_repeats_pixels() -> None:
    pictures = torch.rand(1, 3, 32, 32)
    resized = published_noise("cin")["NearestResize"](pictures, pictures, np.random.default_rng(0))
    kept = pictures[:, :, ::2, ::2]
    assert torch.equal(resized, kept.repeat_interleave(2, 2).repeat_interleave(2, 3))


@pytest.mark.parametrize(("name", "blocks"), [("hidden", 3), ("mbrs", 4)])
def test_discriminators_are_as_deep_as_published(name: str, blocks: int, tmp_path: Path) -> None:
    recipe = plugin_manager().get("network", name)().recipe
    discriminator = WatermarkTraining(SMALL[name](), None, recipe, tmp_path).discriminator
    assert discriminator is not None
    assert len(discriminator.before_linear) == blocks


def test_couplings_and_haar_bands_are_inverted_exactly() -> None:
    network = SMALL["cin"]().double().eval()
    assert isinstance(network, CinNetwork)
    image, message = torch.rand(2, 1, 12, 8, 8, dtype=torch.float64)
    mixed = network.invertible_model(image, message)
    back = network.invertible_model.inverse(*mixed)
    torch.testing.assert_close(back, (image, message))
    picture = torch.rand(1, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(network.haar.inverse(network.haar(picture)), picture)


def test_haar_bands_come_with_all_colours_of_a_band_together() -> None:
    flat = torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1).expand(1, 3, 2, 2).contiguous()
    bands = SMALL["cin"]().haar(flat).flatten()  # type: ignore[operator]
    torch.testing.assert_close(bands, torch.tensor([0.1, 0.2, 0.3] + [0.0] * 9))


def test_the_selector_sees_the_dct_of_each_block_in_luma_and_chroma() -> None:
    dctn = pytest.importorskip("scipy.fft").dctn
    picture = np.random.default_rng(0).random((3, 16, 16))
    red, green, blue = 255 * picture
    planes = [
        0.299 * red + 0.587 * green + 0.114 * blue,
        -0.1687 * red - 0.3313 * green + 0.5 * blue,
        0.5 * red - 0.4187 * green - 0.0813 * blue,
    ]
    block = np.stack([dctn(plane[8:, :8], norm="ortho") for plane in planes])
    expected = block / np.linalg.norm(block, axis=0)
    spectrum = JpegSelector().spectrum(torch.from_numpy(picture[None]).float())[0]
    np.testing.assert_allclose(spectrum[:, 8:, :8].numpy(), expected, atol=1e-4)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="square"):
        MbrsNetwork(bits=30, size=128)
    with pytest.raises(ValueError, match="16 times a power of two"):
        CinNetwork(size=100)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_published_hidden_checkpoint_is_imported(prefix: str, models: Path) -> None:
    state = {f"{prefix}{name}": value for name, value in HiddenNetwork().state_dict().items()}
    torch.save({"enc-dec-model": state, "epoch": 3}, models / "run.pyt")
    with pytest.raises(MissingModelError, match="coverlock import hidden"):
        PublishedHidden()
    assert convert_hidden(models / "run.pyt").exists()
    watermark = load_watermark("hidden-published")
    assert (watermark.bits, watermark.native_size) == (30, (128, 128))


def generated(layout: published_layouts.Layout) -> dict[str, torch.Tensor]:
    """A checkpoint of the published names and shapes, with random weights."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator) if shape else torch.tensor(7)
        for name, shape in layout
    }


@pytest.mark.parametrize(
    ("system", "layout", "options", "expected"),
    [
        ("hidden", published_layouts.hidden(), {}, (30, 128)),
        ("mbrs", published_layouts.mbrs(4), {"bits": 256}, (256, 256)),
        ("mbrs", published_layouts.mbrs(4), {"bits": 64}, (64, 128)),
        ("mbrs", published_layouts.mbrs(3), {"bits": 256}, (256, 128)),
        ("mbrs", published_layouts.mbrs_diffusion(), {}, (30, 128)),
        ("mbrs", published_layouts.mbrs_diffusion(), {"bits": 30}, (30, 128)),
        ("cin", published_layouts.cin(), {}, (30, 128)),
    ],
)
def test_a_published_checkpoint_is_imported_exactly(
    system: str,
    layout: published_layouts.Layout,
    options: dict[str, int],
    expected: tuple[int, int],
    models: Path,
) -> None:
    state = generated(layout)
    wrapped = {f"module.{name}": value for name, value in state.items()}
    content = {
        "hidden": {"enc-dec-model": state, "epoch": 3},
        "mbrs": state | {"noise.layer": torch.ones(1)},
        "cin": {"cinNet": wrapped},
    }
    torch.save(content[system], models / "file.pth")
    plugin_manager().get("importer", system)(models / "file.pth", **options)
    watermark = load_watermark(f"{system}-published")
    assert (watermark.bits, watermark.native_size) == (expected[0], (expected[1],) * 2)
    loaded = watermark.network.state_dict()
    assert list(loaded) == list(state)
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def import_mbrs(name: str, models: Path, layout: published_layouts.Layout) -> str:
    """What 'coverlock import' prints about a generated checkpoint."""
    torch.save(generated(layout), models / "EC.pth")
    return CliRunner().invoke(build_cli(), ["import", name, str(models / "EC.pth")]).output


def test_mbrs_asks_for_the_bits_that_its_tensors_do_not_tell(models: Path) -> None:
    """256 bits at 256 pixels and 64 bits at 128 pixels are the same tensors."""
    plain, diffused = published_layouts.mbrs(), published_layouts.mbrs_diffusion()
    asked = import_mbrs("mbrs", models, plain)
    assert "coverlock import mbrs:bits=256 FILE" in asked
    assert "64 bits at 128 pixels, 256 bits at 256 pixels" in asked
    assert "a whole number of bits, not 'many'" in import_mbrs("mbrs:bits=many", models, plain)
    assert "choose a square number" in import_mbrs("mbrs:bits=30", models, plain)
    assert "is for 30 bits, not for 64" in import_mbrs("mbrs:bits=64", models, diffused)
    assert "unexpected keyword argument 'size'" in import_mbrs("mbrs:size=128", models, plain)
    assert not (models / "models").exists()
    assert "published.safetensors" in import_mbrs("mbrs:bits=64", models, plain)
    assert load_watermark("mbrs-published").native_size == (128, 128)


@pytest.mark.parametrize("convert", [convert_hidden, convert_mbrs, convert_cin])
def test_other_files_are_refused(convert: Callable[[Path], Path], models: Path) -> None:
    other = models / "other.pth"
    torch.save({"weight": torch.ones(3)}, other)
    with pytest.raises(CorruptModelError, match="is not an? "):
        convert(other)
    other.write_bytes(other.read_bytes()[:100])
    with pytest.raises(CorruptModelError, match=r"truncated|more than weights"):
        convert(other)
    assert not (models / "models").exists()


NO_STATE = "is not a state dict: it should map names to tensors"
SPREADING, GATHERING = "encoder.message_duplicate_layer", "decoder.message_layer"


@pytest.mark.parametrize(
    ("convert", "content", "complaint"),
    [
        (convert_hidden, [1], "has no 'enc-dec-model'"),
        (convert_hidden, {"enc-dec-model": None}, f"'enc-dec-model' in .* {NO_STATE}"),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.weight": 3}}, NO_STATE),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.bias": torch.ones(())}}, "missing"),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.bias": torch.ones(0)}}, "missing"),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.bias": torch.ones(10**6)}}, "missing"),
        (convert_mbrs, [1], NO_STATE),
        (convert_mbrs, {0: torch.ones(1)}, NO_STATE),
        (convert_mbrs, {"encoder.final_layer.bias": torch.ones(3), "epoch": 3}, NO_STATE),
        (convert_mbrs, {f"{SPREADING}.weight": torch.ones(256)}, "has no message processor"),
        (
            convert_mbrs,
            {f"{SPREADING}.bias": torch.ones(250), f"{GATHERING}.bias": torch.ones(30)},
            "is not for MBRS .MBRS lays 250 values out in a square",
        ),
        (
            convert_mbrs,
            {
                f"{SPREADING}.bias": torch.ones(256),
                f"{SPREADING}.weight": torch.ones(256),
                f"{GATHERING}.bias": torch.ones(30),
            },
            r"message_duplicate_layer.weight \(256,\) instead of \(256, 30\)",
        ),
        (convert_cin, {"cinNet": [1]}, f"'cinNet' in .* {NO_STATE}"),
        (
            convert_cin,
            {"cinNet": {"a": torch.ones(1)}, "nsmNet": None},
            f"'nsmNet' in .* {NO_STATE}",
        ),
        (
            convert_cin,
            {"cinNet": {"a": torch.ones(1)}, "nsmNet": [1]},
            f"'nsmNet' in .* {NO_STATE}",
        ),
        (convert_cin, {"cinNet": {"a": torch.ones(1), "step": 3}}, NO_STATE),
    ],
)
def test_damaged_checkpoints_are_refused_in_a_sentence(
    convert: Callable[[Path], Path], content: object, complaint: str, models: Path
) -> None:
    torch.save(content, models / "damaged.pth")
    with pytest.raises(CorruptModelError, match=complaint):
        convert(models / "damaged.pth")
    assert not (models / "models").exists()


def test_a_selector_beside_the_network_is_imported_with_it(models: Path) -> None:
    state = CinNetwork().state_dict()
    selector = {n: v for n, v in state.items() if n.startswith("nsm_model.")}
    network = {f"module.{n}": v for n, v in state.items() if n not in selector}
    apart = {f"module.{n.removeprefix('nsm_model.')}": v for n, v in selector.items()}
    torch.save({"cinNet": network, "nsmNet": apart}, models / "cin.pth")
    convert_cin(models / "cin.pth")
    assert load_watermark("cin-published").bits == 30


def test_a_checkpoint_of_other_shapes_is_refused_by_name(models: Path) -> None:
    state = HiddenNetwork(channels=16).state_dict()
    torch.save({"enc-dec-model": state}, models / "run.pyt")
    expected = r"conv_layers.0.layers.0.weight \(16, 3, 3, 3\) instead of \(64, 3, 3, 3\)"
    with pytest.raises(CorruptModelError, match=expected):
        convert_hidden(models / "run.pyt")


class Trap:
    """A pickle that would write a file if it were executed."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


def test_nothing_in_a_checkpoint_is_executed(models: Path) -> None:
    torch.save({"enc-dec-model": Trap(models / "executed")}, models / "trap.pyt")
    with pytest.raises(CorruptModelError, match="nothing of it was loaded"):
        convert_hidden(models / "trap.pyt")
    (models / "plain.pyt").write_bytes(pickle.dumps(Trap(models / "executed")))
    with pytest.raises(CorruptModelError):
        convert_hidden(models / "plain.pyt")
    assert not (models / "executed").exists()


def test_a_damaged_weight_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_network(SMALL["mbrs"](), path)
    with pytest.raises(CorruptModelError, match="not for this network"):
        load_network(path, HiddenNetwork)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CorruptModelError, match="cannot be read"):
        load_network(path, MbrsNetwork)
    with pytest.raises(MissingModelError, match="do not exist"):
        load_network(tmp_path / "none.safetensors", MbrsNetwork)


@pytest.mark.parametrize(
    ("name", "bits"), [("mbrs", 64), ("mbrs-100", 100), ("mbrs-256", 256), ("cin", 30)]
)
def test_a_mark_is_read_on_its_own_picture_and_on_any_other(name: str, bits: int) -> None:
    watermark = load_watermark(name)
    assert watermark.bits == bits
    rng = np.random.default_rng(0)
    payloads = rng.integers(0, 2, (4, watermark.bits), dtype=np.uint8)
    covers, targets = (resample(s, watermark.native_size) for s in (scenes(4), scenes(4, seed=9)))
    marked = eight_bit(watermark.embed(covers, payloads))
    assert ((watermark.decode(marked) > 0) == payloads).mean() > 0.97
    forged = eight_bit(targets + (marked - covers))
    assert ((watermark.decode(forged) > 0) == payloads).mean() > 0.9


@pytest.mark.parametrize(
    ("name", "read", "moved"), [("hidden", 0.85, 0.8), ("rivagan-trained", 0.9, 0.7)]
)
def test_a_mark_is_read_on_its_own_picture_rather_than_on_another(
    name: str, read: float, moved: float
) -> None:
    watermark = load_watermark(name)
    payloads = np.random.default_rng(0).integers(0, 2, (4, watermark.bits), dtype=np.uint8)
    covers, targets = (resample(s, watermark.native_size) for s in (scenes(4), scenes(4, seed=9)))
    marked = eight_bit(watermark.embed(covers, payloads))
    assert ((watermark.decode(marked) > 0) == payloads).mean() > read
    forged = eight_bit(targets + (marked - covers))
    assert ((watermark.decode(forged) > 0) == payloads).mean() < moved
