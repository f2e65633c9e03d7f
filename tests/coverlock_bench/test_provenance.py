from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from coverlock_sdk.provenance.fingerprints import TOLERANCES

pytest.importorskip("c2pa")
pytest.importorskip("scipy")

RESULTS = Path(__file__).parents[2] / "bench" / "results"


pytestmark = pytest.mark.usefixtures("additive_plugin")


@pytest.fixture
def files(tmp_path, photos) -> list[Path]:
    paths = []
    for number, photo in enumerate(photos[:4]):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(photo).save(paths[-1])
    return paths


def test_transplants_resolve_without_the_lock_and_not_with_it(files):
    from coverlock_bench.provenance.round_trips import provenance
    from coverlock_bench.provenance.tables import ROUND_TRIPS, TRANSPLANTS

    found = provenance("additive", "nano", files, transplants=5, fpr=1e-6, seed=0)
    assert found["round_trips"]["JPEG 80"]["found"]["successes"] == len(files)
    assert found["round_trips"]["JPEG 80"]["wrong"] == 0
    assert found["transplants"]["unlocked"]["successes"] == 5
    assert found["transplants"]["locked"]["successes"] == 0
    figures = {"additive": {"nano": found}}
    assert "5 of 5" in TRANSPLANTS.markdown(figures)
    assert "4 of 4" in ROUND_TRIPS.markdown(figures)


def test_look_ups_are_timed_both_ways(files):
    from coverlock_bench.provenance.lookup_times import lookup_times
    from coverlock_bench.provenance.tables import LOOKUPS

    figures = lookup_times("additive", "nano", files[0], (10, 50), rounds=1, seed=0)
    assert figures["50"]["shortlist"] > 0
    assert figures["50"]["all"] > 0
    assert LOOKUPS.markdown(figures).count("\n") == 3


def test_edits_are_found_and_unaltered_photos_compared(files):
    from coverlock_bench.provenance.edits import AREAS, EDITS, edit_rates
    from coverlock_bench.provenance.tables import EDITED, UNALTERED

    figures = edit_rates(files[:2], seed=0, cards=2)
    assert figures["edits"]["pasted from another photo"]["0.1"]["found"]["successes"] == 2
    assert figures["unaltered"]["jpeg"]["comparable"]["successes"] == 2
    assert EDITED.markdown(figures).count("\n") == 2 + len(EDITS) * len(AREAS)
    assert "half size, JPEG 80" in UNALTERED.markdown(figures)


def test_distances_of_fingerprints(files):
    from coverlock_bench.provenance.fingerprint_rates import fingerprint_rates
    from coverlock_bench.provenance.tables import DISTANCES

    figures = fingerprint_rates("nano", files, seed=0)
    assert figures["pairs"] == 6
    assert figures["drift"]["half size, JPEG 80"]["largest"] < figures["nearest"]
    assert "nano" in DISTANCES.markdown({"nano": figures})


def test_the_tolerances_are_those_that_were_measured():
    figures = json.loads((RESULTS / "fingerprints.json").read_text())["figures"]
    assert set(TOLERANCES) <= set(figures)
    for name, tolerance in TOLERANCES.items():
        measured = figures[name]["distance_at"][f"{tolerance.false_positives:g}"]
        assert tolerance.distance <= measured


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
