"""How a hash is trained from a folder of photos: the paper's recipe, and that of ``nano``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coverlock_sdk.hashing.network import Backbone, HashNetwork, NanoBackbone
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.training.hashes.features import (
    CachedFeatures,
    codes_of_network,
    evaluation_features,
    logits_of,
)
from coverlock_sdk.training.hashes.figures import figures_of
from coverlock_sdk.training.hashes.losses import Objective
from coverlock_sdk.training.hashes.trainer import Hasher, train
from coverlock_sdk.training.hashes.views import (
    ComposedViews,
    Composition,
    FreshViews,
    Pairs,
    evaluation_views,
)
from coverlock_sdk.training.loop import Figures, Schedule, require_device
from coverlock_sdk.training.photos import names_digest, split
from coverlock_sdk.training.results import write_results

StageReport = Callable[[str, int, Figures], None]
"""Told the stage, the step, and what was measured there."""


PAPER_OBJECTIVE = Objective()
PAPER_SCHEDULE = Schedule()

NANO_COMPOSITION = Composition()
NANO_OBJECTIVE = Objective(sign=1.0, independence=160, decorrelation=4, resemblance=4)
NANO_BODY = Schedule(
    steps=1400,
    batch=128,
    rate=1e-3,
    weight_decay=0.05,
    warmup=50,
    decay=1000,
    averaging=0.98,
    record_every=100,
)
NANO_HEAD_COMPOSITION = Composition(crop=0.6, brightness=0.35, contrast=0.35, noise=0.3)
NANO_HEAD_OBJECTIVE = Objective(sign=1.0, independence=160, decorrelation=4, resemblance=40)
NANO_HEAD = Schedule(
    steps=600,
    batch=512,
    rate=5e-4,
    weight_decay=0.05,
    warmup=20,
    decay=400,
    averaging=0.98,
    record_every=100,
)


@dataclass(frozen=True)
class HeadRecipe:
    """A head on a frozen backbone; the defaults are the paper's."""

    held_out: float = 0.2
    composition: Composition | None = None
    """How views are composed, as ``nano`` has them; None: the paper's one distortion per view."""
    objective: Objective = PAPER_OBJECTIVE
    schedule: Schedule = PAPER_SCHEDULE
    views: int = 0
    """Distorted views per picture whose features are cached; 0 draws each one afresh."""


@dataclass(frozen=True)
class NanoRecipe:
    """The recipe of ``nano``: the network end to end on one window, then its head on all."""

    held_out: float = 0.1
    composition: Composition = NANO_COMPOSITION
    objective: Objective = NANO_OBJECTIVE
    body: Schedule = NANO_BODY
    head_composition: Composition = NANO_HEAD_COMPOSITION
    head_objective: Objective = NANO_HEAD_OBJECTIVE
    head: Schedule = NANO_HEAD
    views: int = 2
    """Distorted views per picture whose features the head learns from; 0 draws each one afresh."""


