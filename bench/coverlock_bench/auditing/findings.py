"""What the figures of an audit come to: metrics to gate on, and a verdict to forward."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from coverlock_bench.auditing.assessment import SIDES, Plan
from coverlock_bench.auditing.security_tables import attack_name, under_distortion
from coverlock_bench.intervals import rate
from coverlock_bench.settings import DEFAULT_RULE, KEYLESS, LOCK
from coverlock_bench.tables import shown
from coverlock_bench.trial import CLEAN
from coverlock_sdk.locking.verdict import Rule
from coverlock_sdk.plugin_manager import plugin_manager

Level = Literal["forgeable", "transferable", "copied", "resisted", "unmeasured"]
Given = Literal["released", "originals", "decoder", "encoder"]
"""What an attacker has beside released pictures; "released": nothing."""

ARMS = {"": "none", "locked_": LOCK, "keyless_": KEYLESS}
"""Prefix of a metric's name, and the defence it is about."""

NETWORKS: dict[Given, str] = {
    "decoder": "your decoder",
    "encoder": "your encoder and decoder",
}
WHERE = {"none": "as it is", LOCK: "behind CoverLock", KEYLESS: "behind CoverLock without a key"}

HEADLINES: dict[Level, str] = {
    "forgeable": "Forgeable: released pictures are enough to make others verify",
    "transferable": "Transferable: the true residual passes elsewhere; no attack here lifted it",
    "copied": "Not forged from released pictures; whoever has your networks copies the mark",
    "resisted": "Not forged by any attack that was tried",
    "unmeasured": "Not known: no attack on the unprotected watermark was run",
}


KINDS: dict[str, tuple[Given, ...]] = {
    "asr": ("released", "originals"),
    "asr_given_decoder": ("decoder",),
    "asr_given_encoder": ("encoder",),
}
"""The success rate of each kind of attacker, by the name of its metric."""


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
        for kind, attackers in KINDS.items():
            tried = [r for name, r in rates.items() if given(name) in attackers]
            if tried:
                named[f"{prefix}{kind}"] = max(r["rate"] for r in tried)
                named[f"{prefix}{kind}_high"] = max(r["high"] for r in tried)
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
    kinds = [f"{kind}{end}" for kind in KINDS for end in ("", "_high")]
    names = [f"{prefix}{name}" for prefix in arms for name in (*kinds, *attacks, *genuine)]
    names += ["rt", *(f"rt@{count}" for count in plan.preset.rt_sources), "locked_rt"]
    return [*names, *(f"rt_{side}px" for side in SIDES)]


def findings(figures: dict[str, Any], rule: Rule = DEFAULT_RULE) -> Findings:
    """The verdict in one paragraph: forgeable or not, by what, at what cost, what the lock does."""
    unlocked = _attacks(figures["security"].get("none", {}))
    successes = {name: cell for name, cell in unlocked.items() if cell["asr"][rule]["successes"]}
    winners = {given(name) for name in successes}
    level: Level = "resisted" if unlocked else "unmeasured"
    if "released" in winners:
        level = "forgeable"
    elif "originals" in winners:
        level = "transferable"
    elif winners:
        level = "copied"
    sentences = [
        _attack_sentence(figures, _without_networks(unlocked), _without_networks(successes), rule),
        *(_network_sentence(figures, kind, rule) for kind in NETWORKS),
        _omission_sentence(figures),
        _transfer_sentence(figures),
        _size_sentence(figures),
        _lock_sentence(figures, rule),
        _cost_sentence(figures, rule),
    ]
    deciding = unlocked if level == "copied" else _without_networks(unlocked)
    tried = sum(cell["asr"][rule]["trials"] for cell in deciding.values())
    headline = HEADLINES[level] + (f" (n = {tried} forgeries)" if tried else "")
    return Findings(level, headline, tuple(filter(None, sentences)))


