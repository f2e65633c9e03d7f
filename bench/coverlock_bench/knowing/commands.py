"""``coverlock bench key-attacks`` and ``coverlock bench lock-schemes``"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from coverlock_bench.options import hash_option, out_option, watermarks_option
from coverlock_bench.photos import find_photos, load_squares
from coverlock_bench.results import write_and_print
from coverlock_sdk.cli.options import json_option
from coverlock_sdk.locking.coverlock import DEFAULT_FPR

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
released_option = click.option("--released", type=FOLDER, required=True, help="Photos to release.")
targets_option = click.option("--targets", type=FOLDER, required=True, help="Photos to forge.")
work_option = click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/key-attacks"),
    show_default=True,
    help="What was measured so far; an interrupted run goes on there.",
)


@click.command("key-attacks")
@watermarks_option
@released_option
@targets_option
@hash_option
@click.option("--count", default=200, show_default=True, help="Targets of attacks on codes.")
@click.option("--pictures", default=40, show_default=True, help="Targets of real pictures.")
@click.option("--queried", default=10, show_default=True, help="Targets of query attackers.")
@click.option("--budget", default=3000, show_default=True, help="Queries for each target.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def key_attacks(
    watermarks: tuple[str, ...],
    released: Path,
    targets: Path,
    hash: str,
    count: int,
    pictures: int,
    queried: int,
    budget: int,
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Attack keys as someone who knows everything else; see docs/threat-model.md."""
    from coverlock_bench.knowing.end_to_end import end_to_end
    from coverlock_bench.knowing.study import Study, query_rows
    from coverlock_bench.ledger import Ledger, Run, resumable
    from coverlock_sdk.loading import load_hash

    run, ours, theirs = (
        Run(Ledger(work / "rows.sqlite")),
        find_photos(released),
        find_photos(targets),
    )
    image_hash = load_hash(hash)
    figures: dict[str, dict[str, Any]] = {"codes": {}, "queries": {}, "pictures": {}}
    with resumable(work):
        codes = _codes(hash, ours, work), _codes(hash, theirs[:count], work)
        sources, wanted = load_squares(ours[:50], 256), load_squares(theirs[:queried], 256)
        for bits in (64, 32):
            study = Study(image_hash, *codes, bits, fpr, seed, run)
            figures["codes"][str(bits)] = {
                scheme: study.rows(scheme) for scheme in ("keyless", "scheme 1", "scheme 2")
            }
            if bits == 64:
                figures["queries"][str(bits)] = {
                    scheme: query_rows(study, scheme, sources, wanted, budget)
                    for scheme in ("scheme 1", "scheme 2")
                }
        for name in watermarks:
            sources, wanted = load_squares(ours[:500], 128), load_squares(theirs[:pictures], 128)
            figures["pictures"][name] = end_to_end(
                name, hash, sources, wanted, (20, 500), fpr, seed, run, work
            )
    config: dict[str, Any] = {"hash": hash, "fpr": fpr, "seed": seed, "released": len(ours)}
    config |= {"targets": count, "pictures": pictures, "queried": queried, "rule": "soft"}
    write_and_print(out, "bench key-attacks", config, figures, as_json)


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


@click.command("lock-schemes")
@watermarks_option
@click.option(
    "--held-out", type=FOLDER, required=True, help="Photos of training; uses held-out ones."
)
@click.option("--images", type=FOLDER, multiple=True, required=True, help="Unseen photos.")
@hash_option
@click.option("--count", default=100, show_default=True, help="Photos to mark of each kind.")
@click.option("--fpr", default=DEFAULT_FPR, show_default=True)
@click.option("--seed", default=0, show_default=True)
@work_option
@out_option
@json_option
def lock_schemes_command(
    watermarks: tuple[str, ...],
    held_out: Path,
    images: tuple[Path, ...],
    hash: str,
    count: int,
    fpr: float,
    seed: int,
    work: Path,
    out: Path,
    as_json: bool,
) -> None:
    """Compare ways to lock: genuine pictures, false positives with all salts, and time."""
    from coverlock_bench.ledger import Ledger, Run, resumable
    from coverlock_bench.lock_schemes import lock_schemes
    from coverlock_bench.salt_costs import false_positives, times
    from coverlock_bench.similar_pictures import similar_pictures
    from coverlock_sdk import wrap
    from coverlock_sdk.images.kinds import read

    unseen = [photo for folder in images for photo in find_photos(folder)]
    kinds = {"held out": find_photos(held_out, held_out=True)[:count], "unseen": unseen[:count]}
    figures: dict[str, Any] = {"genuine": {}, "false_positives": {}}
    run = Run(Ledger(work / "rows.sqlite"))
    with resumable(work):
        for kind, photos in kinds.items():
            figures["genuine"][kind] = {
                name: lock_schemes(name, hash, photos, fpr, seed, run) for name in watermarks
            }
        for name in watermarks:
            lock = wrap(name, hash=hash)
            logits = _logits(lock, unseen, work)
            figures["false_positives"][name] = false_positives(lock.format, *logits, fpr, 2)
    figures["similar"] = {str(bits): similar_pictures(hash, 12, bits, fpr) for bits in (64, 32)}
    figures["milliseconds"] = times(watermarks[0], hash, read(unseen[0]).to_bytes(), 30)
    config = {"hash": hash, "count": count, "fpr": fpr, "seed": seed, "unseen": len(unseen)}
    write_and_print(out, "bench lock-schemes", config, figures, as_json)


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
