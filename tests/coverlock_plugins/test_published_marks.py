"""TrustMark, WAM and VideoSeal around graphs of the same signature: the weights are not here."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from coverlock_plugins import trustmark, videoseal, wam
from coverlock_sdk import Watermark
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.plugin_manager import plugin_manager
from tests.coverlock_plugins import made_graphs
from tests.coverlock_plugins.scenes import eight_bit

TRUSTMARK_NAMES = ["onnx::Concat_0", "onnx::Gemm_1", "image"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def known_plugins():
    """The plugins under test, whatever the installed metadata lists."""
    plugin_manager.cache_clear()
    manager = plugin_manager()
    for name, module in (("trustmark", trustmark), ("wam", wam), ("videoseal", videoseal)):
        if name not in manager.names("watermark"):
            manager.add(name, module)
    yield
    plugin_manager.cache_clear()


def run(*arguments: object) -> Any:
    return CliRunner().invoke(build_cli(), [str(argument) for argument in arguments])


def trustmark_files(folder: Path, side: int = 256) -> tuple[Path, Path]:
    return (
        made_graphs.encoder(folder / "encoder_Q.onnx", 100, 0.1, True, TRUSTMARK_NAMES),
        made_graphs.decoder(folder / "decoder_Q.onnx", 100, side, ["image", "output"]),
    )


def wam_files(folder: Path) -> tuple[Path, Path]:
    return (
        made_graphs.encoder(folder / "wam_embedder.onnx", 32, 2.0, False, ["img", "msg", "imgs_w"]),
        made_graphs.detector(folder / "wam_detector.onnx", 32, ["img", "preds"]),
    )


def videoseal_file(folder: Path, bits: int = 256) -> Path:
    torch = pytest.importorskip("torch")

    class Made(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            patterns = torch.from_numpy(made_graphs.patterns(bits)[:, 0].reshape(bits, -1))
            self.register_buffer("patterns", patterns)

        @torch.jit.export
        def embed(self, imgs: torch.Tensor, msgs: torch.Tensor) -> torch.Tensor:
            cells = (2 * msgs - 1) @ self.patterns
            mark = torch.nn.functional.interpolate(
                cells.reshape(-1, 1, 32, 32), size=(imgs.shape[2], imgs.shape[3])
            )
            return imgs + 0.1 * mark

        @torch.jit.export
        def detect(self, imgs: torch.Tensor) -> torch.Tensor:
            seen = torch.nn.functional.interpolate(
                imgs.mean(dim=1, keepdim=True), size=(32, 32), mode="bilinear", antialias=True
            )
            bits = seen.flatten(1) @ self.patterns.T
            return torch.cat([torch.zeros_like(bits[:, :1]), bits], dim=1)

        def forward(self, imgs: torch.Tensor) -> torch.Tensor:
            return self.detect(imgs)

    file = folder / "y_256b_img.jit"
    torch.jit.script(Made()).save(str(file))
    return file


def imported(name: str, *files: Path) -> None:
    result = run("import", name, *files, "--json")
    assert result.exit_code == 0, result.output
    written = json.loads(result.output)["written"]
    assert all(Path(path).is_file() for path in written)


def read_back(watermark: Watermark, size: tuple[int, int] = (256, 256)) -> float:
    """The share of bits that come back from grey pictures, in which only the mark is."""
    bits = np.random.default_rng(1).integers(0, 2, (2, watermark.bits), dtype=np.uint8)
    flat = np.full((2, 3, *size), 0.5, np.float32)
    marked = eight_bit(watermark.embed(flat, bits))
    inside = np.abs(marked - flat)[..., 4:-4, 4:-4]  # WAM takes the border for an edge
    assert 0.001 < inside.max() < 0.25
    return float(((watermark.decode(marked) > 0) == bits).mean())


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        (trustmark.TrustMark, trustmark_files),
        (trustmark.TrustMarkP, partial(trustmark_files, side=224)),
        (wam.WatermarkAnything, wam_files),
    ],
)
def test_imported_graphs_carry_their_bits(kind, files, tmp_path):
    imported(kind.name, *files(tmp_path))
    watermark = kind()
    assert read_back(watermark) == 1
    assert watermark.card["as_published"] is False


def test_only_the_middle_square_of_a_long_picture_is_marked(tmp_path):
    imported("trustmark", *trustmark_files(tmp_path))
    watermark, wide = trustmark.TrustMark(), np.full((1, 3, 200, 500), 0.5, np.float32)
    payload = np.random.default_rng(2).integers(0, 2, (1, 100), dtype=np.uint8)
    marked = watermark.embed(wide, payload)
    changed = np.flatnonzero(np.abs(marked - wide).max(axis=(0, 1, 2)) > 0)
    assert (changed.min(), changed.max()) == (150, 349)
    assert ((watermark.decode(marked) > 0) == payload).all()
    tall = watermark.embed(wide[..., :380], payload)
    assert (np.abs(tall - wide[..., :380]).max(axis=(0, 1, 2)) > 0).all()


def test_videoseal_is_imported_and_marks_any_size(tmp_path):
    imported("videoseal", videoseal_file(tmp_path))
    watermark = videoseal.VideoSeal()
    assert read_back(watermark) > 0.99
    assert read_back(watermark, (320, 480)) > 0.99


@pytest.mark.parametrize(
    "watermark",
    [trustmark.TrustMarkC, videoseal.VideoSeal, videoseal.PixelSeal, wam.WatermarkAnything],
)
def test_without_a_digest_nothing_is_fetched(watermark):
    with pytest.raises(MissingModelError, match=f"'coverlock import {watermark.name} "):
        watermark()
    result = run("fetch", watermark.name)
    assert result.exit_code == 2
    assert f"run: coverlock import {watermark.name} " in " ".join(result.output.split())


def test_a_file_that_was_exchanged_is_noticed(tmp_path, cache):
    imported("trustmark", *trustmark_files(tmp_path))
    (cache / "trustmark" / "encoder.onnx").write_bytes(
        (cache / "trustmark" / "decoder.onnx").read_bytes()
    )
    with pytest.raises(CorruptModelError, match="is no encoder of 'trustmark'"):
        trustmark.TrustMark()
