"""The suite that ``coverlock bench latency`` runs; the cases come from its plugin."""

from __future__ import annotations

from typing import Any

from coverlock_bench.deployment.latency.cases import Case


def test_latency(benchmark: Any, case: Case, turn: int, rounds: int) -> None:
    """Time one case, once in every turn."""
    benchmark.group = f"{case.subject} {case.stage} b{case.batch}"
    benchmark.extra_info.update(
        subject=case.subject,
        stage=case.stage,
        runtime=case.runtime,
        precision=case.precision,
        batch=case.batch,
        turn=turn,
        **case.info,
    )
    benchmark.pedantic(case.work, rounds=rounds, warmup_rounds=1 if turn == 0 else 0)
