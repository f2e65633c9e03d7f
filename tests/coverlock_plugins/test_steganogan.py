"""SteganoGAN as a watermark, and the reader of its pickle, which trusts nothing."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from coverlock_plugins.steganogan import ASSET, WEIGHTS, SteganoGan, flips, network
from coverlock_plugins.steganogan.legacy import MAGIC, PROTOCOL, read_checkpoint
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from tests.coverlock_plugins.scenes import eight_bit, scenes


@pytest.fixture(scope="module")
def watermark() -> SteganoGan:
    try:
        return SteganoGan()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def payloads() -> npt.NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 2, (2, 32), dtype=np.uint8)


def test_bits_come_back_from_saved_pictures(
    watermark: SteganoGan, payloads: npt.NDArray[np.uint8]
) -> None:
    covers = scenes(2)
    marked = eight_bit(watermark.embed(covers, payloads))
    assert ((watermark.decode(marked) > 0) == payloads).mean() > 0.97
    assert -10 * np.log10(np.square(marked - covers).mean()) > 30


@pytest.mark.parametrize("bit", [0, 1])
def test_a_payload_of_equal_bits_is_no_exception(watermark: SteganoGan, bit: int) -> None:
    marked = eight_bit(watermark.embed(scenes(1), np.full((1, 32), bit, np.uint8)))
    assert ((watermark.decode(marked) > 0) == bit).all()


def test_the_pattern_of_flips_never_changes() -> None:
    digest = hashlib.sha256(flips().tobytes()).hexdigest()
    assert digest == "1f7163a843bbaef490b70a3082da883d185422aa0258f099847ed4622714a5ea"


def test_the_residual_carries_the_bits_to_another_picture(
    watermark: SteganoGan, payloads: npt.NDArray[np.uint8]
) -> None:
    sources, targets = scenes(2), scenes(2, seed=9)
    residuals = watermark.embed(sources, payloads) - sources
    forged = eight_bit(targets + residuals)
    assert ((watermark.decode(forged) > 0) == payloads).mean() > 0.8


def test_the_torch_decoder_agrees(watermark: SteganoGan) -> None:
    torch = pytest.importorskip("torch")
    images = scenes(2)
    with torch.no_grad():
        expected = watermark.decoder_module()(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(watermark.decode(images), expected, atol=1e-4)


def test_the_torch_encoder_agrees(watermark: SteganoGan, payloads: npt.NDArray[np.uint8]) -> None:
    torch = pytest.importorskip("torch")
    images = scenes(2)
    with torch.no_grad():
        bits = torch.from_numpy(payloads).float()
        expected = watermark.encoder_module()(torch.from_numpy(images), bits).numpy()
    np.testing.assert_allclose(watermark.embed(images, payloads), expected, atol=1e-4)


def test_nothing_but_numpy_is_needed(watermark: SteganoGan) -> None:
    script = """
import sys
from coverlock_plugins.steganogan import SteganoGan
import numpy as np
watermark = SteganoGan()
image = np.full((1, 3, 256, 256), 0.5, np.float32)
watermark.decode(watermark.embed(image, np.zeros((1, 32), np.uint8)))
assert not {"torch", "onnxruntime", "scipy"} & set(sys.modules)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


def test_a_convolution_is_the_textbook_sum() -> None:
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    image = rng.standard_normal((3, 6, 5)).astype(np.float32)
    weights = {"net.conv4.0.weight": kernel, "net.conv4.0.bias": np.ones(4, np.float32)}
    weights |= {f"net.conv{n}.0.weight": kernel for n in (1, 2, 3)}
    weights |= {f"net.conv{n}.0.bias": np.zeros(4, np.float32) for n in (1, 2, 3)}
    for n in (1, 2, 3):
        for name in ("running_mean", "running_var", "weight", "bias"):
            weights[f"net.conv{n}.2.{name}"] = np.ones(4, np.float32)
    last = network.build(weights, "net")[-1]
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    expected = np.ones((4, 6, 5))
    for row in range(6):
        for column in range(5):
            window = padded[:, row : row + 3, column : column + 3]
            expected[:, row, column] += (kernel * window).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(network.run([last], image), expected, rtol=1e-4, atol=1e-4)


