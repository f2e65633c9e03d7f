"""The stages of an audit in their order, so that its progress can tell how long the rest takes."""

from __future__ import annotations

from coverlock_bench.attacks.reembedding import AGAINST_LOCKS
from coverlock_bench.auditing.assessment import SIDES, Plan
from coverlock_bench.auditing.trials import GENUINE, trials_label
from coverlock_bench.settings import LOCK, Setting
from coverlock_sdk import Watermark


def audit_stages(watermark: Watermark, plan: Plan, hurried: bool) -> list[str]:
    """What ``Session.steps`` will be called with; ``hurried`` runs measure a part first.

    Stages that turn out to be impossible are passed over.
    """
    sizes = 1 if watermark.native_size is not None else 1 + len(SIDES)
    name = watermark.name
    return [
        *(_security(watermark, plan) if hurried else ()),
        *[f"RT of {name}"] * sizes,
        "RT@1 through the lock",
        f"{name}: signatures",
        *_security(watermark, plan),
        f"{name}: pictures",
    ]


def _security(watermark: Watermark, plan: Plan) -> list[str]:
    variants = [Setting.parse(text) for text in plan.preset.variants]
    stages = []
    for defense in (*plan.defenses, *variants):
        attacks = [str(a) for a in plan.attacks]
        if defense.name != LOCK:
            attacks = [str(a) for a in plan.attacks if a.name not in AGAINST_LOCKS]
        if defense in variants:
            attacks = [a for a in attacks if a == "gt"]
        label = trials_label(watermark, defense)
        for _ in plan.preset.seeds:
            stages += [f"{label}: {GENUINE}", *(f"{label}: {attack}" for attack in attacks)]
    return stages
