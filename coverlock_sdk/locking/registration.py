"""Registration: which part of the original frame a picture shows, found while it is verified.

Every frame has a prior weight, and the weights add up to one: half for the whole picture, the rest
for the crops that people make most, for centred crops, for small turns, and for crops anywhere on a
fine grid. The p-value of a frame is divided by its weight (a weighted Bonferroni correction, valid
however frames depend on each other). The fine grid carries the weights; the search visits few of
its points, first with the lowest band alone, then ever finer with the others. It also moves frames
within a cell of the grid, which the weights do not count: that false positives stay within their
rate is therefore something to measure (``coverlock bench calibration``), not a theorem.

A frame is tried only if a picture whose every bit agrees could still be accepted there. Short
payloads therefore get a small set by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from coverlock_sdk.arrays import Floats, Images, Logits
from coverlock_sdk.hashing.frames import WHOLE, Frame, straightened
from coverlock_sdk.locking.code_maps import CodeMap

STEP = 0.004
"""The fine grid of sides and centres. Half a step off costs the finest band few bits."""

LEAST_SIDE = 0.7
"""The share of each side that a crop keeps at least."""

MOST_TURN = 5.0
TURN_STEP = 0.5
COARSE = 0.035
"""The grid that the lowest band is searched on: a quarter of its shortest wave."""

WHOLE_WEIGHT = 0.5
POPULAR = tuple(Frame(side=side) for side in (0.8**0.5, 0.9**0.5, 0.9, 0.95, 0.8))
"""Centred crops that people and programs make most: 80 and 90 % of the area, and of each side."""

POPULAR_WEIGHT, CENTRED_WEIGHT, TURNED_WEIGHT, ANYWHERE_WEIGHT = 0.2, 0.1, 0.05, 0.15

SIDES = round((1 - LEAST_SIDE) / STEP)
TURNS = 2 * round(MOST_TURN / TURN_STEP)
TURNED_PLACES = 27
"""Fine places about the centre that each turn may have."""


class Placed(NamedTuple):
    """A frame that fits, its prior weight, and the salt or record that it fits under."""

    frame: Frame
    weight: float
    row: int


class Registering(Protocol):
    """A hash whose code can be taken of a part of the original frame."""

    bands: tuple[int, ...]

    def framed(self, image: Images, frames: Sequence[Frame], bands: int = ...) -> Logits:
        """The code (frames, dimensions of the lowest ``bands``) under each of ``frames``."""
        ...


def weight_of(frame: Frame) -> float:
    """The prior weight of the cell of the fine grid that a frame lies in."""
    if frame == WHOLE:
        return WHOLE_WEIGHT
    if frame.turn:
        return TURNED_WEIGHT / (TURNS * TURNED_PLACES)
    if max(abs(frame.x - 0.5), abs(frame.y - 0.5)) <= STEP + 1e-9:
        if any(abs(frame.side - popular.side) <= STEP + 1e-9 for popular in POPULAR):
            return POPULAR_WEIGHT / len(POPULAR)
        return CENTRED_WEIGHT / SIDES
    places = max(1, round((1 - frame.side) / STEP)) + 1
    return ANYWHERE_WEIGHT / (SIDES * places**2)


class Family(NamedTuple):
    """Frames where a search begins, by how many bands they are compared, and how many go on."""

    frames: tuple[Frame, ...]
    bands: int
    kept: int
    reach: float = 1.0
    """How far a frame may be moved without leaving its cell of the fine grid, or its family."""


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    """Popular crops, centred ones, crops anywhere, and turns: in the order they are tried."""
    centred = tuple(Frame(side=float(side)) for side in np.arange(0.992, LEAST_SIDE, -0.008))
    turns = np.arange(2 * TURN_STEP, MOST_TURN + TURN_STEP / 2, 2 * TURN_STEP)
    turned = tuple(straightened(float(sign * turn)) for turn in turns for sign in (1, -1))
    anywhere = []
    for side in np.arange(1 - COARSE, LEAST_SIDE - 1e-9, -COARSE):
        spare = 1 - float(side)
        places = 0.5 + np.linspace(-spare / 2, spare / 2, round(spare / COARSE) + 1)
        anywhere += [
            Frame(float(side), float(x), float(y)) for x, y in itertools.product(places, places)
        ]
    return (
        Family(POPULAR, 3, 2, STEP),
        Family(centred, 2, 2, STEP),
        Family(tuple(anywhere), 1, 3),
        Family(turned, 1, 1),
    )


SPREAD = tuple(
    (side * 0.008, x * 0.008, y * 0.008)
    for side in range(-3, 4)
    for x in (-1, 0, 1)
    for y in (-1, 0, 1)
)
"""Where a frame that the lowest band found is looked for by two bands: its side is known least."""

LEFT = 4
"""How many frames are refined at last."""

REFINED = ((2, 0.005), (3, 0.003), (3, 0.0015))
"""By how many bands frames are compared, and by which steps they are moved to where they fit."""

SHARPNESS = {1: 2.0, 2: 4.0, 3: 6.0}
"""How surely numbers have their signs while a frame is known so well, in typical numbers."""


class Score(Protocol):
    """How well frames fit, by the lowest bands: the higher, the better."""

    def every(self, frames: Sequence[Frame], bands: int) -> Floats:
        """For every row: (frames, rows)."""
        ...

    def own(self, frames: Sequence[Frame], rows: Sequence[int], bands: int) -> Floats:
        """Each frame for a row of its own: (frames,)."""
        ...


class Fit(NamedTuple):
    """A frame on its way to where it fits best."""

    score: float
    frame: Frame
    row: int
    start: Frame = WHOLE
    reach: float = 1.0

    def moved(self, offsets: Sequence[float]) -> Frame:
        """The frame moved along side, x, y and turn, no further from its start than allowed.

        A turn is moved by the angle that moves the rim as far.
        """
        side, x, y, *turn = np.add(
            self.frame[: len(offsets)], np.multiply(offsets, UNITS[: len(offsets)])
        )
        low, high = np.subtract(self.start, self.reach), np.add(self.start, self.reach)
        return Frame(
            float(np.clip(side, max(low[0], LEAST_SIDE), min(high[0], 1.0))),
            float(np.clip(x, low[1], high[1])),
            float(np.clip(y, low[2], high[2])),
            float(turn[0]) if turn else self.frame.turn,
        )


WORTH_A_LOOK = 40
"""Of many frames, the best that are told apart."""

UNITS = (1.0, 1.0, 1.0, 100.0)
"""What a step moves side, x, y and turn by."""


def search(score: Score, least_weight: float = 0.0) -> Iterator[list[Placed]]:
    """The frames that fit best, and what they fit, family by family.

    A family none of whose frames weighs ``least_weight`` is left out.
    """
    for family in families():
        if max(map(weight_of, family.frames)) >= least_weight:
            yield _refined(_begun(family, score), score)


def nearby(placed: Placed, score: Score) -> Placed:
    """The frame near one that was found that fits best, once more is known of the payload."""
    [found, *_] = _refined([Fit(0.0, placed.frame, placed.row, placed.frame, 2 * STEP)], score)
    return found


def _refined(fits: list[Fit], score: Score) -> list[Placed]:
    for bands, step in REFINED:
        fits = _apart(_improved(fits, step, bands, score), step)
        fits = fits[: 2 * LEFT] if bands < 3 else fits[:LEFT]
    return [Placed(fit.frame, weight_of(fit.frame), fit.row) for fit in fits]


def _begun(family: Family, score: Score) -> list[Fit]:
    """The best frames of a family, with what they fit, found by two bands or more."""
    scores = score.every(family.frames, family.bands)
    best = np.argsort(-scores, axis=None)[: 3 * family.kept]
    fits = [
        Fit(float(scores[place, row]), frame := family.frames[place], int(row), frame, family.reach)
        for place, row in zip(*np.unravel_index(best, scores.shape), strict=True)
    ]
    if family.bands > 1:
        return fits[: family.kept]
    fits = _apart(_improved(fits, 0.016, 1, score), COARSE)[: family.kept]
    near = [fit._replace(frame=fit.moved(offsets)) for fit in fits for offsets in SPREAD]
    found = score.own([fit.frame for fit in near], [fit.row for fit in near], 2)
    near = [fit._replace(score=float(s)) for fit, s in zip(near, found, strict=True)]
    return _apart(near, 0.008)[: family.kept]


def _apart(fits: list[Fit], distance: float) -> list[Fit]:
    """The best fits first, without those that are close to a better one."""
    kept: list[Fit] = []
    for fit in sorted(fits, reverse=True)[:WORTH_A_LOOK]:
        if all(fit.row != k.row or _distance(fit.frame, k.frame) > distance for k in kept):
            kept.append(fit)
    return kept


def _distance(one: Frame, other: Frame) -> float:
    return max(abs(a - b) / unit for a, b, unit in zip(one, other, UNITS, strict=True))


def _improved(fits: list[Fit], step: float, bands: int, score: Score) -> list[Fit]:
    """Each frame moved by up to ``step`` along each axis to where a parabola has its top."""
    if not fits:
        return []
    stars = [[fit.frame, *_neighbours(fit, step)] for fit in fits]
    rows = [fit.row for fit, star in zip(fits, stars, strict=True) for _ in star]
    scores = score.own([frame for star in stars for frame in star], rows, bands)
    by_star = np.split(scores, np.cumsum([len(star) for star in stars])[:-1])
    moved = [
        fit.moved([_top(s[0], s[i], s[i + 1]) * step for i in range(1, len(s), 2)])
        for fit, s in zip(fits, by_star, strict=True)
    ]
    after = score.own(moved, [fit.row for fit in fits], bands)
    return [
        max(fit._replace(score=float(now), frame=there), fit._replace(score=float(s[0])))
        for fit, there, now, s in zip(fits, moved, after, by_star, strict=True)
    ]


def _neighbours(fit: Fit, step: float) -> list[Frame]:
    axes = 4 if fit.frame.turn else 3
    return [
        fit.moved([sign * step if axis == other else 0.0 for other in range(axes)])
        for axis in range(axes)
        for sign in (-1, 1)
    ]


def _top(here: float, before: float, after: float) -> float:
    """Where the parabola through three scores has its top, in steps, at most one away."""
    bend = before + after - 2 * here
    if bend >= 0:
        return 1.0 if after > before else -1.0
    return float(np.clip((before - after) / (2 * bend), -1, 1))


class PayloadScore:
    """How well frames of a picture fit a payload, salt by salt.

    ``wanted`` (salts, bits) has the signs that the code would have, and how sure they are. The
    score is how likely the numbers that lock the message have them.
    """

    def __init__(
        self, image_hash: Registering, view: Images, code_map: CodeMap, wanted: Logits
    ) -> None:
        self.hash, self.view, self.map, self.wanted = image_hash, view, code_map, wanted
        self._directions: dict[int, Logits] = {}

    def every(self, frames: Sequence[Frame], bands: int) -> Floats:
        """Under every salt."""
        codes = self.hash.framed(self.view, frames, bands)
        if bands > 1:
            return _likelihood(self.map.seen(codes, bands), self.wanted, codes[:, None], bands)
        wanted = self.wanted[:, :: len(self.map.bands)]
        seen = (codes @ self._lowest).reshape(len(frames), *wanted.shape)
        return _likelihood(seen, wanted, codes[:, None], bands)

    def own(self, frames: Sequence[Frame], rows: Sequence[int], bands: int) -> Floats:
        """Each frame under its own salt."""
        codes = self.hash.framed(self.view, frames, bands)
        scores = np.empty(len(frames))
        for salt in set(rows):
            if salt not in self._directions:
                self._directions[salt] = self.map.directions(salt)
            places = [place for place, row in enumerate(rows) if row == salt]
            seen = codes[places] @ self._directions[salt][: codes.shape[1]]
            scores[places] = _likelihood(seen, self.wanted[salt], codes[places], bands)
        return scores

    @cached_property
    def _lowest(self) -> Logits:
        return self.map.low_directions()


def _likelihood(seen: Logits, wanted: Logits, codes: Logits, bands: int) -> Floats:
    """How likely numbers have the signs that are wanted, for what is known of the frame so far.

    A number on the right side counts little more the larger it is; one on the wrong side does.
    """
    typical = np.sqrt(np.square(codes).mean(axis=-1, keepdims=True))
    doubt = np.logaddexp(0, -SHARPNESS[bands] * np.sign(wanted) * seen / np.maximum(typical, 1e-9))
    total: Floats = -(np.abs(wanted) * doubt).sum(axis=-1)
    return total
