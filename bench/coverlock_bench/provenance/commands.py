"""``coverlock bench fingerprints``"""

from __future__ import annotations

from pathlib import Path

from coverlock_bench.measurement import Measured, count_option, hashes_option, measurement
from coverlock_bench.photos import find_photos


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
