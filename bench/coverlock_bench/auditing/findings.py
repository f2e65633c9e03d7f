"""What the figures of an audit come to: metrics to gate on, and a verdict to forward."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from coverlock_bench.auditing.assessment import SIDES, Plan
from coverlock_bench.auditing.security_tables import attack_name, under_distortion
from coverlock_bench.intervals import rate
from coverlock_bench.tables import shown
from coverlock_bench.trial import CLEAN
from coverlock_sdk.locking.coverlock import DEFAULT_RULE
from coverlock_sdk.locking.verdict import Rule
from coverlock_sdk.plugin_manager import plugin_manager

Level = Literal["forgeable", "transferable", "resisted", "unmeasured"]
ARMS = {"": "none", "locked_": "coverlock"}
"""Prefix of a metric's name, and the defence it is about."""

HEADLINES: dict[Level, str] = {
    "forgeable": "Forgeable: released pictures are enough to make others verify",
    "transferable": "Transferable: the true residual passes elsewhere; no attack here lifted it",
    "resisted": "Not forged by any attack that was tried",
    "unmeasured": "Not known: no attack on the unprotected watermark was run",
}


@dataclass(frozen=True)
class Findings:
    """The verdict of an audit."""

    level: Level
    headline: str
    sentences: tuple[str, ...]

    @property
    def paragraph(self) -> str:
        """The whole verdict, for a terminal or an e-mail."""
        return " ".join(self.sentences)


def metrics(figures: dict[str, Any], rule: Rule = DEFAULT_RULE) -> dict[str, float]:
    """Every figure a CI job may compare, by name; rates are shares, not percentages."""
    named: dict[str, float] = {}
    for prefix, defense in ARMS.items():
        behind = figures["security"].get(defense, {})
        rates = {name: cell["asr"][rule] for name, cell in _attacks(behind).items()}
        if rates:
            named[f"{prefix}asr"] = max(r["rate"] for r in rates.values())
            named[f"{prefix}asr_high"] = max(r["high"] for r in rates.values())
        named |= {f"{prefix}asr_{name}": r["rate"] for name, r in rates.items()}
        genuine = behind.get("genuine", {})
        if "tpr" in genuine.get(CLEAN, {}):
            named[f"{prefix}tpr"] = genuine["clean"]["tpr"][rule]["rate"]
            named[f"{prefix}psnr"] = genuine["clean"]["psnr"]
            named[f"{prefix}ssim"] = genuine["clean"]["ssim"]
        changed = {name: cell for name, cell in genuine.items() if name != CLEAN and "tpr" in cell}
        named |= {f"{prefix}tpr_{n}": cell["tpr"][rule]["rate"] for n, cell in changed.items()}
        read, bits = (
            under_distortion(behind, path) for path in (f"tpr/{rule}/rate", "bit_accuracy")
        )
        if read and bits:
            named[f"{prefix}tpr_distorted"] = fmean(read)
            named[f"{prefix}bit_accuracy_distorted"] = fmean(bits)
    named |= {f"rt@{p['sources']}": p["rt"] for p in _eight_bit(figures["rt"])}
    largest = {"rt": _largest(figures["rt"])}
    sizes = figures["rt"].get("sizes", {})
    largest |= {f"rt_{side}px": _largest(curve) for side, curve in sizes.items()}
    named |= {name: point["rt"] for name, point in largest.items() if point}
    if "rt" in figures["rt"].get("locked", {}):
        named["locked_rt"] = figures["rt"]["locked"]["rt"]
    return named


def metric_names(plan: Plan) -> list[str]:
    """Every metric that a run of ``plan`` may have, to refuse a misspelt one before it starts."""
    attacks = [f"asr_{attack}" for attack in plan.attacks]
    genuine = ["tpr", "tpr_distorted", "bit_accuracy_distorted", "psnr", "ssim"]
    genuine += [f"tpr_{name}" for name in plan.distortions]
    behind = {str(defense) for defense in plan.defenses}
    arms = [prefix for prefix, defense in ARMS.items() if defense in behind]
    names = [
        f"{prefix}{name}" for prefix in arms for name in ("asr", "asr_high", *attacks, *genuine)
    ]
    names += ["rt", *(f"rt@{count}" for count in plan.preset.rt_sources), "locked_rt"]
    return [*names, *(f"rt_{side}px" for side in SIDES)]


def findings(figures: dict[str, Any], rule: Rule = DEFAULT_RULE) -> Findings:
    """The verdict in one paragraph: forgeable or not, by what, at what cost, what the lock does."""
    unlocked = _attacks(figures["security"].get("none", {}))
    successes = {name: cell for name, cell in unlocked.items() if cell["asr"][rule]["successes"]}
    level: Level = "resisted" if unlocked else "unmeasured"
    if any(not is_oracle(name) for name in successes):
        level = "forgeable"
    elif successes:
        level = "transferable"
    sentences = [
        _attack_sentence(figures, unlocked, successes, rule),
        _omission_sentence(figures),
        _transfer_sentence(figures),
        _size_sentence(figures),
        _lock_sentence(figures, rule),
        _cost_sentence(figures, rule),
    ]
    return Findings(level, HEADLINES[level], tuple(filter(None, sentences)))


