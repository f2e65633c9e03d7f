"""Forgers without the key: can a picture of their own pass under a vendor's identifier?

A forger has every network, the hash and released pictures of a vendor. The study grants him
the payload of any of them, bit by bit, and the vendor's encoder. What he lacks is the key, so all
he can do is move the code of his picture toward that of a released one. He is judged by the lock as
it ships, without a registry and with one that has all released pictures.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.intervals import rate
from coverlock_bench.photos import Picture8, find_photos, load_squares
from coverlock_bench.results import write_result
from coverlock_bench.tables import RATE, Columns, Row, Table, below
from coverlock_sdk import wrap
from coverlock_sdk.arrays import Bits, Logits
from coverlock_sdk.contract import ImageHash, Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.conversion import read
from coverlock_sdk.loading import DEFAULT_HASH, load_hash, load_watermark
from coverlock_sdk.locking.bound import additive_bound
from coverlock_sdk.locking.keys import Key
from experiments.forger_edits import (
    MILD,
    SeenThrough,
    Style,
    additive,
    band_cosines,
    bordered,
    card,
    code_of,
    edited,
    hybrid,
    limited,
    mixed,
    moved,
    nearest,
    restyle,
    sticker,
    views,
    written,
)

SIDE = 256
IDENTIFIER = "vendor"
CUTS = (8, 14, 24, 32)
SHARES = (0.05, 0.1, 0.2, 0.36, 0.51)
MIDDLE, BOTTOM = (0.2, 0.3, 0.8, 0.65), (0.0, 0.75, 1.0, 1.0)
"""Where text cards lie: about a fifth and a quarter of the area."""
CARD_BLUR = 4.0
CAPTION = (0.0, 0.9, 1.0, 1.0)

Figures = dict[str, Any]


@dataclass(frozen=True)
class Released:
    """A marked picture that everybody can download, and what the study grants a forger of it."""

    picture: Picture8
    payload: Bits
    code: Logits
    margins: Logits
    """The numbers whose signs lock the message; no forger sees them, the bound does."""


class Vendor:
    """Marks pictures with a key, as ``wrap`` ships it, and verifies them in two ways."""

    def __init__(
        self, watermark: Watermark, image_hash: ImageHash, secret: bytes, registry: Path
    ) -> None:
        key = Key(secret, id="vendor")
        self.alone = wrap(watermark, key=key, hash=image_hash)
        self.remembering = wrap(watermark, key=key, hash=image_hash, registry=registry)
        self.lock, self.binder = self.alone.lock, self.alone.binder
        self.code = image_hash
        if not isinstance(image_hash, OctaveCode):
            self.code = SeenThrough(image_hash, watermark.native_size or image_hash.input_size)
        self.terms = self.lock.terms(IDENTIFIER, key)

    def release(self, picture: Picture8) -> Released:
        """Mark a picture; the registry remembers it."""
        marked = self.remembering.mark(picture, IDENTIFIER)
        code = code_of(self.code, marked.picture)
        return Released(
            marked.picture,
            self.lock.payload(self.terms.message, marked.code),
            code,
            self.terms.code_map.seen(code[None])[0, marked.salt],
        )

    def carrying(self, picture: Picture8, payload: Bits) -> Picture8:
        """What a forger gets who puts a payload into a picture with the vendor's encoder."""
        [residual] = self.binder.networks.residuals(
            self.binder.networks.views([read(picture)]), payload[None]
        )
        return read(picture).with_residual(residual).to_bytes()


@dataclass(frozen=True)
class Forgery:
    """A forged picture beside the released one that it aims at."""

    picture: Picture8
    own: Picture8
    """What the forger started from."""
    source: Released


