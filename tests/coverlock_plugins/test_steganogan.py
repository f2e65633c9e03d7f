"""SteganoGAN as a watermark, and the reader of its pickle, which trusts nothing."""

import contextlib
import hashlib
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from coverlock_plugins.steganogan import ASSET, WEIGHTS, SteganoGan, flips
from coverlock_plugins.steganogan.legacy import MAGIC, PROTOCOL, read_checkpoint
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from tests.coverlock_plugins.scenes import scenes


@pytest.fixture(scope="module")
def watermark():
    try:
        return SteganoGan()
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def payloads():
    return np.random.default_rng(1).integers(0, 2, (2, 32), dtype=np.uint8)


def test_the_pattern_of_flips_never_changes():
    digest = hashlib.sha256(flips().tobytes()).hexdigest()
    assert digest == "1f7163a843bbaef490b70a3082da883d185422aa0258f099847ed4622714a5ea"


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 64])
def test_damaged_weights_are_refused(content, tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path))
    folder = tmp_path / f"steganogan-{ASSET.sha256[:12]}"
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(CorruptModelError, match="coverlock fetch steganogan"):
        SteganoGan()


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
def file(tmp_path):
    return tmp_path / "dense.steg"


def test_a_checkpoint_is_read_without_torch(file):
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
def test_a_malicious_pickle_is_refused_and_runs_nothing(place, file, tmp_path):
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
def test_names_off_the_list_are_refused(module, attribute, file):
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
def test_tensors_of_another_form_are_refused(parameter, file):
    file.write_bytes(b"".join(checkpoint(parameter)))
    with pytest.raises(CorruptModelError):
        read_checkpoint(file)


def test_a_damaged_checkpoint_is_read_or_refused_and_nothing_else(file):
    rng = np.random.default_rng(0)
    whole = np.frombuffer(b"".join(checkpoint()), np.uint8)
    for length in range(len(whole)):
        file.write_bytes(whole[:length].tobytes())
        with pytest.raises(CorruptModelError):
            read_checkpoint(file)
        damaged = whole.copy()
        damaged[rng.integers(len(whole), size=2)] = rng.integers(256, size=2)
        file.write_bytes(damaged.tobytes())
        with contextlib.suppress(CorruptModelError):
            read_checkpoint(file)


def test_the_modules_agree(watermark, payloads):
    torch = pytest.importorskip("torch")
    images = scenes(2)
    with torch.no_grad():
        seen, bits = torch.from_numpy(images), torch.from_numpy(payloads).float()
        marked = watermark.encoder_module()(seen, bits).numpy()
        logits = watermark.decoder_module()(seen).numpy()
    np.testing.assert_allclose(watermark.embed(images, payloads), marked, atol=1e-4)
    np.testing.assert_allclose(watermark.decode(images), logits, atol=1e-4)
