"""``coverlock bench alterations`` and ``coverlock bench fuzzing``"""

from __future__ import annotations

from pathlib import Path

from coverlock_bench.measurement import Measured, count_option, measurement, number_option
from coverlock_bench.photos import find_photos
from coverlock_sdk.cli.opening import chosen_keyring
from coverlock_sdk.cli.options import key_option, repository_option


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