class Study:
    """A vendor, what he has released, and the pictures of forgers."""

    def __init__(
        self,
        watermark: Watermark,
        pictures: Sequence[Picture8],
        pairs: int,
        sources: int,
        steps: int,
        registry: Path,
        seed: int = 0,
        image_hash: ImageHash | None = None,
    ) -> None:
        if len(pictures) < pairs + sources:
            raise CoverLockError(
                f"{pairs} pairs and {sources} sources need {pairs + sources} photos, but there are "
                f"{len(pictures)}: name a larger folder, or ask for fewer"
            )
        rng = np.random.default_rng(seed)
        self.vendor = Vendor(watermark, image_hash or load_hash(), rng.bytes(32), registry)
        self.code = self.vendor.code
        self.steps, self.pairs = steps, pairs
        self.released = [self.vendor.release(picture) for picture in pictures[:sources]]
        self.others = list(pictures[sources:])

    @property
    def own(self) -> list[Picture8]:
        """The pictures that forgers want to pass."""
        return self.others[: self.pairs]

    @cached_property
    def codes(self) -> Logits:
        """The codes (sources, dimensions) of released pictures."""
        return np.stack([released.code for released in self.released])

    def paired(self) -> list[tuple[Picture8, Released]]:
        """Each picture of a forger with some released one."""
        count = len(self.released)
        return [(own, self.released[row % count]) for row, own in enumerate(self.own)]

    def nearest_pairs(self) -> list[tuple[Picture8, Released]]:
        """Each picture of a forger with the released one whose code is nearest."""
        return [self._nearest([own]) for own in self.own]

    def _nearest(self, candidates: list[Picture8]) -> tuple[Picture8, Released]:
        codes = np.stack([code_of(self.code, picture) for picture in candidates])
        view, source = nearest(self.code, codes, self.codes)
        return candidates[view], self.released[source]

    # Attackers

    def additive(self, decibels: float) -> Iterator[Forgery]:
        """The payload, and the best change of so many decibels on top of it."""
        for own, source in self.nearest_pairs():
            carried = self.vendor.carrying(own, source.payload)
            yield Forgery(self._moved(carried, source.code, decibels), own, source)

    def _moved(self, picture: Picture8, source: Logits, decibels: float) -> Picture8:
        """The best change there is, or for a network the best that gradients find."""
        if isinstance(self.code, OctaveCode):
            return additive(self.code, picture, source, decibels)
        return moved(self.code, picture, source, decibels, self.steps)

    def hybrids(self, half_waves: int) -> Iterator[Forgery]:
        """Low frequencies of a released picture under the high ones of the forger's."""
        for own, source in self.paired():
            mix = hybrid(source.picture, own, half_waves)
            yield Forgery(self.vendor.carrying(mix, source.payload), own, source)

    def styled(self, style: Style, crops: bool) -> Iterator[Forgery]:
        """Edits sought by gradient, the payload, and the best additive change on top."""
        for picture in self.own:
            own, source = self._nearest(views(picture) if crops else [picture])
            carried = self.vendor.carrying(own, source.payload)
            found = edited(self.code, own, carried, source.code, style, self.steps)
            found = self.vendor.carrying(found, source.payload)
            forged = self._moved(found, source.code, style.residual)
            if style.total is not None:
                forged = limited(carried, forged, style.total)
            yield Forgery(forged, own, source)

    def cards(self, box: tuple[float, float, float, float]) -> Iterator[Forgery]:
        """Text on a blurred copy of a released picture."""
        for own, source in self.paired():
            picture = card(source.picture, CARD_BLUR, box)
            yield Forgery(self.vendor.carrying(picture, source.payload), own, source)

    def composed(self, share: float, genuine: str) -> Iterator[Forgery]:
        """Released pictures, ``share`` of the area replaced outside or inside the genuine part."""
        for own, source in self.paired():
            if genuine == "centre":
                picture = mixed(source.picture, own, 1 - share)
            else:
                picture = mixed(own, source.picture, share)
            yield Forgery(self.vendor.carrying(picture, source.payload), own, source)

    def overlaid(self, edit: Callable[[Picture8], Picture8]) -> Iterator[Forgery]:
        """Released pictures that somebody has written on, honestly."""
        for source in self.released[: self.pairs]:
            yield Forgery(edit(source.picture), source.picture, source)

    # Figures

    def judged(self, forgeries: Iterator[Forgery]) -> Figures:
        """What both ways of verification say, and how near the codes came."""
        passed: dict[str, list[bool]] = {"alone": [], "registry": []}
        cosines, quality, read_right, agree, likeness = [], [], [], [], []
        for forgery in forgeries:
            verdict = self.vendor.alone.verify(forgery.picture, IDENTIFIER)
            remembered = self.vendor.remembering.verify(forgery.picture, IDENTIFIER)
            passed["alone"].append(bool(verdict))
            passed["registry"].append(bool(remembered))
            agree.append(verdict.matches / verdict.bits)
            likeness.append(remembered.likeness or 0.0)
            decoded, _ = self.vendor.alone.logits(forgery.picture)
            read_right.append(float(((decoded[0] > 0) == forgery.source.payload).mean()))
            reached = code_of(self.code, forgery.picture)
            cosines.append(band_cosines(self.code, reached, forgery.source.code))
            quality.append(min(read(forgery.own).psnr(read(forgery.picture)), 100.0))
        return {
            **{name: rate(sum(found), len(found)) for name, found in passed.items()},
            "cosines": np.mean(cosines, axis=0).tolist(),
            "best_cosines": np.quantile(cosines, 0.9, axis=0).tolist(),
            "matches": fmean(agree),
            "most_matches": max(agree),
            "likeness": fmean(likeness),
            "most_likeness": max(likeness),
            "payload_read": fmean(read_right),
            "psnr": fmean(quality),
        }

    def bound(self, decibels: float, pairs: int) -> Figures:
        """The exact bound on additive changes, from each picture to the nearest released one."""
        odds, cosines = [], []
        assert isinstance(self.code, OctaveCode)
        for picture in self.others[:pairs]:
            own, source = self._nearest([picture])
            found = additive_bound(
                self.code, code_of(self.code, own), source.code, source.margins, decibels
            )
            odds.append(found.odds)
            cosines.append(found.cosines)
        return {
            "pairs": len(odds),
            "odds": fmean(odds),
            "most_odds": max(odds),
            "above_1_percent": float(np.mean(np.array(odds) > 0.01)),
            "cosines": np.mean(cosines, axis=0).tolist(),
        }

    def parts(self, bound_pairs: int) -> Mapping[str, Callable[[], Figures]]:
        """Everything that is measured, by name."""
        linear = isinstance(self.code, OctaveCode)
        change = "additive" if linear else "moved"
        forged: dict[str, Callable[[], Iterator[Forgery]]] = {
            **{f"{change}-{n}": partial(self.additive, n) for n in (34, 31)},
            **{f"hybrid-{cut}": partial(self.hybrids, cut) for cut in CUTS},
            "edits": partial(self.styled, MILD, crops=True),
            **{f"restyled-{n}": partial(self.styled, restyle(n), crops=False) for n in (25, 20)},
            "card-middle": partial(self.cards, MIDDLE),
            "card-bottom": partial(self.cards, BOTTOM),
            "caption": partial(self.overlaid, partial(written, box=CAPTION)),
            "sticker": partial(self.overlaid, sticker),
            "border": partial(self.overlaid, bordered),
            **{
                f"genuine-{part}-{share:.0%}": partial(self.composed, share, part)
                for part in ("centre", "surroundings")
                for share in SHARES
            },
        }
        return {
            **{name: partial(_judged, self, make) for name, make in forged.items()},
            **{f"bound-{n}": partial(self.bound, n, bound_pairs) for n in (34, 31) if linear},
        }