def test_missing_weights_name_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    with pytest.raises(MissingModelError, match="coverlock fetch steganogan"):
        SteganoGan()


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 64])
def test_damaged_weights_are_refused(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    folder = tmp_path / f"steganogan-{ASSET.sha256[:12]}"
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(CorruptModelError, match="coverlock fetch steganogan"):
        SteganoGan()


def test_truncated_weights_are_refused(
    watermark: SteganoGan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (ASSET.locate() / WEIGHTS).read_bytes()
    test_damaged_weights_are_refused(whole[: len(whole) // 2], tmp_path, monkeypatch)


# The published checkpoint in miniature: pickle opcodes, put together by hand so that neither
# torch nor steganogan is needed to write it.


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"


def mapping(items: dict[str, bytes]) -> bytes:
    return b"}" + b"".join(text(key) + value + b"s" for key, value in items.items())


def instance(module: str, attribute: str, state: dict[str, bytes]) -> bytes:
    return name(module, attribute) + b")\x81" + mapping(state) + b"b"


def tensor(key: str, strides: tuple[int, int] = (3, 1)) -> bytes:
    storage = b"(" + text("storage") + name("torch", "FloatStorage") + text(key) + text("cpu")
    storage += b"K\x06NtQ"
    hooks = name("collections", "OrderedDict") + b")R"
    arguments = b"(" + storage + b"K\x00" + numbers(2, 3) + numbers(*strides) + b"\x89" + hooks
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + b"tR"


def network_of(part: str, parameter: bytes) -> bytes:
    layer = instance("torch.nn.modules.conv", "Conv2d", {"_parameters": mapping({"w": parameter})})
    block = {"_modules": mapping({"0": layer})}
    blocks = {"conv1": instance("torch.nn.modules.container", "Sequential", block)}
    module, attribute = f"steganogan.{part}s", f"Dense{part.capitalize()}"
    return instance(module, attribute, {"_modules": mapping(blocks)})


def checkpoint(first: bytes | None = None) -> list[bytes]:
    """The parts of a file: four pickles of which the last is the model, the keys, the storages."""
    networks = {
        "encoder": network_of("encoder", first or tensor("a")),
        "decoder": network_of("decoder", tensor("b")),
    }
    model = b"\x80\x02" + instance("steganogan.models", "SteganoGAN", networks) + b"."
    header = [MAGIC, PROTOCOL, {"little_endian": True}]
    values = [np.arange(6, dtype="<f4"), np.arange(6, 12, dtype="<f4")]
    storages = b"".join(struct.pack("<q", 6) + value.tobytes() for value in values)
    plain = [pickle.dumps(part, protocol=2) for part in header]
    return [*plain, model, pickle.dumps(["a", "b"], protocol=2), storages]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dense.steg"


def test_a_checkpoint_is_read_without_torch(file: Path) -> None:
    file.write_bytes(b"".join(checkpoint()))
    tensors = read_checkpoint(file)
    assert list(tensors) == ["encoder.conv1.0.w", "decoder.conv1.0.w"]
    assert tensors["encoder.conv1.0.w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensors["decoder.conv1.0.w"].tolist() == [[6, 7, 8], [9, 10, 11]]


class Evil:
    """Makes a folder when it is unpickled by anyone who trusts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("place", range(5))
def test_a_malicious_pickle_is_refused_and_runs_nothing(
    place: int, file: Path, tmp_path: Path
) -> None:
    parts = checkpoint()
    parts[place] = pickle.dumps(Evil(tmp_path / "harm"), protocol=2)
    file.write_bytes(b"".join(parts))
    with pytest.raises(CorruptModelError, match=r"asks for \w+\.mkdir"):
        read_checkpoint(file)
    assert not (tmp_path / "harm").exists()
    pickle.loads(parts[place])
    assert (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("module", "attribute"),
    [
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("torch", "load"),
        ("collections", "OrderedDict.update"),
        ("coverlock_plugins.steganogan.legacy", "ALLOWED"),
    ],
)
def test_names_off_the_list_are_refused(module: str, attribute: str, file: Path) -> None:
    file.write_bytes(b"".join(checkpoint(name(module, attribute))))
    with pytest.raises(CorruptModelError, match=f"asks for {module}.{attribute}"):
        read_checkpoint(file)


@pytest.mark.parametrize(
    "parameter",
    [
        tensor("a", strides=(1, 2)),
        tensor("a", strides=(-3, 1)),
        tensor("unknown"),
        b"(" + text("url") + text("http://127.0.0.1/") + b"tQ",
        b"K\x01",
    ],
)
def test_tensors_of_another_form_are_refused(parameter: bytes, file: Path) -> None:
    file.write_bytes(b"".join(checkpoint(parameter)))
    with pytest.raises(CorruptModelError):
        read_checkpoint(file)


def test_a_truncated_checkpoint_is_refused(file: Path) -> None:
    whole = b"".join(checkpoint())
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(CorruptModelError):
            read_checkpoint(file)


def test_a_damaged_checkpoint_is_read_or_refused_and_nothing_else(file: Path) -> None:
    rng = np.random.default_rng(0)
    whole = np.frombuffer(b"".join(checkpoint()), np.uint8)
    for _ in range(500):
        damaged = whole.copy()
        damaged[rng.integers(len(whole), size=2)] = rng.integers(256, size=2)
        file.write_bytes(damaged.tobytes())
        with contextlib.suppress(CorruptModelError):
            read_checkpoint(file)
