"""The table of ``coverlock bench adaptive``."""

from __future__ import annotations

from coverlock_bench.tables import RATE, Table, below, nested
from coverlock_sdk.locking.verdict import RULES

ADAPTIVE = Table(
    "Forgeries that pass, by adaptive attacker and budget",
    nested("attack", "budget"),
    (
        ("attack", "{attack}"),
        ("budget", "{budget}"),
        *((f"accepted, {rule}", below(rule, RATE)) for rule in RULES),
        ("PSNR", "{psnr:.1f} dB"),
    ),
)