def _judged(study: Study, make: Callable[[], Iterator[Forgery]]) -> Figures:
    return study.judged(make())


# Tables

ATTACKS = {
    "additive-34": "a change of 34 dB, the best there is",
    "additive-31": "a change of 31 dB, the best there is",
    "moved-34": "a change of 34 dB, sought by gradient",
    "moved-31": "a change of 31 dB, sought by gradient",
    **{f"hybrid-{cut}": f"a hybrid, cut at {cut} half-waves" for cut in CUTS},
    "edits": "photographic edits sought by gradient, and 38 dB on top",
    **{f"restyled-{n}": f"the picture restyled by gradient, at {n} dB" for n in (25, 20)},
    "card-middle": "a text card in the middle of a blurred copy",
    "card-bottom": "a text card at the foot of a blurred copy",
}
"""Attackers by their names in a result file."""

HONEST = {"caption": "a caption", "sticker": "a sticker", "border": "a border"}


def _rows(names: Mapping[str, str]) -> Callable[[Figures], Iterator[Row]]:
    def rows(figures: Figures) -> Iterator[Row]:
        for name, label in names.items():
            if name in figures:
                yield {"label": label, **figures[name]}

    return rows


def _shares(figures: Figures) -> Iterator[Row]:
    for share in SHARES:
        parts = {part: f"genuine-{part}-{share:.0%}" for part in ("centre", "surroundings")}
        if all(name in figures for name in parts.values()):
            yield {"share": share, **{part: figures[name] for part, name in parts.items()}}