def is_oracle(setting: str) -> bool:
    """Whether an attack is given the unmarked originals, which a real attacker does not have."""
    from coverlock_sdk import OracleAttack

    factory = plugin_manager().get("attack", setting.partition(":")[0])
    return isinstance(factory, type) and issubclass(factory, OracleAttack)


def _attack_sentence(
    figures: dict[str, Any], tried: dict[str, Any], successes: dict[str, Any], rule: Rule
) -> str:
    name = figures["name"]
    if not tried:
        return f"No attack on '{name}' could be run."
    if not successes:
        limit = max(cell["asr"][rule]["high"] for cell in tried.values())
        count = sum(cell["asr"][rule]["trials"] for cell in tried.values())
        return (
            f"None of {count} forgeries of '{name}' by {len(tried)} attacks was accepted; the "
            f"smallest of these samples still allows a success rate of up to {100 * limit:.1f} %."
        )
    parts = [
        f"{attack_name(attack)} {cell['asr'][rule]['successes']} of {cell['asr'][rule]['trials']} "
        f"({'given the originals' if is_oracle(attack) else 'from released pictures'}, "
        f"{cell['psnr']:.0f} dB)"
        for attack, cell in sorted(
            successes.items(), key=lambda item: -item[1]["asr"][rule]["rate"]
        )
    ]
    return f"Forgeries of '{name}' that verify: {'; '.join(parts)}."


def _omission_sentence(figures: dict[str, Any]) -> str:
    """Which attacks the verdict says nothing about, and why."""
    attacks = figures["security"].get("none", {}).get("attacks", {})
    missing = {n: cell["not_measured"] for n, cell in attacks.items() if "not_measured" in cell}
    parts = [f"{attack_name(name)} ({reason})" for name, reason in missing.items()]
    return f"Not run: {'; '.join(parts)}." if parts else ""


def _transfer_sentence(figures: dict[str, Any]) -> str:
    return shown(
        _largest(figures["rt"]) or {},
        "RT@{sources} is {rt:.2f} (95 % interval {low:.2f} to {high:.2f}; 0 is chance, 1 a mark "
        "that ignores its picture).",
    )


def _size_sentence(figures: dict[str, Any]) -> str:
    """What a watermark of any size does at each, and where the photos were too small to tell."""
    parts = []
    for side, curve in figures["rt"].get("sizes", {}).items():
        found = shown(_largest(curve) or {}, "RT@{sources} {rt:.2f}")
        parts.append(f"{int(side):,} pixels {found or f'not measured ({_reason(curve)})'}")
    return f"By the size of pictures: {'; '.join(parts)}." if parts else ""


def _reason(curve: dict[str, Any]) -> str:
    return str(curve.get("not_measured", "there was no time"))


def _eight_bit(curve: dict[str, Any]) -> list[dict[str, Any]]:
    return [point for point in curve.get("points", ()) if point["eight_bit"]]


def _largest(curve: dict[str, Any]) -> dict[str, Any] | None:
    """The point with the most sources, of 8-bit pictures."""
    return max(_eight_bit(curve), key=lambda point: point["sources"], default=None)


def accepted(figures: dict[str, Any], defense: str, rule: Rule = DEFAULT_RULE) -> dict[str, Any]:
    """Forgeries accepted behind a defence, over all attacks; empty where none was measured."""
    cells = [cell["asr"][rule] for cell in _attacks(figures["security"].get(defense, {})).values()]
    if not cells:
        return {}
    return rate(sum(c["successes"] for c in cells), sum(c["trials"] for c in cells))


def _lock_sentence(figures: dict[str, Any], rule: Rule) -> str:
    pooled = accepted(figures, "coverlock", rule)
    if not pooled:
        return ""
    passed = f"{pooled['successes']} of {pooled['trials']} forgeries by the same attacks"
    interval = f"{100 * pooled['low']:.1f} to {100 * pooled['high']:.1f} %"
    return f"Behind CoverLock {passed} were accepted (95 % interval {interval})."


def _cost_sentence(figures: dict[str, Any], rule: Rule) -> str:
    named = metrics(figures, rule)
    if "locked_tpr" not in named or "tpr" not in named:
        return ""
    sentence = (
        f"Genuine pictures accepted: {100 * named['tpr']:.0f} % without the lock and "
        f"{100 * named['locked_tpr']:.0f} % with it"
    )
    if "tpr_distorted" in named and "locked_tpr_distorted" in named:
        sentence += (
            f"; averaged over six distortions {100 * named['tpr_distorted']:.0f} % and "
            f"{100 * named['locked_tpr_distorted']:.0f} %"
        )
    return sentence + "."


def _attacks(behind: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in behind.get("attacks", {}).items() if "asr" in cell}
