"""What released pictures of one identifier give away about a key's rotations.

The attacker has the public code of every released picture and reads its payload without an error.
A payload bit is the sign of the code along a secret direction, XORed with a pad, so he has labelled
examples of every direction; he does not know which of the salts a picture was marked under. Four
attackers:

- *told*: he knows which pictures share a salt, and learns its directions by regression;
- *hidden*: he finds the salts himself. Two pictures of one salt agree in a bit more often when
  their codes are alike, so products of both agreements cluster the pictures;
- *originals*: he also has the originals, so that he sees what closed-form hardening added, which is
  a combination of secret directions and of nothing else;
- *dictionary*: the same by fourth powers, without a look at the payloads.

He forges a picture of his own by what he has learned: as it is, or *steered*, moved along the
directions he believes in by as much as an invisible change allows. A forgery counts if it reaches
the floors under any salt. Steering, and what hardening gives away, are computed in closed form, so
they are measured for the octave code only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from coverlock_bench.hashes.weights import weights_of
from coverlock_bench.ledger import digest
from coverlock_bench.measurement import (
    FOLDER,
    Measured,
    hash_option,
    measurement,
    number_option,
    seed_option,
)
from coverlock_bench.photos import find_photos
from coverlock_sdk import ImageHash, load_hash
from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.hardening import MARGIN, MOST_COST
from coverlock_sdk.locking.keys import Key
from coverlock_sdk.locking.secret_rotations import SALTS, CodeMap, SecretRotation, code_map
from coverlock_sdk.locking.verdict import Floors
from experiments.kept_rows import kept_rows

UNSEEN = 300
"""Photos that the forger wants to pass off; nobody learns from them."""

FORGER_DB = 34.0
"""How visible a steered forgery may be."""

MARK_DB = 36.0
"""A typical mark, which limits what hardening may add."""

ROUNDING = 1 / 255**2 / 12 / 4
"""Mean square of rounding to 8 bits at 256 pixels, as a thumbnail of 128 sees it."""

CLUSTERED = 7000
"""Pictures that are clustered at once; others are assigned to the clusters afterwards."""

RESTARTS = 3
"""Starts of each kind."""

TRIED = 3
"""Clusters that the forger uses, those that fit their pictures best."""

FIGURES = ("bits_right", "passed")

SAFE = 0.01
"""The share of forgeries that a safe number of pictures stays below."""

Signs = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class Released(NamedTuple):
    """Pictures that were marked for one identifier."""

    codes: Logits  # (N, dimensions)
    bits: Signs  # (N, bits) of -1 and 1: the payloads
    salts: Labels  # (N,)


class Space:
    """Codes as an attacker sees them: bands of equal length and without correlations."""

    def __init__(self, codes: Logits, bands: Sequence[int]) -> None:
        self.bands = tuple(bands)
        self.edges = [0, *np.cumsum(bands).tolist()]
        self._whiten = []
        for part in self.parts(codes):
            values, vectors = np.linalg.eigh(np.cov(_level(part), rowvar=False))
            self._whiten.append((vectors / np.sqrt(np.maximum(values, 0.05))) @ vectors.T)

    def parts(self, values: Logits) -> list[Logits]:
        """The bands of ``values`` (N, dimensions)."""
        return [values[:, start:end] for start, end in pairwise(self.edges)]

    def whitened(self, codes: Logits) -> Logits:
        """The codes as they are learned from."""
        pairs = zip(self.parts(codes), self._whiten, strict=True)
        return np.concatenate([_level(part) @ white for part, white in pairs], axis=1)

    def back(self, directions: Logits) -> Logits:
        """Directions among whitened codes as directions among codes."""
        pairs = zip(self.parts(directions.T), self._whiten, strict=True)
        return np.concatenate([part @ white for part, white in pairs], axis=1).T


def _level(part: Logits) -> Logits:
    scale = np.sqrt(np.square(part).mean(axis=1, keepdims=True))
    return part / np.maximum(scale, np.float32(1e-6))


def photo_codes(photos: Sequence[Path], image_hash: ImageHash) -> Logits:
    """The codes (N, dimensions) of photos, kept in a temporary file."""

    def code(photo: Path) -> Any:
        size = image_hash.input_size
        return image_hash.logits(read(photo, seen_at=size).view(size)[None])[0]

    name = digest(code(photos[0]), [str(photo.resolve()) for photo in photos])
    codes: Logits = kept_rows(
        Path(gettempdir()) / f"{image_hash.name}-{name}.npy", photos, code, "codes"
    )
    return codes


def drawn(codes: Logits, count: int, rng: np.random.Generator) -> Logits:
    """``count`` codes of photos; where there are too few, sums and differences of two of them."""
    if count <= len(codes):
        return codes[rng.permutation(len(codes))[:count]]
    first, second = rng.integers(len(codes), size=(2, count))
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), size=(count, 1))
    return (codes[first] + signs * codes[second]) / np.float32(2**0.5)


def released(codes: Logits, locked: CodeMap) -> Released:
    """The codes marked under the salts that the embedder chooses."""
    bits = np.empty((len(codes), locked.bits), dtype=np.float32)
    salts = np.empty(len(codes), dtype=np.int64)
    for start in range(0, len(codes), 250):
        for row, seen in enumerate(locked.seen(codes[start : start + 250]), start):
            salts[row] = locked.stablest(seen)
            bits[row] = np.where((seen[salts[row]] > 0) ^ (locked.pads[salts[row]] > 0), 1, -1)
    return Released(codes, bits, salts)


# Learners


def averaged(seen: Logits, bits: Signs, bands: Sequence[int]) -> Logits:
    """Directions (dimensions, bits) by the mean of whitened codes, turned to the side of a bit."""
    found = np.zeros((seen.shape[1], bits.shape[1]), dtype=np.float32)
    for band, rows in enumerate(_rows(bands)):
        found[rows, band :: len(bands)] = seen[:, rows].T @ bits[:, band :: len(bands)]
    return found / np.maximum(np.linalg.norm(found, axis=0), np.float32(1e-9))


def logistic(
    seen: Logits, bits: Signs, bands: Sequence[int], ridge: float = 1e-3, steps: int = 150
) -> Logits:
    """Directions by logistic regression, each band on its own, by accelerated gradient steps."""
    found = averaged(seen, bits, bands)
    for band, rows in enumerate(_rows(bands)):
        own, wanted = seen[:, rows], bits[:, band :: len(bands)]
        pace = 1 / (ridge + 0.25 * np.linalg.norm(own, 2) ** 2 / len(own))
        weights = ahead = found[rows, band :: len(bands)]
        for step in range(steps):
            wrong = wanted / (1 + np.exp(np.minimum(wanted * (own @ ahead), 30)))
            after = ahead + np.float32(pace) * (own.T @ wrong / len(own) - ridge * ahead)
            ahead = after + np.float32(step / (step + 3)) * (after - weights)
            weights = after.astype(np.float32)
        found[rows, band :: len(bands)] = weights
    return found / np.maximum(np.linalg.norm(found, axis=0), np.float32(1e-9))


def _rows(bands: Sequence[int]) -> Iterator[slice]:
    edges = [0, *np.cumsum(bands).tolist()]
    return (slice(start, end) for start, end in pairwise(edges))


def agreements(
    seen: Logits, bits: Signs, bands: Sequence[int], others: tuple[Logits, Signs] | None = None
) -> Logits:
    """How much pictures speak for one salt: agreement of their bits times that of their codes."""
    other_seen, other_bits = others or (seen, bits)
    total = np.zeros((len(seen), len(other_seen)), dtype=np.float32)
    for band, rows in enumerate(_rows(bands)):
        own = slice(band, None, len(bands))
        total += (bits[:, own] @ other_bits[:, own].T) * (seen[:, rows] @ other_seen[:, rows].T)
    if others is None:
        np.fill_diagonal(total, 0)  # a picture says nothing about itself
    return total


def clustered(speaks: Logits, salts: int, rng: np.random.Generator) -> Labels:
    """Which salt each picture has, by hard expectation maximisation from several starts.

    Half of the starts are random; the others cluster the leading eigenvectors. Clusters are
    numbered by how well their pictures fit them, the best first.
    """
    vectors = _leading(speaks, salts, rng)
    starts = [_nearest_means(vectors, salts, rng) for _ in range(RESTARTS)]
    starts += [rng.integers(salts, size=len(speaks)) for _ in range(RESTARTS)]
    found = [_maximised(speaks, start, salts) for start in starts]
    return max(found, key=lambda pair: pair[0])[1]


def _leading(matrix: Logits, count: int, rng: np.random.Generator) -> Logits:
    basis = rng.standard_normal((len(matrix), count + 8)).astype(np.float32)
    for _ in range(20):
        basis = np.linalg.qr(matrix @ basis)[0]
    values, turn = np.linalg.eigh(basis.T @ matrix @ basis)
    return (basis @ turn)[:, -count:] * np.sqrt(np.maximum(values[-count:], 0))


def _nearest_means(points: Logits, count: int, rng: np.random.Generator) -> Labels:
    means = points[rng.integers(len(points), size=1)]
    for _ in range(count - 1):  # far ones first, as k-means++ has it
        near = np.min([np.square(points - mean).sum(axis=1) for mean in means], axis=0)
        far = rng.choice(len(points), p=near / near.sum())
        means = np.concatenate([means, points[far : far + 1]])
    for _ in range(25):
        labels = np.argmax(2 * points @ means.T - np.square(means).sum(axis=1), axis=1)
        own = [points[labels == each] for each in range(count)]
        means = np.stack(
            [p.mean(axis=0) if len(p) else points[rng.integers(len(points))] for p in own]
        )
    return labels


def _maximised(speaks: Logits, labels: Labels, salts: int) -> tuple[float, Labels]:
    for _ in range(40):
        members = np.eye(salts, dtype=np.float32)[labels]
        scores = speaks @ members / np.sqrt(np.maximum(members.sum(axis=0), 1))
        after = scores.argmax(axis=1)
        if (after == labels).all():
            break
        labels = after
    fits = scores.max(axis=1)
    by_salt = [
        fits[labels == salt].mean() if (labels == salt).any() else 0 for salt in range(salts)
    ]
    ranks = np.argsort(np.argsort(by_salt)[::-1])
    return float(fits.mean()), ranks[labels]


def hidden(
    seen: Logits, bits: Signs, bands: Sequence[int], salts: int, rng: np.random.Generator
) -> Labels:
    """Which pictures share a salt, from their codes and payloads alone."""
    first = slice(CLUSTERED)
    labels = clustered(agreements(seen[first], bits[first], bands), salts, rng)
    if len(seen) <= CLUSTERED:
        return labels
    members = np.eye(salts, dtype=np.float32)[labels]
    members /= np.sqrt(np.maximum(members.sum(axis=0), 1))
    chunks = [labels]
    for start in range(CLUSTERED, len(seen), CLUSTERED):
        rest = slice(start, start + CLUSTERED)
        pairs = agreements(seen[rest], bits[rest], bands, (seen[first], bits[first]))
        chunks.append((pairs @ members).argmax(axis=1))
    return np.concatenate(chunks)


def purity(labels: Labels, salts: Labels, count: int) -> float:
    """The share of pictures whose cluster is that of their salt."""
    table = np.zeros((count, count))
    np.add.at(table, (labels, salts), 1)
    return float(table.max(axis=1).sum() / len(labels))


def dictionary(values: Logits, rng: np.random.Generator, steps: int = 60) -> Logits:
    """An orthogonal dictionary (atoms, dimensions) that makes fourth powers largest."""
    size = values.shape[1]
    atoms = np.linalg.qr(rng.standard_normal((size, size)).astype(np.float32))[0]
    for _ in range(steps):
        left, _, right = np.linalg.svd(((values @ atoms.T) ** 3).T @ values)
        atoms = left @ right
    return atoms


# What was learned, put to use


@lru_cache(maxsize=1)
def reach(code: OctaveCode) -> Floats:
    """How far pixels move a code: C C^T, for the map C from changes of a thumbnail to codes.

    Unlike ``code.gram`` it has the mean removed.
    """
    basis = np.stack([code.pull_back(row) for row in np.eye(code.dimensions, dtype=np.float32)])
    moved = code.logits(basis).astype(np.float64)
    flat = basis.reshape(len(basis), -1)
    norms: Floats = (flat @ flat.T).astype(np.float64)
    norms += 1e-6 * np.trace(norms) / len(norms) * np.eye(len(norms))
    return np.asarray(moved.T @ np.linalg.solve(norms, moved))


class CodeForger:
    """Passes pictures of his own off as genuine, and is judged by the true map."""

    def __init__(self, codes: Logits, locked: CodeMap, code: ImageHash) -> None:
        self.codes, self.locked, self.code = codes, locked, code
        self.reach = reach(code) if isinstance(code, OctaveCode) else None
        bands, floors = len(locked.bands), Floors()
        self.least = floors.least(locked.bits)
        self.band_least = list(map(floors.least_in_band, locked.counts()))
        self.places = [slice(band, None, bands) for band in range(bands)]

    def figures(self, learned: Sequence[Logits]) -> dict[str, Any]:
        """Bits that are right on unseen pictures, and forgeries that pass, as is and steered.

        What he has learned are directions (dimensions, bits) of one salt or a few, turned round
        where a pad is set.
        """
        if self.reach is None:
            shown = [np.where(self.codes @ each > 0, 1, -1).astype(np.float32) for each in learned]
            return {"plain": self._judged([(self.codes, claim) for claim in shown])}
        claims, moved = zip(*(self._claimed(each, self.reach) for each in learned), strict=True)
        plain = self._judged([(self.codes, claim) for claim in claims])
        steered = self._judged(list(zip(moved, claims, strict=True)))
        return {"plain": plain, "steered": steered}

    def _claimed(self, directions: Logits, reach: Floats) -> tuple[Signs, Logits]:
        """The payloads he would embed, and the codes of his pictures once they are steered."""
        shown = self.codes @ directions
        scale = np.maximum(shown.std(axis=0), np.float32(1e-9))
        directions, shown = directions / scale, shown / scale
        moves = reach @ directions
        products = directions.T @ moves
        products += 1e-5 * np.trace(products) / len(products) * np.eye(len(products))
        inverse = np.linalg.inv(products)
        most = 10 ** (-FORGER_DB / 10) * 3 * np.prod(self.code.input_size)
        low, high = np.zeros((len(shown), 1)), np.full((len(shown), 1), 100.0)
        claims = np.where(shown > 0, 1, -1).astype(np.float32)
        for _ in range(25):  # the largest margin that the change can afford
            margin = (low + high) / 2
            lacks = claims * np.maximum(margin - np.abs(shown), 0)
            affordable = ((lacks @ inverse) * lacks).sum(axis=1, keepdims=True) <= most
            low, high = np.where(affordable, margin, low), np.where(affordable, high, margin)
        lacks = claims * np.maximum(low - np.abs(shown), 0)
        return claims, (self.codes + lacks @ inverse @ moves.T).astype(np.float32)

    def _judged(self, attempts: Sequence[tuple[Logits, Signs]]) -> dict[str, Any]:
        """The best of the salts he has learned, judged under the true salt that fits it best."""
        rights = [self._right(codes, claims) for codes, claims in attempts]
        passes = [self._passes(right) for right in rights]
        best = int(np.argmax([right.mean() for right in rights]))
        return {
            "bits_right": float(rights[best].mean()),
            "bits_right_by_band": [float(rights[best][:, own].mean()) for own in self.places],
            "passed": float(passes[best].mean()),
        }

    def _right(self, codes: Logits, claims: Signs) -> npt.NDArray[np.bool_]:
        """Which bits of his payloads agree, under the one salt that all of them fit best."""
        truth = np.concatenate(
            [self.locked.seen(codes[start : start + 250]) for start in range(0, len(codes), 250)]
        )
        bits = (truth > 0) ^ (self.locked.pads > 0)
        right = bits == (claims > 0)[:, None]
        chosen: npt.NDArray[np.bool_] = right[:, int(right.mean(axis=(0, 2)).argmax())]
        return chosen

    def _passes(self, right: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        enough: npt.NDArray[np.bool_] = right.sum(axis=1) >= self.least
        for own, least in zip(self.places, self.band_least, strict=True):
            enough &= right[:, own].sum(axis=1) >= least
        return enough


# What hardening shows


def hardened(pictures: Released, locked: CodeMap, code: OctaveCode, seed: int) -> Logits:
    """What hardening added to each picture, as the attacker sees it beside the original.

    In the coordinates in which rounding is white noise; he knows the map from pixels to codes.
    """
    rng = np.random.default_rng(seed)
    most = 10 ** (-MARK_DB / 10) * (10 ** (MOST_COST / 10) - 1) * 3 * np.prod(code.input_size)
    roots = [_root(code.gram_of(band, band)) for band in range(len(code.bands))]
    found = rng.normal(0, ROUNDING**0.5, pictures.codes.shape).astype(np.float32)
    for salt in np.unique(pictures.salts):
        own = pictures.salts == salt
        directions = locked.directions(int(salt))
        shown = pictures.codes[own] @ directions
        margin = MARGIN * np.sqrt(np.square(shown).mean(axis=1, keepdims=True))
        lacks = np.sign(shown) * np.maximum(margin - np.abs(shown), 0)
        products = directions.T @ code.gram @ directions
        products += 1e-6 * np.trace(products) / len(products) * np.eye(len(products))
        steps = lacks @ np.linalg.inv(products)
        spent = ((steps @ products) * steps).sum(axis=1, keepdims=True)
        steps *= np.minimum(1, np.sqrt(most / np.maximum(spent, 1e-12)))
        parts = np.split(directions, np.cumsum(locked.bands)[:-1])
        found[own] += np.concatenate(
            [steps @ (root @ part).T for root, part in zip(roots, parts, strict=True)], axis=1
        ).astype(np.float32)
    return found


def _root(gram: Floats, power: float = 0.5) -> Floats:
    values, vectors = np.linalg.eigh(gram)
    root: Floats = (vectors * np.maximum(values, values[-1] * 1e-9) ** power) @ vectors.T
    return root


def spanned(codes: Logits, bits: Signs, changes: Logits, code: OctaveCode) -> Logits:
    """The directions of one salt, learned inside the subspace that hardening's changes span."""
    count, bands = bits.shape[1], len(code.bands)
    found = np.zeros((codes.shape[1], count), dtype=np.float32)
    for band, rows in enumerate(_rows(code.bands)):
        wanted = bits[:, band::bands]
        basis = np.linalg.svd(_level(changes[:, rows]), full_matrices=False)[2][: wanted.shape[1]]
        span = (_root(code.gram_of(band, band), -0.5) @ basis.T).astype(np.float32)
        seen = codes[:, rows] @ span
        scale = np.maximum(seen.std(axis=0), np.float32(1e-9))
        inside = logistic(_level(seen / scale), wanted, (seen.shape[1],))
        found[rows, band::bands] = span @ (inside / scale[:, None])
    return found


