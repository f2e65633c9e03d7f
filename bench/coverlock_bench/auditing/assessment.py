"""Everything that an audit measures about one watermark, as plain figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.auditing.bounds import invisible_changes
from coverlock_bench.auditing.collection import Collection
from coverlock_bench.auditing.presets import Plan
from coverlock_bench.auditing.signatures import feature_variation, residual_patterns
from coverlock_bench.auditing.trials import Division, Row, Trials
from coverlock_bench.intervals import rate
from coverlock_bench.ledger import NotMeasuredError, Session, digest
from coverlock_bench.rt import transferability_curve
from coverlock_bench.settings import Setting, compared
from coverlock_sdk import Watermark
from coverlock_sdk.errors import (
    CorruptModelError,
    MissingModelError,
    PluginError,
    UnknownNameError,
)

SEED = 0
SIGNATURE_PICTURES = 20
SIDES = (256, 512, 1024)
"""Sizes at which RT is measured if a watermark takes any size: it may transfer better at some."""
MOST_AT_A_SIDE = 10
"""Sources and targets of RT at each of these sizes: large pictures fill the memory."""
ABSENT = (NotMeasuredError, MissingModelError, CorruptModelError, UnknownNameError)
"""Errors that leave one cell empty; all others end the run."""


class Assessment:
    """One watermark under one plan."""

    def __init__(self, watermark: Watermark, plan: Plan, session: Session) -> None:
        self.watermark = watermark
        self.plan = plan
        self.session = session
        self._trials: dict[Setting, Trials] = {}

    @property
    def stages(self) -> int:
        """How many stages of progress ``figures`` has."""
        curves = 1 if self.watermark.native_size is not None else 1 + len(SIDES)
        attacks = [1 + len(self.plan.attacks_on(defense)) for defense in self.plan.defenses]
        return curves + 1 + sum(attacks)

    @property
    def compared(self) -> tuple[Setting, Setting]:
        """No lock and a lock, as the report puts them first."""
        bare, lock = map(Setting.parse, compared(map(str, self.plan.defenses)))
        return bare, lock

    def trials(self, defense: Setting) -> Trials:
        """The trials behind ``defense``, which remember the pictures that they marked."""
        if defense not in self._trials:
            self._trials[defense] = Trials(self.watermark, defense, self.plan.fpr, self.session)
        return self._trials[defense]

    def division(self, collection: Collection) -> Division:
        """Which pictures of a collection to steal from, and which to forge."""
        pairs = self.plan.preset.pairs
        return Division.of(collection.pictures, pairs, SEED, collection.naturals)

    def figures(self, collection: Collection) -> dict[str, Any]:
        """Everything that is measured on one collection of photos."""
        return {
            **self.description(),
            "rt": self.transferability(collection),
            "signatures": self.signatures(collection),
            "security": self.security(collection),
        }

    def description(self) -> dict[str, Any]:
        """What the watermark says about itself; a ``card`` maps names to remarks and figures."""
        return {
            "name": self.watermark.name,
            "bits": self.watermark.bits,
            "native_size": self.watermark.native_size and list(self.watermark.native_size),
            # A vendor's card may hold arrays, dates, anything.
            "card": json.loads(json.dumps(dict(self.watermark.card), default=str)),
        }

    def transferability(self, collection: Collection) -> dict[str, Any]:
        """RT@s, for every s that there are enough pictures for."""
        preset, pictures = self.plan.preset, collection.pictures
        targets = min(preset.rt_targets, max(len(pictures) // 2, 1))
        messages, sources = preset.rt_messages, preset.rt_sources
        curve = transferability_curve(
            self.watermark, pictures, sources, targets, messages, SEED, self.session
        )
        figures = curve.to_dict()
        if self.watermark.native_size is None:
            figures["sizes"] = {
                str(side): _or_reason(partial(self._transferability_at, collection, side))
                for side in SIDES
            }
        return figures

    def _transferability_at(self, collection: Collection, side: int) -> dict[str, Any]:
        """RT@s on squares of ``side`` pixels, from photos that are large enough."""
        preset = self.plan.preset
        counts = [count for count in preset.rt_sources if count <= MOST_AT_A_SIDE]
        wanted = min(preset.rt_targets, MOST_AT_A_SIDE)
        pictures = collection.squares(side, max(counts) + wanted)
        if len(pictures) < 2:
            raise NotMeasuredError(
                f"the photos are too small: {len(pictures)} of {len(collection.pictures)} have "
                f"{side} pixels per side, and RT@1 needs at least 2"
            )
        curve = transferability_curve(
            self.watermark,
            pictures,
            counts,
            targets=min(wanted, len(pictures) // 2),
            messages=preset.rt_messages,
            seed=SEED,
            session=self.session,
            side=side,
        )
        return {"pictures": len(pictures), **curve.to_dict()}

    def signatures(self, collection: Collection) -> dict[str, Any]:
        """Correlations of residuals and the variation of the decoder's features."""
        pictures = collection.pictures[:SIGNATURE_PICTURES]
        key = {
            "kind": "signatures",
            "watermark": self.session.fingerprint(self.watermark),
            "pictures": digest(*pictures),
            "layer": self.watermark.feature_layer,
        }
        parts = {"residuals": _correlations, "features": _variation}
        figures = {}
        for name in self.session.steps(list(parts), f"{self.watermark.name}: signatures"):
            measure = partial(parts[name], self.watermark, pictures)
            figures[name] = _or_reason(partial(self.session.once, measure, **key, part=name))
        return figures

    def security(self, collection: Collection) -> dict[str, Any]:
        """TPR, ASR, bit accuracy and errors behind every defence."""
        return {
            str(defense): _or_reason(partial(self._behind, defense, collection))
            for defense in self.plan.defenses
        }

    def _behind(self, defense: Setting, collection: Collection) -> dict[str, Any]:
        trials, division = self.trials(defense), self.division(collection)
        genuine = trials.genuine(division.sources, SEED, self.plan.distortions)
        attacks = self.plan.attacks_on(defense)
        bound = {"kind": "bound", "lock": trials.lock, "pictures": digest(*collection.pictures)}
        return {
            "bound": _or_reason(
                lambda: self.session.once(partial(invisible_changes, trials, division), **bound)
            ),
            "sources": len(division.sources),
            "targets": len(division.targets),
            "genuine": {name: cell("tpr", found) for name, found in genuine.items()},
            "attacks": {
                str(attack): _or_reason(partial(_attacked, trials, attack, division, count))
                for attack, count in attacks.items()
            },
        }


