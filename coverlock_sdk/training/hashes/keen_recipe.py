"""How ``keen`` is trained: on photos and drawn pictures, against look-alikes and forgers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from coverlock_sdk.hashing.keen_network import KeenBackbone
from coverlock_sdk.hashing.network import HashNetwork
from coverlock_sdk.training.hashes.adversary import Adversary
from coverlock_sdk.training.hashes.curriculum import Curriculum
from coverlock_sdk.training.hashes.head_stage import HeadStage, learn_head
from coverlock_sdk.training.hashes.losses import Objective
from coverlock_sdk.training.hashes.recipes import StageReport, finish
from coverlock_sdk.training.hashes.trainer import train
from coverlock_sdk.training.hashes.views import Composition
from coverlock_sdk.training.loop import Schedule, require_device

COMPOSITION = Composition(
    crop=0.8,
    area=(0.5, 0.95),
    centred=0.6,
    brightness_factor=(0.65, 1.45),
    contrast_factor=(0.65, 1.45),
    rotation=0.2,
    colour=0.2,
)
OBJECTIVE = Objective(
    sign=3.0, independence=160, decorrelation=4, resemblance=4, likeness=4, contrast_codes=True
)
DRAWN = 0.5
"""The share of drawn pictures in a batch."""
ADVERSARY = Adversary(share=0.22, among=1 - DRAWN, steps=2, psnr=(29.0, 39.0))
BODY = Schedule(
    steps=2500,
    batch=128,
    rate=1e-3,
    weight_decay=0.05,
    warmup=50,
    decay=1500,
    averaging=0.98,
    record_every=250,
)
HEAD = HeadStage(
    drawn=DRAWN,
    composition=replace(COMPOSITION, area=(0.65, 0.95)),
    objective=replace(OBJECTIVE, resemblance=40),
    schedule=Schedule(
        steps=300,
        batch=512,
        rate=3e-4,
        weight_decay=0.05,
        warmup=20,
        decay=200,
        averaging=0.98,
        record_every=150,
    ),
)


@dataclass(frozen=True)
class KeenRecipe:
    """The network on one window at a time, against an adversary, then its head on all windows."""

    held_out: float = 0.1
    templates: int = 30
    """Templates of each design that training pictures are drawn from."""
    drawn: float = DRAWN
    composition: Composition = COMPOSITION
    objective: Objective = OBJECTIVE
    adversary: Adversary = ADVERSARY
    body: Schedule = BODY
    head: HeadStage = HEAD


def train_keen(
    photos: Path,
    run: Path,
    recipe: KeenRecipe | None = None,
    report: StageReport | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> HashNetwork:
    """Train ``keen`` on a folder of photos; ``run`` keeps caches, checkpoints and curves.

    The network learns from one window of each picture at a time, while an adversary attacks some
    views; then it is frozen and the head goes on learning from all windows in larger batches. A
    share of each batch are drawn pictures in groups of one template.
    """
    recipe, cache, place = recipe or KeenRecipe(), run / "cache", require_device(device)
    torch.manual_seed(recipe.body.seed)
    through_all = KeenBackbone()
    size, side = through_all.size, through_all.side
    lessons = Curriculum.prepare(photos, recipe.held_out, recipe.templates, cache, size)
    body = train(
        _placed(HashNetwork(KeenBackbone(size=side, zooms=[1.0])), place),
        lessons.views(side, recipe.composition, zooms=through_all.zooms),
        recipe.objective,
        recipe.body,
        run / "body",
        validate=partial(lessons.watch, side),
        report=partial(report, "body") if report else None,
        bfloat16=bfloat16,
        sampler=replace(lessons.sampler, share=recipe.drawn),
        adversary=recipe.adversary,
    )
    network = _placed(HashNetwork(through_all), place)
    network.load_state_dict(body.state_dict())
    learn_head(network, recipe.head, lessons, run / "head", report, bfloat16)
    finish(network, network, recipe, lessons.photos, run, cache, bfloat16, lessons.judge)
    return network


def _placed(network: HashNetwork, place: torch.device) -> HashNetwork:
    placed: HashNetwork = network.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