# The study


class Scale(NamedTuple):
    """How many pictures each attacker has."""

    told: tuple[int, ...] = (30, 60, 125, 250, 500, 1000, 2000, 4000)
    """Of one salt, at 64 bits."""
    hidden: tuple[tuple[int, tuple[int, ...]], ...] = (
        (30, (1000, 2000, 4000, 7000)),
        (64, (500, 1000, 1500, 2000, 4000, 15000)),
        (256, (125, 250, 500, 1000)),
    )
    """Of one identifier, by the bits of a message."""
    originals: tuple[tuple[int, tuple[int, ...]], ...] = (
        (30, (500, 1000, 2000)),
        (64, (250, 500, 1000, 2000)),
        (256, (125, 250, 500, 1000)),
    )
    more_salts: tuple[tuple[int, tuple[int, ...]], ...] = ((64, (2000, 4000, 7000)),)
    """Of one identifier at 64 bits, by the number of salts."""
    serials: int = 2000
    dictionary: tuple[int, ...] = (500, 2000, 8000, 20000)


class Study:
    """Photos, split into those that are released and those that are forged, and a key."""

    def __init__(self, codes: Logits, code: ImageHash, seed: int) -> None:
        self.code, self.bands = code, code.bands
        self.mine, self.theirs = codes[:UNSEEN], codes[UNSEEN:]
        self.space = Space(self.theirs, self.bands)
        self.key = Key(f"key learners, seed {seed}".ljust(32).encode(), "bench")
        self.seed, self.rng = seed, np.random.default_rng(seed)

    def map(self, bits: int, salts: int = SALTS, name: str = "id/acme") -> CodeMap:
        """How the key locks one identifier, with as many salts as wanted."""
        if salts == SALTS:
            return code_map(self.key, name, bits, self.bands)
        rotations = tuple(
            SecretRotation.of(self.key, f"{band}/{name}", size, salts)
            for band, size in enumerate(self.bands)
        )
        pads = self.rng.integers(2, size=(salts, bits), dtype=np.uint8)
        return CodeMap(rotations, pads, self.bands)

    def told(self, counts: Sequence[int], bits: int = 64) -> dict[str, Any]:
        """One salt, learned from pictures of which the attacker knows that they share it."""
        locked = self.map(bits)
        forger = CodeForger(self.mine, locked, self.code)
        pool = int(1.15 * max(counts) * locked.salts)
        chunks = []
        for start in range(0, pool, 10000):
            some = released(drawn(self.theirs, min(pool - start, 10000), self.rng), locked)
            chunks.append((some.codes[some.salts == 0], some.bits[some.salts == 0]))
        codes, wanted = (np.concatenate(part) for part in zip(*chunks, strict=True))
        seen, figures = self.space.whitened(codes), {}
        for count in counts:
            found = {
                name: forger.figures(
                    [self.space.back(learn(seen[:count], wanted[:count], self.bands))]
                )
                for name, learn in (("averaged", averaged), ("logistic", logistic))
            }
            best = max(found, key=lambda name: found[name]["plain"]["bits_right"])
            figures[str(count)] = {
                "of_one_identifier": count * locked.salts,
                "pictures_seen": min(count, len(seen)),
                "learner": best,
                **found[best],
            }
        return figures

    def hidden(self, locked: CodeMap, counts: Sequence[int]) -> dict[str, Any]:
        """All salts, learned from pictures of which the attacker knows the identifier only."""
        forger, figures = CodeForger(self.mine, locked, self.code), {}
        for count in counts:
            pictures = released(drawn(self.theirs, count, self.rng), locked)
            figures[str(count)] = self._hidden(pictures, locked.salts, forger)
        return figures

    def _hidden(self, pictures: Released, salts: int, forger: CodeForger) -> dict[str, Any]:
        seen = self.space.whitened(pictures.codes)
        labels = hidden(seen, pictures.bits, self.bands, salts, self.rng)
        learned = [
            self.space.back(logistic(seen[own], pictures.bits[own], self.bands))
            for own in _first(labels)
        ]
        return {"salts_right": purity(labels, pictures.salts, salts), **forger.figures(learned)}

    def originals(self, locked: CodeMap, counts: Sequence[int]) -> dict[str, Any]:
        """The same beside the originals, from what hardening has added."""
        assert isinstance(self.code, OctaveCode)
        forger, figures = CodeForger(self.mine, locked, self.code), {}
        for count in counts:
            pictures = released(drawn(self.theirs, count, self.rng), locked)
            changes = hardened(pictures, locked, self.code, self.seed)
            found = self._originals(pictures, changes, pictures.salts, forger)
            figures[str(count)] = {"told": found}
            labels = hidden(
                np.concatenate([_level(part) for part in self.space.parts(changes)], axis=1),
                pictures.bits,
                self.bands,
                locked.salts,
                self.rng,
            )
            figures[str(count)]["hidden"] = {
                "salts_right": purity(labels, pictures.salts, locked.salts),
                **self._originals(pictures, changes, labels, forger),
            }
        return figures

    def _originals(
        self, pictures: Released, changes: Logits, labels: Labels, forger: CodeForger
    ) -> dict[str, Any]:
        assert isinstance(self.code, OctaveCode)
        learned = [
            spanned(pictures.codes[own], pictures.bits[own], changes[own], self.code)
            for own in _first(labels)
        ]
        return forger.figures(learned)

    def dictionary(self, counts: Sequence[int], salts: int) -> dict[str, Any]:
        """Directions of the lowest band that fourth powers find among what hardening has added."""
        assert isinstance(self.code, OctaveCode)
        size, figures = self.bands[0], {}
        locked = self.map(64, salts)
        gram = self.code.gram_of(0, 0)
        root = _root(gram)
        own = locked.band_directions(0, range(salts))
        truth = np.concatenate(
            [root @ part @ np.linalg.inv(part.T @ gram @ part) for part in own], 1
        )
        truth /= np.linalg.norm(truth, axis=0)
        for count in counts:
            pictures = released(drawn(self.theirs, count, self.rng), locked)
            changes = hardened(pictures, locked, self.code, self.seed)[:, :size]
            values, vectors = np.linalg.eigh(changes.T @ changes / count)
            vectors = vectors[:, values > 4 * ROUNDING]
            scale = np.sqrt(values[values > 4 * ROUNDING])
            atoms = dictionary((changes @ (vectors / scale)).astype(np.float32), self.rng)
            back = (vectors * scale) @ atoms.T
            back /= np.linalg.norm(back, axis=0)
            nearest = np.abs(truth.T @ back).max(axis=1)
            figures[str(count)] = {
                "found": int((nearest > 0.9).sum()),
                "of": truth.shape[1],
                "nearest_mean": float(nearest.mean()),
            }
        return figures

    def serials(self, count: int) -> dict[str, Any]:
        """The hidden attacker with one identifier per picture, and a forger who aims at one."""
        codes = drawn(self.theirs, count, self.rng)
        parts = [
            released(codes[row : row + 1], self.map(64, name=f"id/{row}")) for row in range(count)
        ]
        pictures = Released(*(np.concatenate(part) for part in zip(*parts, strict=True)))
        forger = CodeForger(self.mine, self.map(64, name="id/0"), self.code)
        found = self._hidden(pictures, SALTS, forger)
        return {str(count): {name: found[name] for name in ("plain", "steered") if name in found}}