def train_head(
    backbone: Backbone,
    photos: Path,
    run: Path,
    recipe: HeadRecipe | None = None,
    report: StageReport | None = None,
    cache: Path | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> HashNetwork:
    """Train a head on a frozen ``backbone``; ``run`` keeps checkpoints and curves.

    ``cache`` is where pictures and features are kept: inside ``run``, unless runs share it.
    """
    recipe, cache, place = recipe or HeadRecipe(), cache or run / "cache", require_device(device)
    training, validation = split(photos, recipe.held_out)
    backbone.requires_grad_(False)
    torch.manual_seed(recipe.schedule.seed)
    network = HashNetwork(backbone).to(place)
    _learn_head(network, recipe, training, validation, run, cache, report, bfloat16)
    finish(network, network.head, recipe, validation, run, cache, bfloat16)
    return network


def train_nano(
    photos: Path,
    run: Path,
    recipe: NanoRecipe | None = None,
    report: StageReport | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> HashNetwork:
    """Train ``nano`` on a folder of photos; ``run`` keeps caches, checkpoints and curves.

    First the network learns end to end from one window of each picture at a time, which is what
    costs; then it is frozen and the head goes on learning from the features of all windows.
    """
    recipe, cache, place = recipe or NanoRecipe(), run / "cache", require_device(device)
    training, validation = split(photos, recipe.held_out)
    torch.manual_seed(recipe.body.seed)
    through_one = NanoBackbone(size=64, zooms=[1.0])
    through_all = NanoBackbone()
    single = HashNetwork(through_one).to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    views = evaluation_views(validation, 64, cache)
    zooms, seed = through_all.zooms, recipe.body.seed
    trained = train(
        single,
        ComposedViews(training, 64, cache, recipe.composition, zooms=zooms, seed=seed),
        recipe.objective,
        recipe.body,
        run / "body",
        validate=lambda model: figures_of(codes_of_network(model, views)),
        report=partial(report, "body") if report else None,
        bfloat16=bfloat16,
    )
    network = HashNetwork(through_all).to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.load_state_dict(trained.state_dict())
    head = HeadRecipe(
        recipe.held_out, recipe.head_composition, recipe.head_objective, recipe.head, recipe.views
    )
    _learn_head(network, head, training, validation, run, cache, report, bfloat16)
    finish(network, network, recipe, validation, run, cache, bfloat16)
    return network


def _learn_head(
    network: HashNetwork,
    recipe: HeadRecipe,
    training: list[Path],
    validation: list[Path],
    run: Path,
    cache: Path,
    report: StageReport | None,
    bfloat16: bool,
) -> None:
    """Train the head of ``network`` on views of ``training``, its backbone being frozen."""
    backbone, seed = network.backbone, recipe.schedule.seed
    data: Pairs = FreshViews(training, backbone.size)
    if recipe.composition:
        data = ComposedViews(training, backbone.size, cache, recipe.composition, seed=seed)
    frozen: Backbone | None = backbone
    if recipe.views:
        key = f"{names_digest(training)}, {recipe.composition or 'one distortion per view'}"
        data = CachedFeatures(backbone, data, recipe.views, cache, key=key, seed=seed)
        frozen = None
    pooled = evaluation_features(backbone, validation, cache)
    head = train(
        network.head,
        data,
        recipe.objective,
        recipe.schedule,
        run / "head",
        frozen=frozen,
        validate=lambda model: figures_of(codes_of_network(model, pooled)),
        report=partial(report, "head") if report else None,
        bfloat16=bfloat16,
    )
    network.head.load_state_dict(head.state_dict())


def finish(
    network: HashNetwork,
    part: Hasher,
    recipe: Any,
    validation: list[Path],
    run: Path,
    cache: Path,
    bfloat16: bool,
    judge: Callable[[HashNetwork], Figures] | None = None,
    own: tuple[str, ...] = ("",),
) -> None:
    """Round ``part`` of ``network`` to half precision and write it with its card and curves.

    Figures and calibration are those of the rounded weights on the held-out pictures; a recipe
    that looks at more than photos brings its own ``judge``. Only weights whose names begin with
    one of ``own`` are written.
    """
    stored = {
        name: value.half() if value.ndim > 1 else value
        for name, value in part.state_dict().items()
        if value.is_floating_point()
    }
    part.load_state_dict({name: value.float() for name, value in stored.items()}, strict=False)
    network.eval()
    if judge:
        held_out = judge(network)
    else:
        pooled = evaluation_features(network.backbone, validation, cache)
        held_out = figures_of(codes_of_network(network.head, pooled))
    card = {
        "network": network.backbone.settings,
        "recipe": asdict(recipe),
        "bfloat16": bfloat16,
        "held_out_pictures": len(validation),
        "calibration": asdict(_calibrate(network, validation)),
        "held_out": held_out,
    }
    histories = sorted(run.glob("*/history.json"))
    written = {name: value for name, value in stored.items() if name.startswith(own)}
    write_results(run / "hash.safetensors", written, card, histories=histories)


def _calibrate(network: HashNetwork, paths: list[Path], seed: int = 0) -> Calibration:
    """How far logits can be trusted after one distortion of the paper's training distribution."""
    data, logits, bits = FreshViews(paths, network.backbone.size), [], []
    for start in range(0, len(paths), 64):
        rows = np.arange(start, min(start + 64, len(paths)))
        clean, distorted = data.pairs(rows, np.random.default_rng([seed, start]))
        bits.append(logits_of(network, clean) > 0)
        logits.append(logits_of(network, distorted))
    return Calibration.fit(np.concatenate(logits), np.concatenate(bits))
