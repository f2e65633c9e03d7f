from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("c2pa")
pytest.importorskip("scipy")


pytestmark = pytest.mark.usefixtures("additive_plugin")


@pytest.fixture
def files(tmp_path, photos) -> list[Path]:
    paths = []
    for number, photo in enumerate(photos[:4]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(photo).save(paths[-1])
    return paths


def test_edits_are_found_and_unaltered_photos_compared(files):
    from coverlock_bench.provenance.edits import AREAS, EDITS, edit_rates
    from coverlock_bench.provenance.tables import EDITED, UNALTERED

    figures = edit_rates(files[:2], seed=0, cards=2)
    assert figures["edits"]["pasted from another photo"]["0.1"]["found"]["successes"] == 2
    assert figures["unaltered"]["jpeg"]["comparable"]["successes"] == 2
    assert EDITED.markdown(figures).count("\n") == 2 + len(EDITS) * len(AREAS)
    assert "half size, JPEG 80" in UNALTERED.markdown(figures)


@pytest.mark.slow
def test_the_service_survives_requests_made_up_from_its_description(files, tmp_path):
    pytest.importorskip("schemathesis")
    from coverlock_bench.provenance.fuzzing import fuzz
    from coverlock_sdk import Verifier
    from coverlock_sdk.provenance.repository import ManifestRepository
    from coverlock_sdk.provenance.resolving import Resolver
    from tests.toy_bundle import write_toy_bundle

    verifier = Verifier.open(write_toy_bundle(tmp_path / "bundle").path, "cpu", threads=1)
    repository = ManifestRepository(tmp_path / "repository", create=True)
    figures = fuzz(verifier, Resolver(repository, [verifier]), requests=20, seed=0)
    assert len(figures["routes"]) == 5
    assert (figures["server_errors"], figures["undescribed"]) == (0, 0)
