"""Everything that is measured about the security of one watermark, as plain figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.attacks.reembedding import AGAINST_LOCKS
from coverlock_bench.auditing.collection import Collection
from coverlock_bench.auditing.presets import Preset
from coverlock_bench.auditing.signatures import feature_variation, residual_patterns
from coverlock_bench.auditing.trials import Division, Row, Trials
from coverlock_bench.intervals import rate, spread
from coverlock_bench.ledger import NotMeasuredError, Session, digest
from coverlock_bench.rt import locked_transferability, transferability_curve
from coverlock_bench.settings import LOCK, Setting
from coverlock_bench.trial import CLEAN
from coverlock_sdk import Watermark
from coverlock_sdk.errors import (
    CorruptModelError,
    MissingModelError,
    PluginError,
    UnknownNameError,
)
from coverlock_sdk.images.distortions import EVALUATION, Distortion
from coverlock_sdk.loading import load_distortion
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import RULES
from coverlock_sdk.plugin_manager import BUILTIN, plugin_manager

NONE = Setting("none")
COVERLOCK = Setting(LOCK)
SIGNATURE_PICTURES = 20
NO_TIME = "there was no time"
SIDES = (256, 512, 1024)
"""Pixels at which RT of a watermark of any size is measured: transferability may grow with them."""
MOST_AT_A_SIDE = 10
"""Sources, and targets, of RT at one of these sides: large pictures fill the memory."""
THRESHOLDS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
"""Of a filter's score, for the trade-off."""
ABSENT = (NotMeasuredError, MissingModelError, CorruptModelError, UnknownNameError)
"""Errors that leave one cell empty; every other one ends the run."""


@dataclass(frozen=True)
class Plan:
    """What is run: sizes, attacks, defences, and the false-positive rate they are held to."""

    preset: Preset
    attacks: dict[Setting, int]
    """Attacks, and how many targets each forges at most."""
    defenses: tuple[Setting, ...]
    fpr: float
    distortions: Mapping[str, Distortion]

    @classmethod
    def of(
        cls,
        preset: Preset,
        attacks: Sequence[str],
        defenses: Sequence[str],
        fpr: float,
        distortions: Sequence[str] = (),
    ) -> Plan:
        """What was named; otherwise the attacks of the preset, and the paper's defences at hand.

        Distortions are the paper's six and those of plugins, unless some are named.
        """
        at_hand = plugin_manager().names("defense")
        chosen = {Setting.parse(text): preset.pairs for text in attacks} or preset.settings()
        usual = [text for text in preset.defenses if Setting.parse(text).name in at_hand]
        behind = defenses or usual
        names = distortions or [*EVALUATION, *_distortions_of_plugins()]
        changes = {name: load_distortion(name) for name in names}
        plan = cls(preset, chosen, tuple(Setting.parse(text) for text in behind), fpr, changes)
        for role, settings in (("attack", chosen if attacks else ()), ("defense", plan.defenses)):
            for setting in settings:
                plugin_manager().get(role, setting.name)  # says what there is instead
        return plan

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "preset": asdict(self.preset),
            "attacks": {str(attack): count for attack, count in self.attacks.items()},
            "defenses": [str(defense) for defense in self.defenses],
            "fpr": self.fpr,
            "distortions": list(self.distortions),
        }


