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
BODY = Schedule(
    steps=1100,
    batch=128,
    rate=1e-3,
    weight_decay=0.05,
    warmup=50,
    decay=400,
    averaging=0.98,
    record_every=100,
)
WHOLE_COMPOSITION = replace(COMPOSITION, area=(0.65, 0.95))
WHOLE_ZOOMS = (1.0, 0.59, 0.35)
"""Every other window, which costs little more than half of what all of them do."""
ADVERSARY = Adversary(share=0.25, among=1 - DRAWN, steps=2)
WHOLE = Schedule(
    steps=400,
    batch=64,
    rate=6e-4,
    weight_decay=0.05,
    warmup=20,
    decay=220,
    averaging=0.98,
    record_every=100,
)
HEAD = HeadStage(
    drawn=DRAWN,
    composition=WHOLE_COMPOSITION,
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
    """The network on one window, then on three against an adversary, then its head on all five."""

    held_out: float = 0.1
    templates: int = 30
    """Templates of each design that training pictures are drawn from."""
    drawn: float = DRAWN
    composition: Composition = COMPOSITION
    objective: Objective = OBJECTIVE
    body: Schedule = BODY
    whole_composition: Composition = WHOLE_COMPOSITION
    adversary: Adversary = ADVERSARY
    whole: Schedule = WHOLE
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

    The network learns from one window of each picture at a time, then from three together while
    an adversary attacks some photos; then it is frozen and the head goes on learning from all
    windows in larger batches. A share of each batch are drawn pictures in groups of one template.
    """
    recipe, cache, place = recipe or KeenRecipe(), run / "cache", require_device(device)
    torch.manual_seed(recipe.body.seed)
    through_all = KeenBackbone()
    size, side = through_all.size, through_all.side
    lessons = Curriculum.prepare(photos, recipe.held_out, recipe.templates, cache, size)
    sampler = replace(lessons.sampler, share=recipe.drawn)
    body = train(
        _placed(HashNetwork(KeenBackbone(size=side, zooms=[1.0])), place),
        lessons.views(side, recipe.composition, zooms=through_all.zooms),
        recipe.objective,
        recipe.body,
        run / "body",
        validate=partial(lessons.watch, side),
        report=partial(report, "body") if report else None,
        bfloat16=bfloat16,
        sampler=sampler,
    )
    through_some = _placed(HashNetwork(KeenBackbone(zooms=WHOLE_ZOOMS)), place)
    through_some.load_state_dict(body.state_dict())
    whole = train(
        through_some,
        lessons.views(size, recipe.whole_composition),
        recipe.objective,
        recipe.whole,
        run / "whole",
        validate=partial(lessons.watch, size),
        report=partial(report, "whole") if report else None,
        bfloat16=bfloat16,
        sampler=sampler,
        adversary=recipe.adversary,
    )
    network = _placed(HashNetwork(through_all), place)
    network.load_state_dict(whole.state_dict())
    learn_head(network, recipe.head, lessons, run / "head", report, bfloat16)
    finish(network, network, recipe, lessons.photos, run, cache, bfloat16, lessons.judge)
    return network


def _placed(network: HashNetwork, place: torch.device) -> HashNetwork:
    placed: HashNetwork = network.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return placed
