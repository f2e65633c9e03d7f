"""``coverlock bench key-attacks``, ``key-pictures``, ``lock-schemes``, ``salt-costs`` and more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.knowing.tables import END_TO_END, KEY_ATTACKS, LOCK_SCHEMES, NULLS
from coverlock_bench.known_originals import DEFENSES, KNOWN_ORIGINALS
from coverlock_bench.measurement import FOLDER, Measured, measurement, number_option
from coverlock_bench.photos import find_photos, load_squares
from coverlock_sdk.locking.coverlock import DEFAULT_RULE

QUERIED_BITS = 64
"""The payloads that query attackers are set upon."""

released_option = click.option("--released", type=FOLDER, required=True, help="Photos to release.")
targets_option = click.option("--targets", type=FOLDER, required=True, help="Photos to forge.")
work_option = click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/key-attacks"),
    show_default=True,
    help="What was measured so far; an interrupted run goes on there.",
)


@measurement(
    "key-attacks",
    "hash fpr seed",
    released_option,
    targets_option,
    number_option("--count", 400, "Targets of attacks on codes."),
    number_option("--queried", 40, "Targets of query attackers."),
    number_option("--budget", 3000, "Queries for each target."),
    click.option(
        "--bits",
        type=int,
        multiple=True,
        default=(64, 32),
        show_default=True,
        help="Length of payloads. May be repeated.",
    ),
    work_option,
)
def key_attacks(
    released: Path,
    targets: Path,
    hash: str,
    count: int,
    queried: int,
    budget: int,
    bits: tuple[int, ...],
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """Attack keys as someone who knows everything else, on codes; see docs/threat-model.md."""
    from coverlock_bench.knowing.study import ONE_ROTATION, Study, query_rows
    from coverlock_bench.ledger import Ledger, Session, resumable
    from coverlock_sdk.loading import load_hash

    run, ours, theirs = (
        Session(Ledger(work / "rows.sqlite")),
        find_photos(released),
        find_photos(targets),
    )
    image_hash = load_hash(hash)
    figures: dict[str, dict[str, Any]] = {"codes": {}, "queries": {}}
    with resumable(work):
        codes = _codes(hash, ours, work), _codes(hash, theirs[:count], work)
        sources, wanted = load_squares(ours[:50], 256), load_squares(theirs[:queried], 256)
        for length in bits:
            study = Study(image_hash, *codes, length, fpr, seed, run)
            figures["codes"][str(length)] = {
                scheme: study.rows(scheme)
                for scheme in ("keyless", "scheme 1", "scheme 2", ONE_ROTATION)
            }
            if length == QUERIED_BITS:
                figures["queries"][str(length)] = {
                    scheme: query_rows(study, scheme, sources, wanted, budget)
                    for scheme in ("scheme 1", "scheme 2")
                }
    config: dict[str, Any] = {"hash": hash, "fpr": fpr, "seed": seed, "released": len(ours)}
    config |= {"targets": count, "queried": queried, "rule": "soft"}
    return Measured(config, figures, KEY_ATTACKS.markdown(figures))


@measurement(
    "key-pictures",
    "watermarks hash fpr seed",
    released_option,
    targets_option,
    number_option("--album", 500, "Pictures to release."),
    number_option("--count", 100, "Targets."),
    number_option("--slow", 40, "Targets of attacks that take many steps for each."),
    work_option,
)
def key_pictures(
    watermarks: tuple[str, ...],
    released: Path,
    targets: Path,
    hash: str,
    album: int,
    count: int,
    slow: int,
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """The attacks on keys with real pictures: marked ones in, forged ones out."""
    from coverlock_bench.knowing.end_to_end import end_to_end
    from coverlock_bench.ledger import Ledger, Session, resumable

    run, figures = Session(Ledger(work / "rows.sqlite")), {}
    stolen, forged = (find_photos(released)[:album], find_photos(targets)[:count])
    with resumable(work):
        for name in watermarks:
            pictures = load_squares(stolen, 128), load_squares(forged, 128)
            figures[name] = end_to_end(name, hash, *pictures, slow, fpr, seed, run, work)
    config: dict[str, Any] = {"hash": hash, "fpr": fpr, "seed": seed, "album": album}
    config |= {"count": count, "slow": slow, "rule": DEFAULT_RULE}
    return Measured(config, figures, END_TO_END.markdown(figures))


def _codes(hash: str, photos: list[Path], work: Path) -> Any:
    """The hash logits of ``photos``, kept."""
    from coverlock_bench.ledger import digest
    from coverlock_sdk.loading import load_hash
    from coverlock_sdk.plugin_calls import picture_logits

    kept = work / f"codes-{hash}-{digest(*[str(photo) for photo in photos])}.npy"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, picture_logits(load_hash(hash), photos))
    return np.load(kept)


@measurement(
    "lock-schemes",
    "watermarks hash fpr seed",
    click.option(
        "--held-out", type=FOLDER, required=True, help="Photos of training; uses held-out ones."
    ),
    click.option("--images", type=FOLDER, multiple=True, required=True, help="Unseen photos."),
    number_option("--count", 100, "Photos to mark of each kind."),
    work_option,
)
def lock_schemes_command(
    watermarks: tuple[str, ...],
    held_out: Path,
    images: tuple[Path, ...],
    hash: str,
    count: int,
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """Compare ways to lock: genuine pictures that pass after distortions."""
    from coverlock_bench.ledger import Ledger, Session, resumable
    from coverlock_bench.lock_schemes import lock_schemes

    unseen = [photo for folder in images for photo in find_photos(folder)]
    kinds = {"held out": find_photos(held_out, held_out=True)[:count], "unseen": unseen[:count]}
    figures: dict[str, Any] = {"genuine": {}}
    run = Session(Ledger(work / "rows.sqlite"))
    with resumable(work):
        for kind, photos in kinds.items():
            figures["genuine"][kind] = {
                name: lock_schemes(name, hash, photos, fpr, seed, run) for name in watermarks
            }
    config = {"hash": hash, "count": count, "fpr": fpr, "seed": seed}
    return Measured(config, figures, LOCK_SCHEMES.markdown(figures))


@measurement(
    "salt-costs",
    "watermarks hash fpr seed",
    click.option("--images", type=FOLDER, multiple=True, required=True, help="Unseen photos."),
    work_option,
)
def salt_costs_command(
    watermarks: tuple[str, ...],
    images: tuple[Path, ...],
    hash: str,
    fpr: float,
    seed: int,
    work: Path,
) -> Measured:
    """What trying all salts costs: false positives, time, and payloads of similar pictures."""
    from coverlock_bench.ledger import Ledger, Session, resumable
    from coverlock_bench.salt_costs import SIMULATED, false_positives, simulated, times
    from coverlock_bench.similar_pictures import similar_pictures
    from coverlock_sdk import load_hash, wrap
    from coverlock_sdk.images.conversion import read

    unseen = [photo for folder in images for photo in find_photos(folder)]
    figures: dict[str, Any] = {"false_positives": {}}
    run = Session(Ledger(work / "rows.sqlite"))
    with resumable(work):
        for name in watermarks:
            lock = wrap(name, hash=hash)
            logits = _logits(lock, unseen, work)
            figures["false_positives"][name] = false_positives(lock.format, *logits, fpr, 2, run)
        for bits in SIMULATED:
            layout, payloads = simulated(load_hash(hash).calibration, bits, len(unseen), seed)
            figures["false_positives"][f"simulated, {bits}"] = false_positives(
                layout, payloads, logits[1], fpr, 2, run
            )
    figures["similar"] = {str(bits): similar_pictures(hash, 12, bits, fpr) for bits in (64, 32)}
    figures["milliseconds"] = times(watermarks[0], hash, read(unseen[0]).to_bytes(), 30)
    config = {"hash": hash, "fpr": fpr, "seed": seed, "unseen": len(unseen)}
    return Measured(config, figures, NULLS.markdown(figures))


def _logits(lock: Any, photos: list[Path], work: Path) -> tuple[Any, Any]:
    """What decoder and hash see of unmarked ``photos``, kept."""
    from coverlock_bench.ledger import digest

    names = digest(*[str(photo) for photo in photos])
    kept = work / f"unmarked-{lock.watermark_name}-{lock.hash_name}-{names}.npz"
    if not kept.exists():
        decoded, hashed = lock.logits(photos)
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, decoded=decoded, hashed=hashed)
    with np.load(kept) as found:
        return found["decoded"], found["hashed"]


@measurement(
    "known-originals",
    "watermarks images fpr",
    number_option("--count", 30, "Photos to average over, to clean, and to forge."),
    work_option,
)
def known_originals_command(
    watermarks: tuple[str, ...], images: Path | None, count: int, fpr: float, work: Path
) -> Measured:
    """Forge and remove with averages over pictures whose originals are known."""
    from coverlock_bench.known_originals import kept
    from coverlock_bench.ledger import Ledger, Session, resumable
    from coverlock_bench.settings import named_watermark
    from coverlock_sdk.plugin_calls import working_size

    figures: dict[str, Any] = {}
    run = Session(Ledger(work / "rows.sqlite"))
    with resumable(work):
        for name in watermarks:
            watermark = named_watermark(name)
            photos = load_squares(find_photos(images)[: 3 * count], working_size(watermark)[0])
            figures[name] = {
                defense: kept(watermark, defense, photos, count, fpr, run) for defense in DEFENSES
            }
    config = {"count": count, "fpr": fpr, "rule": DEFAULT_RULE}
    return Measured(config, figures, KNOWN_ORIGINALS.markdown(figures))
