"""A head that learns from photos and drawn pictures, on a backbone that no longer changes."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from coverlock_sdk.hashing.network import Backbone, HashNetwork
from coverlock_sdk.training.hashes.adversary import Adversary
from coverlock_sdk.training.hashes.curriculum import Curriculum
from coverlock_sdk.training.hashes.losses import Objective
from coverlock_sdk.training.hashes.recipes import StageReport
from coverlock_sdk.training.hashes.trainer import Hasher, train
from coverlock_sdk.training.hashes.views import Composition, Pairs
from coverlock_sdk.training.loop import Figures, Schedule


@dataclass(frozen=True)
class HeadStage:
    """What the head is shown, what is asked of it, and for how long."""

    drawn: float
    """The share of drawn pictures in a batch."""
    composition: Composition
    objective: Objective
    schedule: Schedule
    views: int = 1
    """Distorted views per picture whose features are kept; 0 draws each one afresh."""
    adversary: Adversary | None = None
    """Who attacks some views, through the backbone; they are always fresh then."""


def learn_head(
    network: HashNetwork,
    stage: HeadStage,
    lessons: Curriculum,
    folder: Path,
    report: StageReport | None,
    bfloat16: bool = False,
) -> None:
    """Train the head of ``network``; ``folder`` keeps the checkpoint and gives the stage its name.

    Features that are kept are computed in full precision, fresh ones as ``bfloat16`` says.
    """
    backbone = network.backbone
    data: Pairs
    frozen: Backbone | None = None
    if stage.views and stage.adversary is None:
        seed = stage.schedule.seed
        data = lessons.features(backbone, stage.composition, stage.views, seed)
    else:
        data, frozen = lessons.views(backbone.size, stage.composition), backbone

    def validate(head: Hasher) -> Figures:
        network.head.load_state_dict(head.state_dict())
        return lessons.judge(network)

    head = train(
        copy.deepcopy(network.head),
        data,
        stage.objective,
        stage.schedule,
        folder,
        frozen=frozen,
        validate=validate,
        report=partial(report, folder.name) if report else None,
        bfloat16=bfloat16,
        sampler=replace(lessons.sampler, share=stage.drawn),
        adversary=stage.adversary,
    )
    network.head.load_state_dict(head.state_dict())
