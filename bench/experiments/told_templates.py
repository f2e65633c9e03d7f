"""What it brings to tell a hash the templates of a vendor's pictures, and what it costs.

Of held-out designs whose pictures share a template, some pictures serve as examples. The others
are compared, marked, distorted and forged, with the hash as it is and when it was told. A forger
who has the weights may besides look for changes that give one of them the code of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from coverlock_bench.hashes.collision_report import SEARCHES
from coverlock_bench.hashes.kind_report import DRAWN
from coverlock_bench.photos import Picture8
from coverlock_bench.settings import named_watermark
from coverlock_bench.trial import TRANSPLANT, distort, floats, forge, mark
from coverlock_sdk import CoverLock, ImageHash, LockedWatermark, load_hash
from coverlock_sdk.errors import CoverLockError, needs
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_calls import picture_logits
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.kind_figures import kind_figures
from coverlock_sdk.training.kinds.catalogue import KINDS
from coverlock_sdk.training.kinds.collection import draw_sets
from coverlock_sdk.training.templates import learn_templates

SIDE = 256
"""Of the pictures, in pixels: residuals go from each to each."""

Sets = Mapping[str, Sequence[Sequence[Path]]]


def template_sets(kinds: Sequence[str], photos: list[Path], together: int) -> Sets:
    """So many pictures of two templates of each kind, or of all that share a template."""
    drawn = draw_sets(DRAWN / str(together), "evaluation", together, photos)
    shared = [kind for kind in drawn if KINDS[kind].one_template]
    for kind in kinds:
        if kind not in shared:
            raise CoverLockError(
                f"'{kind}' is not a kind whose pictures share a template: {', '.join(shared)}"
            )
    return {kind: drawn[kind] for kind in kinds or shared}


def told_templates(
    watermark: str, hash: str, photos: list[Path], sets: Sets, examples: int, seed: int
) -> dict[str, Any]:
    """By kind and for all, figures of the plain hash and of the one that was told.

    Of every template the first ``examples`` pictures are told and the others are judged. The
    figures of ``photos`` tell whether those are read as before.
    """
    plain = load_hash(hash)
    told = _told(plain, sets, examples)
    judged = {kind: [group[examples:] for group in groups] for kind, groups in sets.items()}
    figures = {
        name: dict(_by_kind(watermark, image_hash, judged, name, seed))
        for name, image_hash in (("plain", plain), ("told", told))
    }
    codes = [picture_logits(image_hash, photos) > 0 for image_hash in (plain, told)]
    changed = (codes[0] != codes[1]).sum(axis=1)
    return {
        "kinds": {kind: {name: rows[kind] for name, rows in figures.items()} for kind in sets},
        "all": {name: _pooled(list(rows.values())) for name, rows in figures.items()},
        "photos": {"count": len(photos), "read_otherwise": int((changed > 0).sum())},
    }


def collisions(hash: str, sets: Sets, examples: int, seed: int) -> dict[str, Any]:
    """By kind, how often a forger with the weights gives a picture the code of another.

    Of the pictures that are not told, half are targets and half are there to be robbed.
    """
    with needs("a search for collisions", "PyTorch", "torch"):
        from coverlock_bench.hashes.collisions import Collision
        from coverlock_bench.hashes.opponents import opponent
    plain = load_hash(hash)
    both = {"plain": plain, "told": _told(plain, sets, examples)}
    figures: dict[str, Any] = {}
    for kind, groups in sets.items():
        others = [floats(_pictures(group[examples:])) for group in groups]
        halves = [(pictures[::2], pictures[1::2]) for pictures in others]
        figures[kind] = {
            name: {
                search: _added_up(
                    Collision(**settings).success(opponent(image_hash), targets, crowd, seed)
                    for targets, crowd in halves
                )
                for search, settings in SEARCHES.items()
            }
            for name, image_hash in both.items()
        }
    return figures


def _added_up(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of searches on several templates, how many pictures were attacked and passed."""
    rows = list(found)
    return {name: sum(row[name] for row in rows) for name in ("accepted", "targets")}


def _told(plain: ImageHash, sets: Sets, examples: int) -> ImageHash:
    """The hash when it was told all templates at once."""
    known = {
        f"{kind} {number}": group[:examples]
        for kind, groups in sets.items()
        for number, group in enumerate(groups)
    }
    templates, _ = learn_templates(plain, known)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "templates.safetensors"
        templates.save(file)
        return load_hash("templates", file=file)


def _by_kind(
    watermark: str, image_hash: ImageHash, sets: Sets, label: str, seed: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of each kind."""
    lock = CoverLock(image_hash).protect(named_watermark(watermark))
    for kind, groups in progress(list(sets.items()), f"{watermark}, {label}"):
        pictures = [_pictures(group) for group in groups]
        codes = [picture_logits(image_hash, group) > 0 for group in pictures]
        alike = kind_figures({kind: codes})[kind]
        trials = [row for group in pictures for row in _trials(lock, group, seed)]
        yield (
            kind,
            {
                "pairs": alike["pairs"],
                "agreement": alike["mean"],
                "pairs_accepted": alike["accepted_64"],
                **_pooled(trials),
            },
        )


def _pictures(files: Sequence[Path]) -> list[Picture8]:
    return [read(file).to_bytes((SIDE, SIDE)) for file in files]


def _trials(
    lock: LockedWatermark, pictures: Sequence[Picture8], seed: int
) -> Iterator[dict[str, Any]]:
    """Each picture of one template marked and distorted, its residual pasted onto the others."""
    for row, picture in enumerate(pictures):
        message = f"picture {row}"
        marked = mark(lock, picture, message)
        others = [other for index, other in enumerate(pictures) if index != row]
        seen = distort(marked.picture, EVALUATION, np.random.default_rng([seed, row]))
        genuine = [bool(verdict) for verdict in lock.verify(list(seen.values()), message)]
        by_distortion = dict(zip(seen, map(int, genuine), strict=True))
        forged = forge(TRANSPLANT, [marked.picture], [picture], others)
        yield {
            "genuine": sum(genuine),
            "genuine_tried": len(genuine),
            **{f"genuine_{name}": passed for name, passed in by_distortion.items()},
            "forged": sum(bool(verdict) for verdict in lock.verify(forged, message)),
            "forged_tried": len(others),
        }


def _pooled(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The counts of trials added up."""
    counts = [name for name in rows[0] if name.startswith(("genuine", "forged"))]
    return {name: sum(row[name] for row in rows) for name in counts}
