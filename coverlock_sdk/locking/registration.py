"""Registration: find which part of the original a picture shows, during verification.

Every frame has a prior weight, and the weights add up to one. The p-value of a frame is divided by
its weight (a weighted Bonferroni correction, valid however frames depend on each other). The
weights lie on a fine grid, and the search visits few of its points: first a coarse grid with the
lowest band on a small thumbnail, then fewer and fewer frames with more bands, each moved to where
it fits best. The weights do not count moves within a cell of the grid, so the false-positive rate
is measured (``python -m experiments calibration``) and not proven.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Floats, Logits
from coverlock_sdk.frames import Frame, straightened
from coverlock_sdk.hashing.views import Frames, View, rows_of
from coverlock_sdk.locking.secret_rotations import CodeMap, split_bands
from coverlock_sdk.threads import one_thread

STEP = 0.004
"""The fine grid of sides and centres. An error of half a step costs the finest band few bits."""

LEAST_SIDE = 0.7
"""The smallest share of each side that a crop may keep."""

MOST_TURN = 5.0
TURN_STEP = 0.5
COARSE = 0.035
"""The grid that the lowest band is searched on: a quarter of its shortest wave."""

WHOLE_WEIGHT = 0.5
POPULAR = tuple(Frame(side=side) for side in (0.8**0.5, 0.9**0.5, 0.9, 0.95, 0.8))
"""The most common centred crops: 80 and 90 % of the area, or 80, 90 and 95 % of each side."""

POPULAR_WEIGHT, CENTRED_WEIGHT, TURNED_WEIGHT, ANYWHERE_WEIGHT = 0.2, 0.1, 0.05, 0.15

SIDES = round((1 - LEAST_SIDE) / STEP)
TURNS = 2 * round(MOST_TURN / TURN_STEP)
TURNED_PLACES = 27
"""Number of fine positions around the centre for each turn."""


def weight_of(frame: Frame) -> float:
    """The prior weight of the fine grid cell that contains a frame."""
    if frame.is_whole:
        return WHOLE_WEIGHT
    if frame.turn:
        return TURNED_WEIGHT / (TURNS * TURNED_PLACES)
    if max(abs(frame.x - 0.5), abs(frame.y - 0.5)) <= STEP + 1e-9:
        if any(abs(frame.side - popular.side) <= STEP + 1e-9 for popular in POPULAR):
            return POPULAR_WEIGHT / len(POPULAR)
        return CENTRED_WEIGHT / SIDES
    places = max(1, round((1 - frame.side) / STEP)) + 1
    return ANYWHERE_WEIGHT / (SIDES * places**2)


class Placed(NamedTuple):
    """A frame that fits, its prior weight, and the salt or record it fits."""

    frame: Frame
    weight: float
    row: int


class SearchTarget(Protocol):
    """The expected signs of a code's numbers, for each salt or each registry record."""

    signs: list[Logits]
    """Per band (rows, numbers)."""
    sure: list[Logits]
    """How sure each sign is, from 0 to 1."""

    def every(self, codes: Logits, band: int) -> Logits:
        """How well each code (N, dimensions of a band) fits every row: (N, rows)."""
        ...

    def numbers(self, codes: Logits, rows: npt.NDArray[np.intp], band: int) -> Logits:
        """The numbers (N, numbers) that codes show, each for its own row."""
        ...


class Stage(NamedTuple):
    """One stage of the search, and how closely it looks at frames."""

    bands: int
    size: int
    """Side of the thumbnail."""
    sharpness: float
    """Confidence in the signs at this precision of the frame, in typical numbers."""
    step: float
    """How far to move a frame to see how its numbers change."""
    reach: float
    """Typical error of frames at the start of the stage."""


LOW = Stage(1, 32, 2.0, 0.010, 0.020)
MIDDLE = Stage(2, 64, 4.0, 0.004, 0.008)
FINE = Stage(3, 128, 6.0, 0.0015, 0.003)

UNITS = np.array([1.0, 1.0, 1.0, 100.0])
"""Step sizes of side, x, y and turn: a degree moves the rim about as far as 0.01."""

