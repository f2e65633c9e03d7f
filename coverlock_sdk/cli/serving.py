"""A service as ``coverlock serve`` runs it: in this process, or in several."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from coverlock_sdk.cli.deployment import DeploymentOptions
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.deployment import Deployment
from coverlock_sdk.serving.ledger import Ledger
from coverlock_sdk.serving.tls import Certificate

SHARED_METRICS = "PROMETHEUS_MULTIPROC_DIR"
"""Where processes count together; the library of that name looks for it when it is imported."""


@dataclass(frozen=True)
class ServicePlan:
    """All that a process needs to know, as plain values that can be sent to it."""

    options: DeploymentOptions
    limits: Limits
    certificate: Certificate | None
    log_format: str | None

    def run(self, sockets: list[socket.socket], deployment: Deployment) -> None:
        """Serve in this process."""
        self._serve(sockets, deployment, None)

    def run_several(
        self, sockets: list[socket.socket], deployment: Deployment, workers: int
    ) -> None:
        """Serve in processes that share their limits; ``deployment`` showed that they can."""
        deployment.close()
        with tempfile.TemporaryDirectory(prefix="coverlock-serve-") as folder:
            os.environ[SHARED_METRICS] = folder
            from coverlock_sdk.serving.metrics import forget_process
            from coverlock_sdk.serving.workers import Workers

            ledger = Ledger(Path(folder) / "limits.sqlite", workers)

            def died(process: int) -> None:
                ledger.forget(process)
                forget_process(process)

            Workers(functools.partial(self.work, ledger=ledger), sockets, died).run(workers)

    def work(self, sockets: list[socket.socket], ledger: Ledger) -> None:
        """Serve in one process of several."""
        self._serve(sockets, self.options.open(), ledger)

    def _serve(
        self, sockets: list[socket.socket], deployment: Deployment, ledger: Ledger | None
    ) -> None:
        from coverlock_sdk.serving.request_log import show_requests
        from coverlock_sdk.serving.server import run
        from coverlock_sdk.serving.service import Service

        if self.log_format:
            show_requests(self.log_format)
        service = Service(deployment, self.limits, self._reopen, ledger)
        run(service, sockets, self.certificate)

    def _reopen(self) -> Deployment:
        deployment = self.options.open()
        click.echo("reloaded", err=True)
        return deployment
