"""What the service counts, for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder where processes keep what they count together; set before this is imported."""


class Metrics:
    """One registry a service, so that several of them can live in a process.

    The processes of a service with several count together.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "coverlock_answers",
            "Answers by outcome (accepted, rejected, or the status of an error) and caller.",
            ["outcome", "caller"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "coverlock_verify_seconds",
            "Time from the whole picture received to the verdict.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "coverlock_in_flight",
            "Pictures being verified or waiting.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )

    def text(self) -> bytes:
        """All of it in Prometheus's format."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def forget_process(process: int) -> None:
    """What a process that is gone had in flight is not in flight any more."""
    multiprocess.mark_process_dead(process)  # type: ignore[no-untyped-call]
