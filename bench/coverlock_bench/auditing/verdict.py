"""Turns the figures of an audit into a verdict, advice, three tiles, and metrics for a gate.

The verdict is about the unprotected watermark. Attackers differ in what else they have besides
released pictures: nothing, the unmarked originals (no real attacker does), or the networks.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal

from coverlock_bench.auditing.assessment import SIDES
from coverlock_bench.auditing.presets import Plan
from coverlock_bench.intervals import rate
from coverlock_bench.rt import rt_of
from coverlock_bench.settings import KEYED, KEYLESS, LOCK, OPEN, Setting, arms, compared
from coverlock_bench.tables import value_at
from coverlock_bench.trial import CLEAN
from coverlock_sdk import CoverLockError, NetworkAttack, OracleAttack
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.plugin_manager import plugin_manager

Figures = dict[str, Any]
Given = Literal["released", "originals", "decoder", "encoder"]
"""What an attacker has besides released pictures; "released" means nothing else."""
Level = Literal["forgeable", "transferable", "copied", "resisted", "unmeasured"]

OUTSIDE: tuple[Given, ...] = ("released", "originals")
NETWORKS: tuple[Given, ...] = ("decoder", "encoder")
GIVEN: dict[Given, str] = {
    "released": "released pictures only",
    "originals": "the unmarked originals too (a bound: no real attacker has them)",
    "decoder": "your decoder too",
    "encoder": "your encoder and decoder too",
}
KINDS = {"asr": OUTSIDE, "asr_given_networks": NETWORKS}
"""The metrics of success, and the attackers that each one counts."""

ATTACKS = {
    "gt": "pasting the true residual",
    "gt:sources=100": "pasting the mean of 100 true residuals",
    "averaging": "averaging 100 released pictures",
    "averaging:references=10": "averaging 10 released pictures",
    "denoise": "denoising a released picture",
    "wmforger": "WMForger, which learned what marks look like",
    "optimisation": "optimising against your decoder",
    "re-embedding": "copying the bits with your encoder",
    "re-locking": "undoing the lock and locking again",
}
DEFENSES = {
    "none": "as it is",
    LOCK: "locked with a key",
    KEYLESS: "locked without a key",
    "mhdw": "MHDW-style hash",
    "convnext": "ConvNeXt filter",
}


def attack_name(setting: str) -> str:
    """The name of an attack in reports."""
    return _named(setting, ATTACKS)


def defense_name(setting: str) -> str:
    """The name of a defence in reports."""
    parsed = Setting.parse(setting)
    if not parsed.is_keyless:
        return _named(setting, DEFENSES)
    others = tuple(option for option in parsed.options if option[0] != "key")
    return _named(str(Setting(LOCK, others)), {LOCK: DEFENSES[KEYLESS]})


def _named(setting: str, names: Mapping[str, str]) -> str:
    name, _, options = setting.partition(":")
    plain = names.get(name, name)
    spelled = options.replace("=", " ").replace(",", ", ")
    return names.get(setting, f"{plain} ({spelled})" if options else plain)


def given(setting: str) -> Given:
    """What an attack has besides released pictures."""
    factory = plugin_manager().get("attack", setting.partition(":")[0])
    if not isinstance(factory, type):
        return "released"
    if issubclass(factory, NetworkAttack):
        return factory.given
    return "originals" if issubclass(factory, OracleAttack) else "released"


@dataclass(frozen=True)
class Tally:
    """Forgeries by several attacks on one defence."""

    attacks: dict[str, Figures]
    """For each attack its success rate, with an interval."""

    @classmethod
    def of(cls, figures: Figures, defense: str, attackers: Collection[Given]) -> Tally:
        """The attacks that were measured, for some kinds of attackers."""
        cells = figures["security"].get(defense, {}).get("attacks", {})
        return cls({n: c["asr"] for n, c in cells.items() if "asr" in c and given(n) in attackers})

    def __bool__(self) -> bool:
        return bool(self.attacks)

    @property
    def accepted(self) -> int:
        """Forgeries that verified."""
        return sum(found["successes"] for found in self.attacks.values())

    @property
    def tried(self) -> int:
        """Forgeries in all."""
        return sum(found["trials"] for found in self.attacks.values())

    @property
    def highest(self) -> float:
        """The success rate of the strongest attack; 0 without one."""
        return max((float(found["rate"]) for found in self.attacks.values()), default=0.0)

    @property
    def upper_end(self) -> float:
        """The largest success rate, for any attack, that the samples do not rule out."""
        return max(float(found["high"]) for found in self.attacks.values())

    @property
    def leader(self) -> tuple[str, Figures]:
        """The attack that succeeded most often, and its rate."""
        return max(self.attacks.items(), key=lambda item: item[1]["rate"])

    @property
    def strongest(self) -> str:
        """The same in words: ``12 of 12 forgeries by averaging``."""
        name, found = self.leader
        return f"{found['successes']} of {found['trials']} forgeries by {attack_name(name)}"


@dataclass(frozen=True)
class Tile:
    """One number of the first screen."""

    title: str
    count: str
    note: str
    tone: Literal["good", "bad", "unknown"]


@dataclass(frozen=True)
class Findings:
    """The verdict of an audit in one sentence, advice in another, and three tiles."""

    level: Level
    verdict: str
    advice: str
    tiles: tuple[Tile, ...]

    def to_dict(self) -> Figures:
        """The findings as plain JSON values."""
        return {**asdict(self), "tiles": [asdict(tile) for tile in self.tiles]}


def findings(figures: Figures) -> Findings:
    """Whether the watermark can be forged, by whom, and what to do about it."""
    bare, lock = compared(figures["security"])
    tiles = (
        _tile(defense_name(bare), Tally.of(figures, bare, (*OUTSIDE, *NETWORKS))),
        _tile(defense_name(lock), Tally.of(figures, lock, OUTSIDE)),
        _tile(
            f"{defense_name(lock)}, attacker has your networks",
            Tally.of(figures, lock, NETWORKS),
        ),
    )
    return Findings(*_verdict(figures), _advice(figures), tiles)


def _verdict(figures: Figures) -> tuple[Level, str]:
    name, (bare, _) = figures["name"], compared(figures["security"])
    every = Tally.of(figures, bare, (*OUTSIDE, *NETWORKS))
    released, originals, networks = (
        Tally.of(figures, bare, kinds) for kinds in (("released",), ("originals",), NETWORKS)
    )
    if released.accepted:
        return "forgeable", (
            f"“{name}” can be forged from released pictures alone: {released.strongest} "
            "were accepted."
        )
    if originals.accepted and originals.highest >= networks.highest:
        return "transferable", (
            f"The mark of “{name}” can be moved to other pictures: {originals.strongest} were "
            "accepted, although no attack here extracted the mark from released pictures."
        )
    if networks.accepted:
        return "copied", (
            f"“{name}” can be forged by anyone who has your encoder or decoder: "
            f"{networks.strongest} were accepted, but none that were made from released pictures "
            "alone."
        )
    if every:
        return "resisted", f"No attack forged “{name}”: 0 of {every.tried} forgeries were accepted."
    return "unmeasured", f"Nothing is known: no attack on the unprotected “{name}” was run."


def _advice(figures: Figures) -> str:
    found = arms(figures["security"])
    lock, keyless = found.get(KEYED, LOCK), found.get(OPEN, KEYLESS)
    locked = Tally.of(figures, lock, (*OUTSIDE, *NETWORKS))
    if not locked:
        lacking = "a lock with a key" if OPEN in found else "the lock"
        return f"Audit {lacking} too: run the command without -d."
    do = defense_name(lock).replace("locked", "Lock it", 1)
    parts = [f"{do}: none of {locked.tried} forgeries were accepted then"]
    if locked.accepted:
        parts = [f"{do}, but do not rely on that alone: {locked.strongest} were accepted"]
    before, kept = (_genuine(figures, arm) for arm in compared(figures["security"]))
    if before and kept:
        unlocked = "" if before == kept else f" ({before['successes']} without the lock)"
        parts.append(
            f", and {kept['successes']} of {kept['trials']} genuine pictures still are{unlocked}"
        )
    undone = Tally.of(figures, keyless, NETWORKS)
    if undone.accepted:
        _, best = undone.leader
        counted = f"{best['successes']} of {best['trials']} forgeries were accepted"
        parts.append(f"; without a key, anyone who knows CoverLock can undo the lock ({counted})")
    return "".join(parts) + "."


def _genuine(figures: Figures, arm: str) -> Figures | None:
    found: Figures | None = value_at(figures["security"].get(arm), f"genuine/{CLEAN}/tpr")
    return found


def _tile(where: str, tally: Tally) -> Tile:
    title = where[0].upper() + where[1:]
    if not tally:
        return Tile(title, "unknown", "not measured", "unknown")
    pooled = rate(tally.accepted, tally.tried)
    count = f"{tally.accepted} of {tally.tried}"
    low, high = (
        f"{100 * pooled[end]:.{1 if pooled[end] < 0.1 else 0}f}" for end in ("low", "high")
    )
    if tally.accepted:
        name, found = tally.leader
        strongest = f"{attack_name(name)} ({found['successes']} of {found['trials']})"
        note = f"a success rate of {low} to {high} %; strongest: {strongest}"
        return Tile(title, count, note, "bad")
    kinds = len(tally.attacks)
    note = f"a success rate of at most {high} %, over {kinds} kinds of attack"
    return Tile(title, count, note, "good")


# Metrics and conditions


def metrics(figures: Figures) -> dict[str, float]:
    """Every figure that a CI job may compare, by name; rates are shares, not percentages."""
    named: dict[str, float] = {}
    defenses = arms(figures["security"])
    for prefix, defense in defenses.items():
        for kind, attackers in KINDS.items():
            if tally := Tally.of(figures, defense, attackers):
                named[f"{prefix}{kind}"] = tally.highest
                named[f"{prefix}{kind}_high"] = tally.upper_end
        every = Tally.of(figures, defense, (*OUTSIDE, *NETWORKS))
        named |= {f"{prefix}asr_{name}": found["rate"] for name, found in every.attacks.items()}
        genuine = figures["security"][defense].get("genuine", {})
        for change, seen in genuine.items():
            named[f"{prefix}tpr" if change == CLEAN else f"{prefix}tpr_{change}"] = seen["tpr"][
                "rate"
            ]
        if CLEAN in genuine:
            named |= {f"{prefix}{name}": genuine[CLEAN][name] for name in ("psnr", "ssim")}
        if all(change in genuine for change in EVALUATION):
            six = [genuine[change] for change in EVALUATION]
            named[f"{prefix}tpr_distorted"] = fmean(seen["tpr"]["rate"] for seen in six)
            named[f"{prefix}bit_accuracy_distorted"] = fmean(s["bit_accuracy"] for s in six)
    curves = {"rt": figures["rt"]}
    curves |= {f"rt_{side}px": curve for side, curve in figures["rt"].get("sizes", {}).items()}
    named |= {f"rt@{point['sources']}": point["rt"] for point in figures["rt"]["points"]}
    named |= {n: point["rt"] for n, curve in curves.items() if (point := most_sources(curve))}
    locked = figures["security"].get(defenses.get(KEYED))
    transplanted = value_at(locked, "attacks/gt/bit_accuracy")
    if transplanted is not None:
        named["locked_rt"] = rt_of(transplanted)
    return named


def most_sources(curve: Figures) -> Figures | None:
    """The point of an RT curve with the most sources."""
    return max(curve.get("points", ()), key=lambda point: point["sources"], default=None)


def metric_names(plan: Plan) -> list[str]:
    """Every metric that a run of ``plan`` may have, to refuse a misspelt one before it starts."""
    attacks = [f"asr_{attack}" for attack in plan.attacks]
    genuine = ["tpr", "tpr_distorted", "bit_accuracy_distorted", "psnr", "ssim"]
    genuine += [f"tpr_{name}" for name in plan.distortions]
    prefixes = arms(map(str, plan.defenses))
    kinds = [f"{kind}{end}" for kind in KINDS for end in ("", "_high")]
    names = [f"{prefix}{name}" for prefix in prefixes for name in (*kinds, *attacks, *genuine)]
    names += ["rt", *(f"rt@{count}" for count in plan.preset.rt_sources), "locked_rt"]
    return [*names, *(f"rt_{side}px" for side in SIDES)]


_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(r"\s*([^\s<>]+?)\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True)
class Condition:
    """A metric, a comparison and a bound; the audit fails if it holds."""

    metric: str
    comparison: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read ``METRIC>BOUND``; also with >=, < and <=."""
        match = _CONDITION.fullmatch(text)
        try:
            metric, comparison, bound = match.groups() if match else ("", "", "")
            return cls(metric, comparison, float(bound))
        except ValueError:
            raise CoverLockError(
                f"'{text}' is not a condition: write METRIC, one of > >= < <=, and a number, "
                "such as locked_asr_high>0.1"
            ) from None

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.bound:g}"

    def require_known(self, plan: Plan) -> None:
        """Refuse a metric that ``plan`` cannot have."""
        names = metric_names(plan)
        if self.metric not in names:
            raise CoverLockError(
                f"there is no metric '{self.metric}': use one of {', '.join(names)}"
            )

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Whether the condition is met; a metric that was not measured is an error, not a pass."""
        if self.metric not in metrics:
            raise CoverLockError(
                f"the condition '{self}' cannot be decided: '{self.metric}' was not measured; "
                f"there are {', '.join(metrics)}"
            )
        return bool(_OPERATORS[self.comparison](metrics[self.metric], self.bound))


# What is missing


def omissions(figures: Figures) -> Iterator[tuple[str, str]]:
    """What was not measured, and why, in the order of the report."""
    for setting, behind in figures["security"].items():
        where = defense_name(setting)
        if "not_measured" in behind:
            yield f"everything, {where}", behind["not_measured"]
        for attack, cell in behind.get("attacks", {}).items():
            if "not_measured" in cell:
                yield f"{attack_name(attack)}, {where}", cell["not_measured"]
    for count, needed in figures["rt"]["missing"].items():
        yield f"RT@{count}", f"needs {needed} more pictures"
    for side, found in figures["rt"].get("sizes", {}).items():
        if "not_measured" in found:
            yield f"RT at {side} pixels", found["not_measured"]
    for name, found in figures["signatures"].items():
        if "not_measured" in found:
            yield f"signatures: {name}", found["not_measured"]
    for name, reason in figures["not_shown"].items():
        yield f"picture: {name}", reason
