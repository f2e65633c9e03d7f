"""CoverLock's bench: attacks, security and latency suites, reports, and the demo.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from coverlock_sdk.hookspecs import hookimpl

if TYPE_CHECKING:
    from coverlock_sdk import Watermark


@hookimpl
def register_attacks(register: Callable[..., None]) -> None:
    """The forgers that a watermark is measured against."""
    from coverlock_bench.attacks.averaging import AveragedResidual, PairedAveragedResidual
    from coverlock_bench.attacks.best_match import BestMatch
    from coverlock_bench.attacks.denoise import DenoisedResidual
    from coverlock_bench.attacks.feature_collision import FeatureCollision
    from coverlock_bench.attacks.ground_truth import GroundTruthResidual
    from coverlock_bench.attacks.optimisation import Optimisation
    from coverlock_bench.attacks.reembedding import ReEmbedding, ReLocking
    from coverlock_bench.attacks.same_scene import PastedObject
    from coverlock_bench.attacks.wmforger import PreferenceResidual

    register(GroundTruthResidual)
    register(AveragedResidual)
    register(PairedAveragedResidual)
    register(DenoisedResidual)
    register(PreferenceResidual)
    register(BestMatch)
    register(FeatureCollision)
    register(PastedObject)
    register(ReEmbedding)
    register(ReLocking)
    register(Optimisation)


@hookimpl
def register_watermarks(register: Callable[..., None]) -> None:
    """Models of OmniSeal Bench, by their names there."""
    register(_omniseal, "omniseal")


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
    from coverlock_bench.preference.command import train_preference_command

    cli.add_command(audit)
    cli.add_command(demo)
    cli.add_command(bench)
    for study in _experiments():
        study.register_commands(bench)
    train = cli.commands["train"]
    assert isinstance(train, click.Group)
    train.add_command(train_preference_command)


def _omniseal(model: str | None = None) -> Watermark:
    from coverlock_bench.bridges.omniseal import OmnisealWatermark

    return OmnisealWatermark(model)


def _import_wmforger(file: Path) -> Path:
    from coverlock_bench.preference.weights import import_official

    return import_official(file)


def _experiments() -> list[ModuleType]:
    """Our own studies: they lie beside this package in a checkout, and are in no wheel."""
    folder = Path(__file__).parents[2] / "bench" / "experiments"
    if not folder.is_dir():
        return []
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    return [import_module("experiments")]
