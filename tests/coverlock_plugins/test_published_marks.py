"""TrustMark, WAM and VideoSeal around graphs of the same signature: the weights are not here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from coverlock_plugins import trustmark, videoseal, wam
from coverlock_plugins.wam.visibility import just_noticeable
from coverlock_sdk import Watermark, wrap
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CorruptModelError, MissingModelError
from coverlock_sdk.images.conversion import read
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from tests.coverlock_plugins import made_graphs
from tests.coverlock_plugins.scenes import eight_bit, scenes

TRUSTMARK_NAMES = ["onnx::Concat_0", "onnx::Gemm_1", "image"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COVERLOCK_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture(autouse=True)
def known_plugins() -> Any:
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


def test_trustmark_is_imported_and_carries_its_bits(tmp_path: Path) -> None:
    imported("trustmark", *trustmark_files(tmp_path))
    watermark = trustmark.TrustMark()
    assert read_back(watermark) == 1
    assert watermark.card["as_published"] is False


def test_the_decoder_of_p_sees_another_size(tmp_path: Path) -> None:
    imported("trustmark-p", *trustmark_files(tmp_path, side=224))
    assert read_back(trustmark.TrustMarkP()) == 1


def test_strength_scales_the_residual_which_shifts_no_colour(tmp_path: Path) -> None:
    imported("trustmark", *trustmark_files(tmp_path))
    cover = 0.25 + scenes(1) / 2  # nothing is clipped
    payload = np.random.default_rng(2).integers(0, 2, (1, 100), dtype=np.uint8)
    full, half = (trustmark.TrustMark(strength=s).embed(cover, payload) - cover for s in (1.0, 0.5))
    np.testing.assert_allclose(half, full / 2, atol=1e-6)
    np.testing.assert_allclose(full.mean(axis=(2, 3)), 0, atol=1e-5)


def test_only_the_middle_square_of_a_long_picture_is_marked(tmp_path: Path) -> None:
    imported("trustmark", *trustmark_files(tmp_path))
    watermark, wide = trustmark.TrustMark(), np.full((1, 3, 200, 500), 0.5, np.float32)
    payload = np.random.default_rng(2).integers(0, 2, (1, 100), dtype=np.uint8)
    marked = watermark.embed(wide, payload)
    changed = np.flatnonzero(np.abs(marked - wide).max(axis=(0, 1, 2)) > 0)
    assert (changed.min(), changed.max()) == (150, 349)
    assert ((watermark.decode(marked) > 0) == payload).all()
    tall = watermark.embed(wide[..., :380], payload)
    assert (np.abs(tall - wide[..., :380]).max(axis=(0, 1, 2)) > 0).all()


def test_a_locked_trustmark_verifies_at_any_size(tmp_path: Path) -> None:
    imported("trustmark", *trustmark_files(tmp_path))
    locked = wrap(trustmark.TrustMark())
    picture = natural_pictures(1, (300, 420))[0]
    marked = locked.embed(picture, "order-4711")
    assert marked.shape == picture.shape
    assert locked.verify(marked, "order-4711")
    assert not locked.verify(picture, "order-4711")


def test_wam_is_imported_and_carries_its_bits(tmp_path: Path) -> None:
    imported("wam", *wam_files(tmp_path))
    assert read_back(wam.WatermarkAnything()) == 1


def test_wam_asks_only_pixels_that_are_marked() -> None:
    planes = np.full((3, 4, 4), -1, np.float32)
    planes[0, :2], planes[1:, :2] = 1, 5  # the upper half is marked, and says 1
    np.testing.assert_allclose(wam.votes(planes), 5)
    planes[0] = -1
    np.testing.assert_allclose(wam.votes(planes), 2)


def test_edges_and_dark_places_hide_more() -> None:
    flat = np.full((3, 32, 32), 0.5, np.float32)
    edge = flat.copy()
    edge[..., 16:] = 0.9
    middle = (slice(8, 24), 15)
    assert just_noticeable(edge)[middle].min() > 2 * just_noticeable(flat)[middle].max()
    assert just_noticeable(0.1 * flat)[middle].min() > 2 * just_noticeable(flat)[middle].max()


def test_videoseal_is_imported_and_marks_any_size(tmp_path: Path) -> None:
    imported("videoseal", videoseal_file(tmp_path))
    watermark = videoseal.VideoSeal()
    assert read_back(watermark) > 0.99
    assert read_back(watermark, (320, 480)) > 0.99


@pytest.mark.parametrize("watermark", [trustmark.TrustMark, trustmark.TrustMarkP])
def test_missing_files_with_a_digest_name_the_fetch_command(watermark: type[Watermark]) -> None:
    with pytest.raises(MissingModelError, match=f"'coverlock fetch {watermark.name}'"):
        watermark()


@pytest.mark.parametrize(
    "watermark",
    [trustmark.TrustMarkC, videoseal.VideoSeal, videoseal.PixelSeal, wam.WatermarkAnything],
)
def test_without_a_digest_nothing_is_fetched(watermark: type[Watermark]) -> None:
    with pytest.raises(MissingModelError, match=f"'coverlock import {watermark.name} "):
        watermark()
    result = run("fetch", watermark.name)
    assert result.exit_code == 2
    assert f"run: coverlock import {watermark.name} " in " ".join(result.output.split())


def test_a_graph_of_another_kind_is_not_imported(tmp_path: Path, cache: Path) -> None:
    embedder, detector = wam_files(tmp_path)
    for name, file in (("trustmark", embedder), ("trustmark", detector)):
        result = run("import", name, file)
        assert result.exit_code == 2
        assert "is no graph of 'trustmark'" in " ".join(result.output.split())
    assert not list(cache.glob("trustmark/*"))


@pytest.mark.parametrize("name", ["trustmark", "wam", "videoseal"])
def test_what_is_no_model_is_not_imported(name: str, tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "encoder_Q.onnx"
    file.write_bytes(b"\xff" * 64)
    result = run("import", name, file)
    assert result.exit_code == 2, result.output
    assert result.output.count("\n") <= 6
    assert not cache.exists()


def test_a_module_with_another_number_of_bits_is_refused(tmp_path: Path) -> None:
    file = videoseal_file(tmp_path, bits=96)
    result = run("import", "videoseal", file)
    assert result.exit_code == 2
    assert "(1, 97) where (1, 257) is due" in " ".join(result.output.split())


def test_a_file_that_was_exchanged_is_noticed(tmp_path: Path, cache: Path) -> None:
    imported("trustmark", *trustmark_files(tmp_path))
    (cache / "trustmark" / "encoder.onnx").write_bytes(
        (cache / "trustmark" / "decoder.onnx").read_bytes()
    )
    with pytest.raises(CorruptModelError, match="is no encoder of 'trustmark'"):
        trustmark.TrustMark()


def pairs(folder: Path) -> list[tuple[Path, Path]]:
    marked = sorted((folder / "trustmark-pairs").glob("*_watermarked.jpeg"))
    return [(path.with_name(path.name.replace("_watermarked", "")), path) for path in marked]


@pytest.mark.shared
def test_real_residuals_look_as_the_plugin_makes_them(shared_data: Path) -> None:
    """At 256 pixels, where they were made, they stand out from what JPEG does; no colour shifts."""
    found = [pair for pair in pairs(shared_data) if "Schongau" not in pair[0].name]
    assert len(found) == 3
    for cover, marked in found:
        before, after = (np.asarray(Image.open(path).convert("RGB")) for path in (cover, marked))
        residual = _shrunk(before, after)
        assert residual.std() > 1.4 * _shrunk(before, _recompressed(before)).std()
        assert np.abs(residual.mean(axis=(1, 2))).max() < 0.3
        assert 35 < 20 * np.log10(255 / residual.std()) < 55


@pytest.mark.shared
def test_a_real_long_picture_is_marked_in_its_middle_square(shared_data: Path) -> None:
    [(cover, marked)] = [pair for pair in pairs(shared_data) if "Canyon" in pair[0].name]
    before, after = (np.asarray(Image.open(path).convert("RGB")) for path in (cover, marked))
    height, width = before.shape[:2]
    assert width > 2 * height
    columns = _shrunk(before, after).std(axis=(0, 1))  # of 256
    middle = round(256 * height / width / 2)
    inside = columns[128 - middle + 4 : 128 + middle - 4]
    outside = np.append(columns[: 128 - middle - 4], columns[128 + middle + 4 :])
    assert inside.mean() > 2.5 * outside.mean()


def _shrunk(before: Any, after: Any) -> Any:
    views = [read(picture).view((256, 256)) for picture in (before, after)]
    return 255 * (views[1] - views[0])


def _recompressed(picture: Any) -> Any:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=90)
    return np.asarray(Image.open(file))
