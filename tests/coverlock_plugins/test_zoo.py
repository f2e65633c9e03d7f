"""HiDDeN, MBRS and CIN: published layouts, imports, switches, and what the reference weights do."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from coverlock_plugins.cin import convert as convert_cin  # noqa: E402
from coverlock_plugins.cin.network import CinNetwork, Haar, UndecimatedHaar  # noqa: E402
from coverlock_plugins.hidden import convert as convert_hidden  # noqa: E402
from coverlock_plugins.hidden.network import HiddenNetwork  # noqa: E402
from coverlock_plugins.mbrs import convert as convert_mbrs  # noqa: E402
from coverlock_plugins.mbrs.network import MbrsNetwork  # noqa: E402
from coverlock_plugins.networks.network import WatermarkNetwork  # noqa: E402
from coverlock_plugins.networks.weights import load_network, save_network  # noqa: E402
from coverlock_plugins.rivagan.network import RivaganNetwork  # noqa: E402
from coverlock_sdk import load_watermark  # noqa: E402
from coverlock_sdk.cli import build_cli  # noqa: E402
from coverlock_sdk.errors import CorruptModelError, MissingModelError  # noqa: E402
from coverlock_sdk.images.resampling import resample  # noqa: E402
from coverlock_sdk.plugin_manager import plugin_manager  # noqa: E402
from coverlock_training.watermarks.noise import Identity, RealJpeg  # noqa: E402
from tests.coverlock_plugins.published import DIGESTS, layout_digest  # noqa: E402
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

PUBLISHED: dict[str, Callable[[], WatermarkNetwork]] = {
    "hidden": HiddenNetwork,
    "mbrs": MbrsNetwork,
    "mbrs at 128 pixels": lambda: MbrsNetwork(bits=256, size=128),
    "mbrs diffusion": lambda: MbrsNetwork(bits=30, size=128, diffusion=256),
    "cin": CinNetwork,
}


def layout_of(name: str) -> list[tuple[str, torch.Size]]:
    with torch.device("meta"):
        state = PUBLISHED[name]().state_dict()
    return [(key, value.shape) for key, value in state.items()]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_full_network_is_the_published_one(name):
    assert layout_digest(layout_of(name)) == DIGESTS[name]


@pytest.mark.parametrize("name", SMALL)
def test_networks_keep_their_shapes_and_learn_through_both_ends(name):
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
def test_broadcasting_lays_nothing_out_in_space(name):
    torch.manual_seed(0)
    network = SMALL[name]().eval()
    message = torch.randint(0, 2, (1, network.bits)).float()
    with torch.inference_mode():
        marked = network.encode(torch.full((1, 3, 96, 96), 0.5), message)
    inner = marked[:, :, 40:56, 40:56]  # borders differ
    torch.testing.assert_close(inner, inner[:, :, :1, :1].expand_as(inner))


@pytest.mark.parametrize("haar", [Haar(), UndecimatedHaar()])
def test_wavelets_of_cin_are_inverted(haar):
    images = torch.from_numpy(scenes(2))[:, :, :32, :32]
    torch.testing.assert_close(haar.inverse(haar(images)), images)


@pytest.mark.parametrize("name", SMALL)
def test_a_weight_file_is_enough_to_build_the_network(name, tmp_path):
    network = SMALL[name]().eval()
    save_network(network, tmp_path / "w.safetensors")
    again = load_network(tmp_path / "w.safetensors", type(network))
    images = torch.from_numpy(scenes(1))[:, :, :32, :32]
    messages = torch.ones(1, network.bits)
    with torch.inference_mode():
        torch.testing.assert_close(again.encode(images, messages), network.encode(images, messages))


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    return tmp_path


def generated(name: str) -> dict[str, torch.Tensor]:
    """A checkpoint of the published names and shapes, with random weights."""
    generator = torch.Generator().manual_seed(0)
    return {
        key: torch.randn(shape, generator=generator) if shape else torch.tensor(7)
        for key, shape in layout_of(name)
    }


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("hidden", {}, (30, 128)),
        ("mbrs", {"bits": 256}, (256, 256)),
        ("mbrs", {"bits": 64}, (64, 128)),
        ("mbrs at 128 pixels", {"bits": 256}, (256, 128)),
        ("mbrs diffusion", {}, (30, 128)),
        ("mbrs diffusion", {"bits": 30}, (30, 128)),
        ("cin", {}, (30, 128)),
        ("cin in two parts", {}, (30, 128)),
    ],
)
def test_a_published_checkpoint_is_imported_exactly(name, options, expected, models):
    state, (system, *parts) = generated(name.partition(" in ")[0]), name.split()
    selector = {n: v for n, v in state.items() if parts and n.startswith("nsm_model.")}
    content = {
        "hidden": {"enc-dec-model": state, "epoch": 3},
        "mbrs": state | {"noise.layer": torch.ones(1)},
        "cin": {"cinNet": {f"module.{n}": v for n, v in state.items() if n not in selector}},
    }[system]
    if selector:
        apart = {f"module.{n.removeprefix('nsm_model.')}": v for n, v in selector.items()}
        content["nsmNet"] = apart
    torch.save(content, models / "file.pth")
    plugin_manager().get("importer", system)(models / "file.pth", **options)
    watermark = load_watermark(f"{system}-published")
    assert (watermark.bits, watermark.native_size) == (expected[0], (expected[1],) * 2)
    loaded = watermark.network.state_dict()
    assert list(loaded) == list(state)
    assert all(torch.equal(loaded[name], value) for name, value in state.items())


def import_mbrs(name: str, models: Path, published: str) -> str:
    """What 'coverlock import' prints about a generated checkpoint."""
    torch.save(generated(published), models / "EC.pth")
    return CliRunner().invoke(build_cli(), ["import", name, str(models / "EC.pth")]).output


def test_mbrs_asks_for_the_bits_that_its_tensors_do_not_tell(models):
    """256 bits at 256 pixels and 64 bits at 128 pixels are the same tensors."""
    plain, diffused = "mbrs", "mbrs diffusion"
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


NO_STATE = "is not a state dict: it should map names to tensors"
SPREADING, GATHERING = "encoder.message_duplicate_layer", "decoder.message_layer"


@pytest.mark.parametrize(
    ("convert", "content", "complaint"),
    [
        (convert_hidden, [1], "has no 'enc-dec-model'"),
        (convert_hidden, {"enc-dec-model": None}, f"'enc-dec-model' in .* {NO_STATE}"),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.weight": 3}}, NO_STATE),
        (convert_hidden, {"enc-dec-model": {"decoder.linear.bias": torch.ones(())}}, "missing"),
        (convert_mbrs, [1], NO_STATE),
        (convert_mbrs, {"encoder.final_layer.bias": torch.ones(3), "epoch": 3}, NO_STATE),
        (convert_mbrs, {f"{SPREADING}.weight": torch.ones(256)}, "has no message processor"),
        (
            convert_mbrs,
            {f"{SPREADING}.bias": torch.ones(250), f"{GATHERING}.bias": torch.ones(30)},
            "is not for MBRS .MBRS lays 250 values out in a square",
        ),
        (
            convert_cin,
            {"cinNet": {"a": torch.ones(1)}, "nsmNet": None},
            f"'nsmNet' in .* {NO_STATE}",
        ),
    ],
)
def test_damaged_checkpoints_are_refused_in_a_sentence(convert, content, complaint, models):
    torch.save(content, models / "damaged.pth")
    with pytest.raises(CorruptModelError, match=complaint):
        convert(models / "damaged.pth")
    assert not (models / "models").exists()


def test_a_damaged_weight_file_is_refused(tmp_path):
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
    ("name", "bits", "read", "moved"),
    [
        ("mbrs", 64, 0.97, (0.9, 1)),
        ("mbrs-100", 100, 0.97, (0.9, 1)),
        ("mbrs-256", 256, 0.97, (0.9, 1)),
        ("cin", 30, 0.97, (0.9, 1)),
        ("steganogan", 32, 0.97, (0.8, 1)),
        ("hidden", 30, 0.85, (0, 0.8)),
        ("rivagan", 32, 0.95, (0, 0.75)),
        ("rivagan-trained", 32, 0.9, (0, 0.7)),
    ],
)
def test_how_much_of_a_mark_is_read_on_its_own_picture_and_on_another(name, bits, read, moved):
    """The paper's point: what little the mark of some networks hangs on the picture."""
    try:
        watermark = load_watermark(name)
    except MissingModelError as missing:
        pytest.skip(str(missing))
    assert watermark.bits == bits
    size = watermark.native_size or (256, 256)
    payloads = np.random.default_rng(0).integers(0, 2, (4, bits), dtype=np.uint8)
    covers, targets = (resample(s, size) for s in (scenes(4), scenes(4, seed=9)))
    marked = eight_bit(watermark.embed(covers, payloads))
    assert ((watermark.decode(marked) > 0) == payloads).mean() > read
    forged = eight_bit(targets + (marked - covers))
    assert moved[0] <= ((watermark.decode(forged) > 0) == payloads).mean() <= moved[1]
