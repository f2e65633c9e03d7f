"""CoverLock's bench: attacks, security and latency suites, reports, and the demo.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from coverlock_sdk.hookspecs import hookimpl


@hookimpl
def register_attacks(register: Callable[..., None]) -> None:
    """The forgers that a watermark is measured against."""
    from coverlock_bench.attacks.ground_truth import GroundTruthResidual

    register(GroundTruthResidual)


@hookimpl
def register_hashes(register: Callable[..., None]) -> None:
    """Perceptual hashes in wide use, as baselines."""
    from coverlock_bench.baseline_hashes import Pdq, PHash

    register(PHash)
    register(Pdq)


@hookimpl
def register_assets(register: Callable[..., None]) -> None:
    """Photographs for the demo, and pretrained backbones to compare hashes with."""
    from coverlock_bench.backbone_assets import AUGNET, EFFICIENTNET
    from coverlock_bench.photos import DEMO_PHOTOS

    for asset in (DEMO_PHOTOS, AUGNET, EFFICIENTNET):
        register(asset)


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock demo`` and ``coverlock bench ...``."""
    from coverlock_bench.commands import bench
    from coverlock_bench.demo import demo
    from coverlock_bench.latency.command import latency
    from coverlock_bench.scaling import scaling
    from coverlock_bench.service_command import service

    for command in (latency, scaling, service):
        bench.add_command(command)
    cli.add_command(demo)
    cli.add_command(bench)