class Assessment:
    """One watermark under one plan."""

    def __init__(self, watermark: Watermark, plan: Plan, session: Session) -> None:
        self.watermark = watermark
        self.plan = plan
        self.session = session
        self._trials: dict[Setting, Trials] = {}

    def trials(self, defense: Setting) -> Trials:
        """The trials behind ``defense``, which remember the pictures they have marked."""
        if defense not in self._trials:
            self._trials[defense] = Trials(self.watermark, defense, self.plan.fpr, self.session)
        return self._trials[defense]

    def division(self, collection: Collection, seed: int) -> Division:
        """Which pictures of a collection are robbed, and which are forged."""
        pairs = self.plan.preset.pairs
        return Division.of(collection.pictures, pairs, seed, collection.naturals)

    def description(self) -> dict[str, Any]:
        """What the watermark says of itself; a ``card`` maps names to remarks and figures."""
        return {
            "name": self.watermark.name,
            "bits": self.watermark.bits,
            "native_size": self.watermark.native_size and list(self.watermark.native_size),
            "card": _plain(dict(self.watermark.card)),
        }

    def transferability(self, collection: Collection) -> dict[str, Any]:
        """RT@s as far as the pictures go, and RT@1 through the lock."""
        preset, pictures = self.plan.preset, collection.pictures
        targets = min(preset.rt_targets, max(len(pictures) // 2, 1))
        common: dict[str, Any] = {
            "targets": targets,
            "seed": preset.seeds[0],
            "session": self.session,
        }
        curve = transferability_curve(
            self.watermark, pictures, preset.rt_sources, messages=preset.rt_messages, **common
        )
        locked = self.trials(COVERLOCK).defended.protected
        assert isinstance(locked, LockedWatermark)
        sources = min(preset.locked_sources, len(pictures) - targets)
        through = partial(locked_transferability, locked, pictures, sources, **common)
        figures = {**curve.to_dict(), "locked": _or_reason(lambda: asdict(through()))}
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
                f"{side} pixels a side, and RT@1 needs at least 2"
            )
        targets = min(wanted, len(pictures) // 2)
        common: dict[str, Any] = {"targets": targets, "seed": preset.seeds[0], "side": side}
        curve = transferability_curve(
            self.watermark,
            pictures,
            counts,
            messages=preset.rt_messages,
            session=self.session,
            **common,
        )
        return {"pictures": len(pictures), **curve.to_dict()}

    def signatures(self, collection: Collection) -> dict[str, Any]:
        """Correlations of residuals and the variation of the decoder's features."""
        pictures = collection.pictures[:SIGNATURE_PICTURES]
        exposed = type(self.watermark).decoder_module is not Watermark.decoder_module
        kept = {
            "kind": "signatures",
            "watermark": self.session.fingerprint(self.watermark),
            "pictures": digest(*pictures),
            "decoder": exposed,
            "layer": self.watermark.feature_layer,
        }
        figures = {}
        parts = {"residuals": _correlations, "features": _variation}
        for name in self.session.steps(list(parts), f"{self.watermark.name}: signatures"):
            found = self.session.ledger.recall(**kept, part=name)
            if found is None and self.session.may_begin():
                found = _or_reason(partial(parts[name], self.watermark, pictures))
                if "not_measured" not in found or not exposed:  # one that fails may be mended
                    self.session.ledger.keep(found, **kept, part=name)
            figures[name] = found or {"not_measured": NO_TIME}
        return figures

    def security(
        self, collection: Collection, distortions: bool = True, share: float = 1.0
    ) -> dict[str, Any]:
        """TPR, ASR, bit accuracy and errors behind every defence, on one collection.

        ``share`` of the pictures is used, so that a run with little time first measures everything
        on a few. Without ``distortions`` genuine pictures are only verified as they are.
        """
        changes = self.plan.distortions if distortions else {}
        attacks = self.plan.attacks
        figures = {
            str(defense): _or_reason(
                partial(self._behind, defense, attacks, collection, changes, share)
            )
            for defense in self.plan.defenses
        }
        if distortions:
            attacks = {attack: n for attack, n in attacks.items() if str(attack) == "gt"}
            for defense in map(Setting.parse, self.plan.preset.variants):
                figures[str(defense)] = _or_reason(
                    partial(self._behind, defense, attacks, collection, changes, share)
                )
        return figures

    def _behind(
        self,
        defense: Setting,
        attacks: Mapping[Setting, int],
        collection: Collection,
        distortions: Mapping[str, Any],
        share: float,
    ) -> dict[str, Any]:
        trials = self.trials(defense)
        if defense.name != LOCK:
            attacks = {a: count for a, count in attacks.items() if a.name not in AGAINST_LOCKS}
        genuine: list[dict[str, list[Row]]] = []
        forged: dict[str, list[list[Row]]] = {str(attack): [] for attack in attacks}
        refused: dict[str, str] = {}
        for seed in self.plan.preset.seeds:
            division = self.division(collection, seed)
            some = _share(len(division.sources), share)
            genuine.append(trials.genuine(division.sources[:some], seed, distortions))
            for attack, count in attacks.items():
                count = _share(min(count, len(division.targets)), share)
                try:
                    forged[str(attack)].append(trials.forgeries(attack, division, count))
                except ABSENT as error:
                    refused[str(attack)] = str(error)
        return {
            "sources": len(division.sources),
            "targets": len(division.targets),
            "genuine": {
                name: _cell("tpr", [rows[name] for rows in genuine])
                for name in (CLEAN, *distortions)
            },
            "attacks": {
                name: {"not_measured": refused[name]} if name in refused else _cell("asr", by_seed)
                for name, by_seed in forged.items()
            },
        }


def _distortions_of_plugins() -> list[str]:
    plugins = [plugin for plugin in plugin_manager().plugins if plugin.name != BUILTIN]
    return [name for plugin in plugins for name in plugin.registered.get("distortion", ())]


def _plain(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card as JSON has it: a vendor's may hold arrays, dates, anything."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(card), default=str))
    return plain


def _share(count: int, share: float) -> int:
    return min(count, max(2, round(share * count)))


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


def _cell(name: str, by_seed: list[list[Row]]) -> dict[str, Any]:
    """A cell of a table: how many were accepted, and what was read from them."""
    rows = [row for rows in by_seed for row in rows]
    if not rows:
        return {"not_measured": NO_TIME}
    cell = {name: _rates(by_seed), "bit_accuracy": _bit_accuracy(rows), "error": _errors(rows)}
    return cell | _similarity(rows) | _sweep(rows)


def _sweep(rows: list[Row]) -> dict[str, Any]:
    """For a defence that filters by a score: what other thresholds would have accepted."""
    if rows[0]["score"] is None:
        return {}
    shares = {
        rule: [
            float(np.mean([row["carried"][rule] and row["score"] >= bound for row in rows]))
            for bound in THRESHOLDS
        ]
        for rule in RULES
    }
    return {"sweep": {"thresholds": list(THRESHOLDS), **shares}}


def _rates(by_seed: list[list[Row]]) -> dict[str, Any]:
    """Accepted pictures under each rule, with an interval, and the spread over seeds.

    Seeds deal the same pictures anew, so they are not more pictures: the interval is that of one.
    """
    figures: dict[str, Any] = {}
    for rule in RULES:
        counts = [(sum(r["accepted"][rule] for r in rows), len(rows)) for rows in by_seed if rows]
        accepted, tried = sum(k for k, _ in counts), sum(n for _, n in counts)
        figures[rule] = {
            **rate(round(accepted / len(counts)), round(tried / len(counts))),
            **{"successes": accepted, "trials": tried, "rate": accepted / tried},
            "over_seeds": spread([k / n for k, n in counts]),
        }
    return figures


def _bit_accuracy(rows: list[Row]) -> float:
    return float(np.mean([row["matches"] / row["bits"] for row in rows]))


def _errors(rows: list[Row]) -> dict[str, float | None]:
    """Bit errors of the message, and of the two parts it is put together from."""
    parts = {"message": [row["bits"] - row["matches"] for row in rows]}
    parts |= {part: [row[f"{part}_errors"] for row in rows] for part in ("payload", "hash")}
    bits = [row["bits"] for row in rows]
    return {
        part: None if None in errors else sum(errors) / sum(bits) for part, errors in parts.items()
    }


def _similarity(rows: list[Row]) -> dict[str, Any]:
    return {
        name: float(np.mean([row[name] for row in rows]))
        for name in ("psnr", "ssim")
        if name in rows[0]
    }


def _or_reason(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``measure`` returns, or why that cannot be measured here."""
    try:
        return measure()
    except ABSENT as error:
        return {"not_measured": str(error)}
