"""Our recipe for a head on a frozen backbone, such as DINOv2: it learns from what ``keen`` does.

The paper's recipe (``recipes.train_head``) shows a head photos and one distortion at a time. This
one shows it the pictures of ``keen`` in groups of one template, first by features that are kept,
then afresh through the backbone while an adversary attacks some of the views.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from coverlock_sdk.hashing.network import Backbone, HashNetwork
from coverlock_sdk.training.hashes.curriculum import Curriculum
from coverlock_sdk.training.hashes.head_stage import HeadStage, learn_head
from coverlock_sdk.training.hashes.keen_recipe import ADVERSARY, COMPOSITION, DRAWN, OBJECTIVE
from coverlock_sdk.training.hashes.recipes import StageReport, finish
from coverlock_sdk.training.loop import Schedule, require_device

HEAD = HeadStage(
    drawn=DRAWN,
    composition=COMPOSITION,
    objective=OBJECTIVE,
    schedule=Schedule(
        steps=20_000,
        batch=512,
        rate=5e-4,
        weight_decay=0.05,
        warmup=100,
        decay=10_000,
        averaging=0.99,
        record_every=1000,
    ),
    views=4,
)
ATTACKED = replace(
    HEAD,
    schedule=Schedule(
        steps=2000,
        batch=64,
        rate=2e-4,
        weight_decay=0.05,
        warmup=50,
        decay=1000,
        averaging=0.98,
        record_every=200,
    ),
    views=0,
    adversary=ADVERSARY,
)


@dataclass(frozen=True)
class FrozenRecipe:
    """A head on kept features, then against an adversary."""

    held_out: float = 0.1
    templates: int = 30
    """Templates of each design that training pictures are drawn from."""
    head: HeadStage = HEAD
    attacked: HeadStage = ATTACKED


def train_frozen(
    backbone: Backbone,
    photos: Path,
    run: Path,
    recipe: FrozenRecipe | None = None,
    report: StageReport | None = None,
    bfloat16: bool = False,
    device: str = "cpu",
) -> HashNetwork:
    """Train a head on ``backbone``; ``run`` keeps caches, checkpoints and curves.

    An interrupted run goes on where it was: drawn pictures, cached features and the step of each
    stage are kept.
    """
    recipe, cache, place = recipe or FrozenRecipe(), run / "cache", require_device(device)
    backbone.requires_grad_(False)
    torch.manual_seed(recipe.head.schedule.seed)
    network = HashNetwork(backbone).to(place)
    lessons = Curriculum.prepare(photos, recipe.held_out, recipe.templates, cache, backbone.size)
    learn_head(network, recipe.head, lessons, run / "head", report, bfloat16)
    learn_head(network, recipe.attacked, lessons, run / "attacked", report, bfloat16)
    finish(network, network.head, recipe, lessons.photos, run, cache, bfloat16, lessons.judge)
    return network