def _first(labels: Labels) -> list[npt.NDArray[np.bool_]]:
    """Which pictures are in each of the first few clusters."""
    return [labels == salt for salt in np.unique(labels)[:TRIED]]


FULL = Scale()


def key_learning(
    codes: Logits, code: ImageHash, seed: int, scale: Scale = FULL
) -> Iterator[dict[str, Any]]:
    """The figures of all attackers, as they come."""
    study = Study(codes, code, seed)
    figures: dict[str, Any] = {}
    figures["hidden"] = {}
    for bits, counts in scale.hidden:
        figures["hidden"][str(bits)] = study.hidden(study.map(bits), counts)
        yield figures
    figures["originals"] = {}
    linear = isinstance(code, OctaveCode)
    for bits, counts in scale.originals if linear else ():
        figures["originals"][str(bits)] = study.originals(study.map(bits), counts)
        yield figures
    figures["serials"] = study.serials(scale.serials)
    figures["told"] = study.told(scale.told)
    yield figures
    figures["more_salts"] = {
        str(salts): study.hidden(study.map(64, salts), counts) for salts, counts in scale.more_salts
    }
    figures["dictionary"] = {
        str(salts): study.dictionary(scale.dictionary, salts) for salts in (1, SALTS) if linear
    }
    figures["safe"] = safe(figures)
    yield figures