def _attacked(trials: Trials, attack: Setting, division: Division, count: int) -> dict[str, Any]:
    return cell("asr", trials.forgeries(attack, division, count))


def _correlations(watermark: Watermark, pictures: Sequence[Any]) -> dict[str, Any]:
    found = residual_patterns(watermark, pictures)
    return {
        "single_correlation": found.single_correlation,
        "averaged_correlation": found.averaged_correlation,
        "groups": len(found.averaged),
    }


def _variation(watermark: Watermark, pictures: Sequence[Any]) -> dict[str, Any]:
    try:
        return asdict(feature_variation(watermark, pictures))
    except PluginError as error:  # a module that only serves analysis must not stop the rest
        raise NotMeasuredError(str(error)) from error


def cell(name: str, rows: list[Row]) -> dict[str, Any]:
    """A table cell: how many pictures were accepted, and what was read from them."""
    return {
        name: rate(sum(row["accepted"] for row in rows), len(rows)),
        "bit_accuracy": float(np.mean([row["matches"] / row["bits"] for row in rows])),
        "error": _errors(rows),
        **{n: float(np.mean([row[n] for row in rows])) for n in ("psnr", "ssim") if n in rows[0]},
    }


def _errors(rows: list[Row]) -> dict[str, float | None]:
    """Bit errors of the message, and of the payload and code that it is computed from."""
    parts = {"message": [row["bits"] - row["matches"] for row in rows]}
    parts |= {part: [row[f"{part}_errors"] for row in rows] for part in ("payload", "hash")}
    bits = sum(row["bits"] for row in rows)
    return {part: None if None in errors else sum(errors) / bits for part, errors in parts.items()}


def _or_reason(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of ``measure``, or why it cannot be measured here."""
    try:
        return measure()
    except ABSENT as error:
        return {"not_measured": str(error)}
