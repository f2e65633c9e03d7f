"""CoverLock's bench: attacks, the audit, security and latency suites, and the demo.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from coverlock_sdk import hookimpl


@hookimpl
def register_attacks(register: Callable[..., None]) -> None:
    """The attacks that watermarks are measured against."""
    from coverlock_bench.attacks.averaging import AveragedResidual
    from coverlock_bench.attacks.denoise import DenoisedResidual
    from coverlock_bench.attacks.ground_truth import GroundTruthResidual
    from coverlock_bench.attacks.optimisation import Optimisation
    from coverlock_bench.attacks.reembedding import ReEmbedding, ReLocking
    from coverlock_bench.attacks.wmforger import PreferenceResidual

    register(GroundTruthResidual)
    register(AveragedResidual)
    register(DenoisedResidual)
    register(PreferenceResidual)
    register(ReEmbedding)
    register(ReLocking)
    register(Optimisation)


@hookimpl
def register_importers(register: Callable[..., None]) -> None:
    """The published preference model of WMForger."""
    register(_import_wmforger, "wmforger")


@hookimpl
def register_hashes(register: Callable[..., None]) -> None:
    """Perceptual hashes in wide use, as baselines."""
    from coverlock_bench.hashes.baseline_hashes import Pdq, PHash

    register(PHash)
    register(Pdq)


@hookimpl
def register_assets(register: Callable[..., None]) -> None:
    """Photographs for the demo."""
    from coverlock_bench.photos import DEMO_PHOTOS

    register(DEMO_PHOTOS)


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock audit``, ``coverlock demo`` and ``coverlock bench ...``."""
    from coverlock_bench.auditing.audit import audit
    from coverlock_bench.commands import bench
    from coverlock_bench.demo import demo

    cli.add_command(audit)
    cli.add_command(demo)
    cli.add_command(bench)


def _import_wmforger(file: Path) -> Path:
    from coverlock_bench.preference.weights import import_official

    return import_official(file)