def given(setting: str) -> Given:
    """What an attack has beside released pictures; real attackers never have the originals."""
    from coverlock_sdk import NetworkAttack, OracleAttack

    factory = plugin_manager().get("attack", setting.partition(":")[0])
    if not isinstance(factory, type):
        return "released"
    if issubclass(factory, NetworkAttack):
        return factory.given
    return "originals" if issubclass(factory, OracleAttack) else "released"


def _without_networks(attacks: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in attacks.items() if given(name) not in NETWORKS}


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
        f"({'given the originals' if given(attack) == 'originals' else 'from released pictures'}, "
        f"{cell['psnr']:.0f} dB)"
        for attack, cell in sorted(
            successes.items(), key=lambda item: -item[1]["asr"][rule]["rate"]
        )
    ]
    return f"Forgeries of '{name}' that verify: {'; '.join(parts)}."


def _network_sentence(figures: dict[str, Any], kind: Given, rule: Rule) -> str:
    """What an attacker who runs the vendor's networks gets: as it is, locked, and without a key."""
    found: dict[str, list[str]] = {}
    for defense, where in WHERE.items():
        for name, cell in _attacks(figures["security"].get(defense, {})).items():
            if given(name) == kind:
                counted = f"{cell['asr'][rule]['successes']} of {cell['asr'][rule]['trials']}"
                found.setdefault(name, []).append(f"{counted} {where}")
    parts = [f"{attack_name(name)} forges {', '.join(counts)}" for name, counts in found.items()]
    return f"Given {NETWORKS[kind]}, {'; '.join(parts)}." if parts else ""


def _omission_sentence(figures: dict[str, Any]) -> str:
    """Which attacks the verdict says nothing about, and why."""
    attacks = figures["security"].get("none", {}).get("attacks", {})
    missing = {n: cell["not_measured"] for n, cell in attacks.items() if "not_measured" in cell}
    parts = [f"{attack_name(name)} ({reason})" for name, reason in missing.items()]
    return f"Not run: {'; '.join(parts)}." if parts else ""


def _transfer_sentence(figures: dict[str, Any]) -> str:
    return shown(
        _largest(figures["rt"]) or {},
        "RT@{sources} is {rt:.2f} (95 % interval {low:.2f} to {high:.2f}, n = {targets} targets; "
        "0 is chance, 1 a mark that ignores its picture).",
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
    """Forgeries accepted without the networks, over all attacks; empty where none was measured."""
    attacks = _without_networks(_attacks(figures["security"].get(defense, {})))
    cells = [cell["asr"][rule] for cell in attacks.values()]
    if not cells:
        return {}
    return rate(sum(c["successes"] for c in cells), sum(c["trials"] for c in cells))


def _lock_sentence(figures: dict[str, Any], rule: Rule) -> str:
    pooled = accepted(figures, LOCK, rule)
    if not pooled:
        return ""
    passed = f"{pooled['successes']} of {pooled['trials']} forgeries by the same attacks"
    interval = f"{100 * pooled['low']:.1f} to {100 * pooled['high']:.1f} %"
    return (
        f"Behind CoverLock, with a key made for this run, {passed} were accepted "
        f"(95 % interval {interval})."
    )


def _cost_sentence(figures: dict[str, Any], rule: Rule) -> str:
    named = metrics(figures, rule)
    if "locked_tpr" not in named or "tpr" not in named:
        return ""
    clean = figures["security"][LOCK]["genuine"][CLEAN]["tpr"][rule]
    sentence = (
        f"Genuine pictures accepted (n = {clean['trials']}): {100 * named['tpr']:.0f} % without "
        f"the lock and {100 * named['locked_tpr']:.0f} % with it"
    )
    if "tpr_distorted" in named and "locked_tpr_distorted" in named:
        sentence += (
            f"; averaged over six distortions {100 * named['tpr_distorted']:.0f} % and "
            f"{100 * named['locked_tpr_distorted']:.0f} %"
        )
    return sentence + "."


def _attacks(behind: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in behind.get("attacks", {}).items() if "asr" in cell}