PASSED: Columns = (
    ("without a registry", below("alone", RATE)),
    ("with a registry", below("registry", RATE)),
)

FORGERS = Table(
    "Forgeries that pass, by attackers who have everything but the key",
    _rows(ATTACKS),
    (("the forger makes", "{label}"), *PASSED, ("PSNR", "{psnr:.0f} dB")),
)
BOUNDS = Table(
    "The bound on additive changes",
    _rows({f"bound-{n}": f"{n} dB" for n in (34, 31)}),
    (
        ("change", "{label}"),
        ("pairs", "{pairs}"),
        ("odds that a forgery passes, mean", "{odds:%2} %"),
        ("largest", "{most_odds:%1} %"),
        ("pairs above 1 %", "{above_1_percent:%0} %"),
    ),
)
OVERLAID = Table(
    "Genuine pictures that verify although something was laid over them",
    _rows(HONEST),
    (("laid over", "{label}"), *PASSED),
)
BOUND_PARTS = Table(
    "How much of a picture is bound: marked pictures that verify after a part was replaced",
    _shares,
    (
        ("area", "{share:%0} %"),
        *(
            (f"{where} replaced, {how}", below(f"{part}/{way}", "{successes} of {trials}"))
            for part, where in (("centre", "surroundings"), ("surroundings", "centre"))
            for way, how in (("alone", "no registry"), ("registry", "registry"))
        ),
    ),
)


def table(figures: Figures) -> str:
    """All that was measured, as people read it."""
    return "\n\n".join(
        f"{each.title}\n\n{each.markdown(figures)}"
        for each in (FORGERS, BOUNDS, OVERLAID, BOUND_PARTS)
    )


@click.command("forgers")
@click.option("-w", "--watermark", default="mbrs", show_default=True)
@click.option("--hash", default=DEFAULT_HASH, show_default=True)
@click.option("--images", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--pairs", type=click.IntRange(1), default=30, show_default=True)
@click.option("--bound-pairs", type=click.IntRange(1), default=200, show_default=True)
@click.option(
    "--sources",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Released pictures that a forger chooses from.",
)
@click.option("--steps", type=click.IntRange(1), default=120, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--only", multiple=True, help="An attack; may be repeated.")
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Result file (JSON). If it is there already, the run goes on from it.",
)
def forgers(
    watermark: str,
    hash: str,
    images: Path | None,
    pairs: int,
    bound_pairs: int,
    sources: int,
    steps: int,
    seed: int,
    only: tuple[str, ...],
    out: Path,
) -> None:
    """Forgers without the key, against the lock with and without a registry."""
    config = {
        "watermark": watermark,
        "hash": hash,
        "weights": weights_of(load_hash(hash)),
        "images": images and images.name,
        "pairs": pairs,
        "bound_pairs": bound_pairs,
        "sources": sources,
        "steps": steps,
        "seed": seed,
    }
    figures = _earlier(out, config)
    photos = find_photos(images)
    order = np.random.default_rng(seed).permutation(len(photos))
    chosen = [photos[place] for place in order[: sources + max(pairs, bound_pairs)]]
    with tempfile.TemporaryDirectory() as folder:
        study = Study(
            load_watermark(watermark),
            load_squares(chosen, SIDE),
            pairs,
            sources,
            steps,
            Path(folder) / "registry.sqlite",
            seed,
            load_hash(hash),
        )
        parts = study.parts(bound_pairs)
        unknown = set(only) - set(parts)
        if unknown:
            raise CoverLockError(
                f"there is no attack '{min(unknown)}': choose from {', '.join(parts)}"
            )
        for name in only or parts:
            if name not in figures:
                figures[name] = parts[name]()
                write_result(out, "experiments forgers", config, figures)
                click.echo(f"{name}: measured", err=True)
    click.echo(table(figures))


def _earlier(out: Path, config: dict[str, Any]) -> dict[str, Figures]:
    """What an interrupted run has found, if it was the same."""
    if not out.exists():
        return {}
    document = json.loads(out.read_text())
    if document["config"] != config:
        raise CoverLockError(f"{out} was measured with {document['config']}: name another file")
    found: dict[str, Figures] = document["figures"]
    return found


if __name__ == "__main__":
    forgers()