WIDER = np.arange(-0.024, 0.025, 0.008)
"""Sides to try around the one from the lowest band, which determines it poorly."""


@dataclass(frozen=True)
class Family:
    """Frames where a search begins, their weight, and how many survive each stage."""

    frames: Frames
    share: float
    """The total prior weight."""
    stage: Stage
    begin: int
    """How many frames leave the first grid."""
    kept: int
    """How many continue with two bands."""
    reach: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """How far side, x and y may move without leaving the family."""

    @property
    def weight(self) -> float:
        """The prior weight of one frame."""
        return self.share / len(self.frames)


class Fits(NamedTuple):
    """Frames that are being refined, the row each one fits, and log prior weights."""

    frames: Frames
    rows: npt.NDArray[np.intp]
    prior: Floats
    low: Frames
    high: Frames

    def take(self, places: Any) -> Fits:
        """Some of them, in this order."""
        return Fits(*(part[places] for part in self))

    def at(self, frames: Frames) -> Fits:
        """The same frames, moved no further than their family allows."""
        return self._replace(frames=np.clip(frames, self.low, self.high))

    @staticmethod
    def together(several: Iterable[Fits]) -> Fits:
        """Several sets as one."""
        return Fits(*map(np.concatenate, zip(*several, strict=True)))

    def apart(self, scores: Floats, distance: float, count: int) -> Fits:
        """The best first, without frames that are close to a better one with the same row."""
        apart = np.abs((self.frames[:, None] - self.frames) / UNITS).max(axis=2) > distance
        apart |= self.rows[:, None] != self.rows
        kept: list[int] = []
        for place in np.argsort(-scores, kind="stable"):
            if apart[place, kept].all():
                kept.append(int(place))
            if len(kept) == count:
                break
        return self.take(kept)


@lru_cache(maxsize=64)
def families(aspect: float = 1.0) -> tuple[Family, ...]:
    """Popular and centred crops, crops anywhere, and turns of a picture of this aspect."""
    sides = np.arange(1 - 2 * STEP, LEAST_SIDE, -2 * STEP)
    centred = rows_of(*(Frame(side=float(side)) for side in sides))
    places = []
    for side in np.arange(1 - COARSE, LEAST_SIDE - 1e-9, -COARSE):
        spare = 1 - float(side)
        line = 0.5 + np.linspace(-spare / 2, spare / 2, round(spare / COARSE) + 1)
        places += [Frame(float(side), float(x), float(y)) for x, y in itertools.product(line, line)]
    turned = [straightened(sign * turn, aspect) for turn in (1.0, 2.5, 4.0) for sign in (1, -1)]
    return (
        Family(rows_of(*POPULAR), POPULAR_WEIGHT, MIDDLE, 3, 3, (STEP, STEP, STEP)),
        Family(centred, CENTRED_WEIGHT, MIDDLE, 3, 3, (1.0, STEP, STEP)),
        Family(rows_of(*places), ANYWHERE_WEIGHT, LOW, 12, 5),
        Family(rows_of(*turned), TURNED_WEIGHT, LOW, 3, 1),
    )


LEFT, LEFT_TURNED = 2, 1
"""How many frames, unturned and turned, are compared in all bands. The numbers are fixed, so that
timing shows little of what was found."""


