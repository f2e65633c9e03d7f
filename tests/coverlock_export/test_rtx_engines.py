"""NVIDIA's own parser and builder on every graph that an export makes; no GPU is needed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("tensorrt_rtx", reason="pip install 'coverlock-sdk[rtx]'")
pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from coverlock_export.exporting import ExportRequest, export_bundle
from coverlock_export.tensorrt import compile_bundle
from coverlock_plugins.dinov2 import hash as dinov2
from coverlock_plugins.dinov2.hash import Dinov2Hash
from coverlock_sdk import wrap
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.errors import MissingModelError
from coverlock_sdk.testing import natural_pictures
from tests.coverlock_export.test_exporting import ExportableMark

pytestmark = pytest.mark.slow


def locked(name: str, image_hash: str, folder: Path):
    chosen = shallow_dinov2(folder) if image_hash == "dinov2-s" else image_hash
    try:
        return wrap(ExportableMark() if name == "additive" else name, hash=chosen)
    except MissingModelError as error:
        pytest.skip(str(error))


def write_random_hash(shape: str, folder: Path, seed: int = 0) -> None:
    """The folder of a DINOv2 hash, as fetched and trained ones are, with random weights."""
    import torch

    from coverlock_plugins.dinov2.hash import VARIANTS, WEIGHTS
    from coverlock_plugins.dinov2.head import HashHead
    from coverlock_plugins.dinov2.network import Dinov2
    from coverlock_sdk.models.checkpoints import write_weights

    variant = VARIANTS[shape]
    torch.manual_seed(seed)
    write_weights(folder / WEIGHTS, Dinov2(**variant.shape).state_dict())
    write_weights(folder / "head.safetensors", HashHead(2 * variant.width).state_dict())
    (folder / "head.json").write_text(json.dumps({"calibration": {"scale": 1.0, "power": 1.0}}))


def shallow_dinov2(folder: Path) -> Dinov2Hash:
    """The paper's hash with random weights and two of its twelve layers."""
    variant = replace(dinov2.VARIANTS["dinov2-s"], layers=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(dinov2.VARIANTS, "dinov2-s", variant)
        write_random_hash("dinov2-s", folder)
        shallow = Dinov2Hash("dinov2-s", folder)
        assert shallow.network  # loaded while the variant is shallow
    return shallow


@pytest.mark.parametrize(
    ("watermark", "image_hash"),
    [
        ("additive", "octave"),
        ("additive", "dinov2-s"),
        ("steganogan", "octave"),
        ("mbrs", "octave"),
        ("cin", "octave"),
    ],
)
def test_an_engine_is_built_of_every_exported_graph(watermark, image_hash, tmp_path):
    lock = locked(watermark, image_hash, tmp_path / "hash")
    photos = tmp_path / "photos"
    photos.mkdir()
    for number, picture in enumerate(natural_pictures(40, lock.watermark.native_size, seed=5)):
        Image.fromarray(picture).save(photos / f"{number:02}.png")
    # The gate is about real photos and has tests of its own; what is asked here is NVIDIA's word.
    request = ExportRequest(lock, sorted(photos.iterdir()), force=True, count=4)
    bundle = export_bundle(request, tmp_path / "bundle")
    graphs = {name: list(files) for name, files in bundle.manifest.graphs.items()}
    assert graphs["verify"] == ["fp32", "fp16", "int8"]
    made = list(compile_bundle(bundle, graphs, (1, 4, 8)))
    opened = Bundle.open(bundle.path)
    assert len(opened.manifest.engines) == sum(map(len, graphs.values()))
    for compiled in made:
        assert len(opened.read(compiled.engine.file)) > 10_000
