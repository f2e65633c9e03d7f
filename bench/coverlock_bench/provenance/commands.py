"""``coverlock bench provenance``, ``fingerprints``, ``lookups``, ``alterations``, ``fuzzing``"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coverlock_bench.measurement import (
    Measured,
    count_option,
    hashes_option,
    measurement,
    number_option,
)
from coverlock_bench.photos import find_photos
from coverlock_sdk.cli.opening import chosen_keyring
from coverlock_sdk.cli.options import key_option, repository_option
from coverlock_sdk.loading import DEFAULT_HASH


@measurement("fingerprints", "images held_out seed", hashes_option("nano", "keen"), count_option())
def fingerprints(
    images: Path | None, held_out: bool, seed: int, hashes: tuple[str, ...], count: int | None
) -> Measured:
    """Measure how near fingerprints of different photos come, and how far those of one drift."""
    from coverlock_bench.provenance.fingerprint_rates import fingerprint_rates

    photos = find_photos(images, held_out)[:count]
    figures = {name: fingerprint_rates(name, photos, seed) for name in hashes}
    config = {"photos": len(photos), "held_out": held_out, "seed": seed}
    return Measured(config, figures)


@measurement(
    "provenance",
    "watermarks images fpr seed",
    hashes_option(DEFAULT_HASH),
    count_option(),
    number_option("--transplants", 200, "Marks that are moved to another photo."),
)
def provenance_command(
    watermarks: tuple[str, ...],
    images: Path | None,
    fpr: float,
    seed: int,
    hashes: tuple[str, ...],
    count: int | None,
    transplants: int,
) -> Iterator[Measured]:
    """Sign photos, strip them, and see which manifests are found again, and by which forgeries."""
    from coverlock_bench.provenance.round_trips import provenance
    from coverlock_bench.provenance.tables import ROUND_TRIPS, TRANSPLANTS

    photos = find_photos(images)[:count]
    config = {"photos": len(photos), "transplants": transplants, "fpr": fpr, "seed": seed}
    figures: dict[str, Any] = {}
    for name in watermarks:
        for hash in hashes:
            found = provenance(name, hash, photos, transplants, fpr, seed)
            figures.setdefault(name, {})[hash] = found
            summary = f"{ROUND_TRIPS.markdown(figures)}\n\n{TRANSPLANTS.markdown(figures)}"
            yield Measured(config, figures, summary)


@measurement(
    "lookups",
    "watermark images seed hash",
    number_option("--rounds", 20, "Timings, of which the median counts."),
)
def lookups(watermark: str, images: Path | None, seed: int, hash: str, rounds: int) -> Measured:
    """Time how long it takes to find a picture's manifest among a thousand and among a million."""
    from coverlock_bench.provenance.lookup_times import lookup_times
    from coverlock_bench.provenance.tables import LOOKUPS

    sizes = (1_000, 10_000, 100_000, 1_000_000)
    figures = lookup_times(watermark, hash, find_photos(images)[0], sizes, rounds, seed)
    config = {"watermark": watermark, "hash": hash, "rounds": rounds, "seed": seed}
    return Measured(config, figures, LOOKUPS.markdown(figures))


@measurement(
    "alterations",
    "images held_out seed",
    count_option(),
    number_option("--cards", 100, "Drawn ID cards on which a line is retyped."),
)
def alterations_command(
    images: Path | None, held_out: bool, seed: int, count: int | None, cards: int
) -> Measured:
    """Edit 2 to 10 % of photos and see whether a map against the signed thumbnail shows where."""
    from coverlock_bench.provenance.edits import edit_rates
    from coverlock_bench.provenance.tables import EDITED, UNALTERED

    photos = find_photos(images, held_out)[:count]
    figures = edit_rates(photos, seed, cards)
    config = {"cards": cards, "photos": len(photos), "held_out": held_out, "seed": seed}
    summary = f"{EDITED.markdown(figures)}\n\n{UNALTERED.markdown(figures)}"
    return Measured(config, figures, summary)


@measurement(
    "fuzzing",
    "bundle seed",
    key_option,
    repository_option,
    number_option("--requests", 2000, "Requests in all, over the routes of the API."),
)
def fuzzing(
    bundle: Path, seed: int, key_file: Path | None, repository: Path, requests: int
) -> Measured:
    """Ask the resolution API of a bundle at random, by its own description, and count errors."""
    from coverlock_bench.provenance.fuzzing import fuzz
    from coverlock_sdk import Verifier
    from coverlock_sdk.provenance.repository import ManifestRepository
    from coverlock_sdk.provenance.resolving import Resolver

    verifier = Verifier.open(bundle, key=chosen_keyring(key_file), threads=1)
    kept = ManifestRepository(repository)
    figures = fuzz(verifier, Resolver(kept, [verifier]), requests, seed)
    config = {
        "watermark": verifier.watermark_name,
        "hash": verifier.hash_name,
        "manifests": len(kept.entries()),
        "requests": requests,
        "seed": seed,
    }
    return Measured(config, figures)