@dataclass(frozen=True)
class Search:
    """Searches for the frames of one picture that fit a target best."""

    image_hash: Any
    """A hash that supports registration."""
    view: View
    target: SearchTarget

    @one_thread
    def best(self, least_weight: float = 0.0) -> list[Placed]:
        """A few frames, the best first, without families whose weights are too small."""
        chosen = [
            family
            for family in families(self.view.aspect)
            if weight_of(Frame(*family.frames[0])) >= least_weight
        ]
        if not chosen:
            return []
        alike = itertools.groupby(chosen, lambda family: (family.stage, family.frames[0, 3] != 0))
        fits = Fits.together(fits for _, group in alike for fits in self._begun(list(group)))
        fits = self._moved(fits, MIDDLE)
        scores, turned = self._scores(fits, MIDDLE), fits.frames[:, 3] != 0
        left = [
            fits.take(some).apart(scores[some], 2 * STEP, count)
            for some, count in ((~turned, LEFT), (turned, LEFT_TURNED))
            if some.any()
        ]
        return self._finished(Fits.together(left))

    @one_thread
    def near(self, placed: Placed) -> Placed:
        """The best frame near one that was found, for a target that is now better known."""
        frames = rows_of(placed.frame)
        reach = 2 * STEP * UNITS
        start = Fits(
            frames, np.array([placed.row]), np.zeros(1), *_bounds(frames - reach, frames + reach)
        )
        return self._finished(start)[0]

    def _begun(self, together: Sequence[Family]) -> list[Fits]:
        """The best frames of families with the same first grid, searched together."""
        codes = self._codes(np.concatenate([each.frames for each in together]), together[0].stage)
        every = [self.target.every(part, band) for band, part in enumerate(codes)]
        edges = np.cumsum([len(family.frames) for family in together])[:-1]
        parts = np.split(np.sum(every, axis=0, dtype=np.float64), edges)
        return list(map(self._chosen, together, parts))

    def _chosen(self, family: Family, every: Floats) -> Fits:
        """The best frames of a family, each with its row, given how well each fits every row."""
        stage, prior = family.stage, math.log(family.weight)
        scores: Floats = every + prior
        best = np.argsort(-scores, axis=None)[: 3 * family.begin]
        places, rows = np.unravel_index(best, scores.shape)
        frames = family.frames[places]
        reach = np.array([*family.reach, 100.0])
        priors = np.full(len(rows), prior)
        fits = Fits(frames, rows, priors, *_bounds(frames - reach, frames + reach))
        fits = fits.apart(scores[places, rows], COARSE / 2 if stage is LOW else STEP, family.begin)
        if stage is not LOW:
            return fits
        fits = self._moved(fits, LOW)
        return self._widened(fits.apart(self._scores(fits, LOW), 2 * STEP, family.kept))

    def _widened(self, fits: Fits) -> Fits:
        """The frames, each with the best of several sides."""
        each = np.arange(len(fits.rows))
        several = fits.take(np.repeat(each, len(WIDER)))
        moves = np.outer(np.tile(WIDER, len(each)), (1, 0, 0, 0))
        several = several.at(several.frames + moves)
        scores = self._scores(several, MIDDLE).reshape(len(each), -1)
        return several.take(scores.argmax(axis=1) + len(WIDER) * each)

    def _finished(self, fits: Fits) -> list[Placed]:
        for _ in range(2):
            fits = self._moved(fits, FINE)
        order = np.argsort(-self._scores(fits, FINE), kind="stable")
        found = []
        for place in order:
            side, x, y, turn = map(float, fits.frames[place])
            frame = Frame(side, x, y, turn, self.view.aspect if turn else 1.0)
            found.append(Placed(frame, weight_of(frame), int(fits.rows[place])))
        return found

    def _codes(self, frames: Frames, stage: Stage) -> list[Logits]:
        """Codes of each band, in typical numbers."""
        codes = self.image_hash.framed(self.view, frames, stage.bands, stage.size)
        typical = np.sqrt(np.square(codes).mean(axis=1, keepdims=True))
        codes /= np.maximum(typical, np.float32(1e-9))
        return split_bands(codes, self.image_hash.bands[: stage.bands])

    def _agreement(
        self, frames: Frames, rows: npt.NDArray[np.intp], stage: Stage
    ) -> tuple[Logits, Logits]:
        """How well numbers (N, numbers) match the expected signs, and how sure those signs are."""
        signed, sure = [], []
        for band, codes in enumerate(self._codes(frames, stage)):
            numbers = self.target.numbers(codes, rows, band)
            signed.append(numbers * self.target.signs[band][rows])
            sure.append(self.target.sure[band][rows])
        sharper = np.concatenate(signed, axis=1) * np.float32(stage.sharpness)
        return sharper, np.concatenate(sure, axis=1)

    def _scores(self, fits: Fits, stage: Stage) -> Floats:
        """Log-likelihood of the expected signs, plus the log prior of the frames."""
        agreement, sure = self._agreement(fits.frames, fits.rows, stage)
        doubt = np.log1p(np.exp(np.minimum(-agreement, 30)))
        total: Floats = fits.prior - (sure * doubt).sum(axis=1)
        return total

    def _moved(self, fits: Fits, stage: Stage) -> Fits:
        """Move frames to their best fit: Newton steps on a linear model of the numbers."""
        moved = fits.frames.copy()
        for turned in (False, True):
            some = np.flatnonzero((fits.frames[:, 3] != 0) == turned)
            if len(some):
                moved[some] += self._way(fits.take(some), stage, axes=4 if turned else 3)
        return fits.at(moved)

    def _way(self, fits: Fits, stage: Stage, axes: int) -> Frames:
        count = len(fits.rows)
        tried = np.repeat(fits.frames[:, None], axes + 1, axis=1)
        for axis in range(axes):
            tried[:, axis + 1, axis] += stage.step * UNITS[axis]
        agreement, sure = self._agreement(
            tried.reshape(-1, 4), np.repeat(fits.rows, axes + 1), stage
        )
        agreement = agreement.reshape(count, axes + 1, -1)
        sure = sure[:: axes + 1]
        slopes = (agreement[:, 1:] - agreement[:, :1]) / np.float32(stage.step)
        tether = np.eye(axes, dtype=np.float32) / stage.reach**2
        way = np.zeros((count, axes))
        for _ in range(3):
            here = agreement[:, 0] + np.matmul(way[:, None], slopes)[:, 0]
            doubt = 1 / (1 + np.exp(np.clip(here, -30, 30)))
            pull = np.matmul(slopes, (sure * doubt)[..., None])[..., 0] - way @ tether
            bend = np.matmul(slopes * (sure * doubt * (1 - doubt))[:, None], slopes.swapaxes(1, 2))
            step = np.linalg.solve(bend + tether, pull[..., None])[..., 0]
            way = np.clip(way + step, -2 * stage.reach, 2 * stage.reach)
        moves = np.zeros((count, 4))
        moves[:, :axes] = way * UNITS[:axes]
        return moves


