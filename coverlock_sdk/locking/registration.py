"""Registration: which part of the original frame a picture shows, found while it is verified.

Every frame has a prior weight, and the weights add up to one: half for the whole picture, the rest
for the crops that people make most, for centred crops, for small turns, and for crops anywhere on a
fine grid. The p-value of a frame is divided by its weight (a weighted Bonferroni correction, valid
however frames depend on each other). The fine grid carries the weights; the search visits few of
its points, first with the lowest band alone, then ever finer with the others.

A frame is tried only if a picture whose every bit agrees could still be accepted there. Short
payloads therefore get a small set by themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
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
    if max(abs(frame.x - 0.5), abs(frame.y - 0.5)) <= STEP:
        if any(abs(frame.side - popular.side) <= STEP / 2 for popular in POPULAR):
            return POPULAR_WEIGHT / len(POPULAR)
        return CENTRED_WEIGHT / SIDES
    places = max(1, round((1 - frame.side) / STEP)) + 1
    return ANYWHERE_WEIGHT / (SIDES * places**2)


@lru_cache(maxsize=1)
def families() -> tuple[tuple[Frame, ...], ...]:
    """Where searches begin: popular crops, centred ones, turns, and crops anywhere."""
    centred = tuple(Frame(side=float(side)) for side in np.arange(0.985, LEAST_SIDE, -COARSE / 2))
    turns = np.arange(2 * TURN_STEP, MOST_TURN + TURN_STEP / 2, 2 * TURN_STEP)
    turned = tuple(straightened(float(sign * turn)) for turn in turns for sign in (1, -1))
    anywhere = []
    for side in np.arange(1 - COARSE, LEAST_SIDE - 1e-9, -COARSE):
        spare = 1 - float(side)
        places = 0.5 + np.linspace(-spare / 2, spare / 2, round(spare / COARSE) + 1)
        anywhere += [
            Frame(float(side), float(x), float(y)) for x, y in itertools.product(places, places)
        ]
    return POPULAR, centred, turned, tuple(anywhere)


KEPT = (2, 1, 2, 6)
"""Starts of each family that are refined."""

SPREAD = tuple(
    (side * 0.008, x * 0.008, y * 0.008)
    for side in range(-4, 5)
    for x in (-1, 0, 1)
    for y in (-1, 0, 1)
)
"""Where a frame that the lowest band found is looked for by two bands: its side is known least."""

SPREAD_FROM, LEFT = 3, 6
"""How many frames are spread, and how many are refined after that."""

REFINED = ((2, 0.005), (3, 0.004), (3, 0.002), (3, 0.001))
"""By how many bands frames are compared, and by which steps they are moved to where they fit."""



SHARPNESS = {1: 2.0, 2: 4.0, 3: 6.0}
"""How surely numbers have their signs while a frame is known so well, in typical numbers."""


class Score(Protocol):
    """How well frames fit, by the lowest bands: the higher, the better."""

    def every(self, frames: Sequence[Frame]) -> Floats:
        """By the lowest band alone, for every row: (frames, rows)."""
        ...

    def own(self, frames: Sequence[Frame], rows: Sequence[int], bands: int) -> Floats:
        """By the lowest ``bands``, each frame for a row of its own: (frames,)."""
        ...


class Fit(NamedTuple):
    """A frame on its way to where it fits best."""

    score: float
    frame: Frame
    row: int


def search(score: Score, least_weight: float = 0.0) -> list[Placed]:
    """The frames that fit best of those that weigh at least ``least_weight``, and what they fit."""
    fits: list[Fit] = []
    for family, kept in zip(families(), KEPT, strict=True):
        if max(map(weight_of, family)) < least_weight:
            continue
        scores = score.every(family)
        best = np.argsort(-scores.max(axis=1))[:kept]
        fits += [Fit(float(scores[i].max()), family[i], int(scores[i].argmax())) for i in best]
    fits = _apart(_improved(fits, 0.016, 1, score), COARSE)[:SPREAD_FROM]
    popular = [Fit(0.0, frame, fit.row) for fit in fits[:1] for frame in POPULAR]
    near = [_shifted(fit.frame, offsets) for fit in fits for offsets in SPREAD]
    rows = [fit.row for fit in fits for _ in SPREAD]
    scores = score.own([f.frame for f in popular] + near, [f.row for f in popular] + rows, 2)
    fits = [Fit(float(s), f.frame, f.row) for s, f in zip(scores, popular, strict=False)]
    fits += [
        Fit(float(s), frame, row)
        for s, frame, row in zip(scores[len(popular) :], near, rows, strict=True)
    ]
    fits = _apart(fits, 0.006)[:LEFT]
    for bands, step in REFINED:
        fits = _improved(fits, step, bands, score)
    return [Placed(fit.frame, weight_of(fit.frame), fit.row) for fit in fits]


def _apart(fits: list[Fit], distance: float) -> list[Fit]:
    """The best fits first, without those that are close to a better one."""
    kept: list[Fit] = []
    for fit in sorted(fits, reverse=True):
        if all(fit.row != k.row or _distance(fit.frame, k.frame) > distance for k in kept):
            kept.append(fit)
    return kept


def _distance(one: Frame, other: Frame) -> float:
    apart = np.abs(np.subtract(one, other))
    return float(max(apart[:3].max(), apart[3] / 100))


def _improved(fits: list[Fit], step: float, bands: int, score: Score) -> list[Fit]:
    """Each frame moved by up to ``step`` along each axis to where a parabola has its top."""
    if not fits:
        return []
    stars = [[fit.frame, *_neighbours(fit.frame, step)] for fit in fits]
    rows = [fit.row for fit, star in zip(fits, stars, strict=True) for _ in star]
    scores = score.own([frame for star in stars for frame in star], rows, bands)
    by_star = np.split(scores, np.cumsum([len(star) for star in stars])[:-1])
    moved = [
        _shifted(star[0], [_top(s[0], s[i], s[i + 1]) * step for i in range(1, len(s), 2)])
        for star, s in zip(stars, by_star, strict=True)
    ]
    after = score.own(moved, [fit.row for fit in fits], bands)
    return [
        max(Fit(float(now), there, fit.row), Fit(float(s[0]), fit.frame, fit.row))
        for fit, there, now, s in zip(fits, moved, after, by_star, strict=True)
    ]


def _neighbours(frame: Frame, step: float) -> list[Frame]:
    axes = 4 if frame.turn else 3
    return [
        _shifted(frame, [sign * step if axis == other else 0.0 for other in range(axes)])
        for axis in range(axes)
        for sign in (-1, 1)
    ]


def _shifted(frame: Frame, offsets: Sequence[float]) -> Frame:
    """A frame moved along side, x, y and turn; a turn by the angle that moves the rim as far."""
    side, x, y, *turn = offsets
    degrees = frame.turn + (turn[0] * 100 if turn else 0.0)
    return Frame(min(1.0, max(LEAST_SIDE, frame.side + side)), frame.x + x, frame.y + y, degrees)


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

    def every(self, frames: Sequence[Frame]) -> Floats:
        """By the lowest band, under every salt."""
        codes = self.hash.framed(self.view, frames, 1)
        seen = codes @ self._lowest
        wanted = self.wanted[:, :: len(self.map.bands)]
        return _likelihood(seen.reshape(len(frames), *wanted.shape), wanted, codes[:, None], 1)

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