def safe(figures: dict[str, Any]) -> dict[str, Any]:
    """The most pictures of one identifier, of those measured, that let too few forgeries pass."""

    def most(rows: dict[str, Any]) -> int:
        enough = 0
        for count, row in rows.items():
            if max(row[how]["passed"] for how in ("plain", "steered") if how in row) >= SAFE:
                break
            enough = int(count)
        return enough

    def beside(attacker: str, bits: str) -> dict[str, Any]:
        return {count: row[attacker] for count, row in figures["originals"][bits].items()}

    told = {str(row["of_one_identifier"]): row for row in figures["told"].values()}
    return {
        "told": {"64": most(told)},
        "hidden": {bits: most(rows) for bits, rows in figures["hidden"].items()},
        "originals, told": {bits: most(beside("told", bits)) for bits in figures["originals"]},
        "originals": {bits: most(beside("hidden", bits)) for bits in figures["originals"]},
        "more_salts": {salts: most(rows) for salts, rows in figures["more_salts"].items()},
    }


def summary(figures: dict[str, Any]) -> str:
    """One line for each attacker and number of pictures."""
    lines = ["attacker, pictures: bits right (steered), forgeries that pass (steered)"]

    def add(label: str, row: dict[str, Any]) -> None:
        if "plain" not in row:
            for name, inner in row.items():
                if isinstance(inner, dict):
                    add(f"{label}, {name}", inner)
            return
        plain, steered = row["plain"], row.get("steered")
        found = f"; salts right {row['salts_right']:.2f}" if "salts_right" in row else ""
        bits, passed = (f" ({steered[name]:.3f})" if steered else "" for name in FIGURES)
        lines.append(
            f"{label}: {plain['bits_right']:.3f}{bits}, {plain['passed']:.3f}{passed}{found}"
        )

    for attacker in ("told", "hidden", "originals", "serials", "more_salts"):
        add(attacker, figures.get(attacker, {}))
    for salts, rows in figures.get("dictionary", {}).items():
        for count, row in rows.items():
            lines.append(f"dictionary, {salts} salts, {count}: {row['found']} of {row['of']} found")
    if "safe" in figures:
        lines.append(f"safe: {figures['safe']}")
    return "\n".join(lines)


@measurement(
    "experiments key-learners",
    hash_option,
    seed_option,
    click.option("--images", type=FOLDER, required=True, help="Folder of photos."),
    number_option("--count", 8000, "How many photos to use."),
)
def key_learners(images: Path, hash: str, count: int, seed: int) -> Iterator[Measured]:
    """What released pictures of one identifier give away about a key's rotations."""
    photos = find_photos(images)[:count]
    image_hash = load_hash(hash)
    config = {
        "hash": hash,
        "weights": weights_of(image_hash),
        "scale": FULL._asdict(),
        "photos": len(photos),
        "seed": seed,
        "salts": SALTS,
        "forger_db": FORGER_DB,
        "mark_db": MARK_DB,
        "unseen": UNSEEN,
        "safe_below": SAFE,
    }
    for figures in key_learning(photo_codes(photos, image_hash), image_hash, seed):
        yield Measured(config, figures, summary(figures))


if __name__ == "__main__":
    key_learners()
