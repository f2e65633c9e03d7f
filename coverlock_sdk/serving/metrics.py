"""What the service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """One registry a service, so that several of them can live in a process."""

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
            "coverlock_in_flight", "Pictures being verified or waiting.", registry=self.registry
        )

    def text(self) -> bytes:
        """All of it in Prometheus's format."""
        return generate_latest(self.registry)