def _bounds(low: Frames, high: Frames) -> tuple[Frames, Frames]:
    """Bounds of frames with the allowed sides."""
    low[:, 0], high[:, 0] = np.maximum(low[:, 0], LEAST_SIDE), np.minimum(high[:, 0], 1.0)
    return low, high


class PayloadTarget:
    """The signs ``wanted`` (salts, bits) for a message, and how sure they are."""

    def __init__(self, code_map: CodeMap, wanted: Logits) -> None:
        self.rotations = code_map.rotations
        bands = len(code_map.bands)
        self.wanted = [wanted[:, band::bands] for band in range(bands)]
        self.signs: list[Logits] = list(map(np.sign, self.wanted))
        self.sure: list[Logits] = list(map(np.abs, self.wanted))
        self._taken = [r.taken(n) for r, n in zip(self.rotations, code_map.counts(), strict=True)]

    def every(self, codes: Logits, band: int) -> Logits:
        """The fit under every salt; numbers that agree well enough count the same."""
        sharper = self.wanted[band] * np.float32(2 * LOW.sharpness if band else LOW.sharpness)
        turns = self.rotations[band].turns.T[:, :, None]
        columns = self._taken[band].T[:, None] * turns * sharper
        signed = self.rotations[band].mixed(codes) @ columns.reshape(len(columns), -1)
        doubt = signed.reshape(-1, *sharper.shape) - np.float32(math.log(2)) * self.sure[band]
        total: Logits = np.minimum(doubt, 0, out=doubt).sum(axis=2)
        return total

    def numbers(self, codes: Logits, rows: npt.NDArray[np.intp], band: int) -> Logits:
        """The numbers under the salt of each code."""
        rotation = self.rotations[band]
        turned: Logits = rotation.mixed(codes) * rotation.turns[rows]
        return turned @ self._taken[band].T
