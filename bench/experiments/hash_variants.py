"""Three ways to a hash, side by side: from scratch, on a frozen backbone, and distilled.

All of them learn from the same photos and are judged on the same held-out ones, and heads on
frozen backbones learn by the recipe of the head of ``nano``: the same views, objective and steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from coverlock_bench.timing import seconds_in_turns
from coverlock_sdk.hashing.nano import NanoHash
from coverlock_sdk.hashing.network import Backbone, HashNetwork, NanoBackbone
from coverlock_sdk.images.resampling import resample
from coverlock_sdk.progress import progress
from coverlock_sdk.training.hashes.features import codes_of_network, evaluation_features
from coverlock_sdk.training.hashes.figures import figures_of
from coverlock_sdk.training.hashes.recipes import (
    NANO_COMPOSITION,
    NANO_HEAD,
    NANO_HEAD_COMPOSITION,
    NANO_HEAD_OBJECTIVE,
    HeadRecipe,
    train_head,
)
from coverlock_sdk.training.hashes.views import ComposedViews
from coverlock_sdk.training.photos import HELD_OUT, split
from experiments.backbones import augnet, efficientnet_lite0

BACKBONES: dict[str, Callable[[], Backbone]] = {
    "efficientnet-lite0": efficientnet_lite0,
    "augnet": augnet,
    "nano": lambda: NanoHash().module().backbone,
}
HEAD = HeadRecipe(
    held_out=HELD_OUT,
    composition=NANO_HEAD_COMPOSITION,
    objective=NANO_HEAD_OBJECTIVE,
    schedule=NANO_HEAD,
    views=2,
)
"""How heads on frozen backbones are trained: as that of ``nano`` was."""

STUDENT: dict[str, Any] = {"widths": (16, 32, 96), "depths": (1, 1, 1)}
STUDENT_STEPS = 400
STUDENT_BATCH = 128
STUDENT_RATE = 2e-3
TIMINGS = 30


def settings(photos: Path) -> dict[str, Any]:
    """What the variants were made with, for the result file."""
    training, held_out = split(photos, HEAD.held_out)
    return {
        "photos": len(training),
        "held_out_photos": len(held_out),
        "head": asdict(HEAD),
        "student": {**STUDENT, "steps": STUDENT_STEPS, "batch": STUDENT_BATCH},
    }


def hash_variants(photos: Path, run: Path) -> dict[str, Any]:
    """The held-out figures of each variant, its parameters, and its time relative to `nano`.

    The teacher of the distilled network is the variant with the lowest held-out bit error.
    """
    networks = {"nano": NanoHash().module()}
    for name, backbone in BACKBONES.items():
        trained = train_head(backbone(), photos, run / name, HEAD, cache=run / "cache")
        networks[f"head on frozen {name}"] = trained
    figures = {name: _figures_of(network, photos, run) for name, network in networks.items()}
    best = min(figures, key=lambda name: figures[name]["error"])
    student = f"distilled from {best}"
    networks[student] = distil(networks[best], photos, run)
    figures[student] = _figures_of(networks[student], photos, run)
    for name, ratio in _relative_times(networks).items():
        figures[name]["times_nano"] = ratio
    return figures


def _figures_of(network: HashNetwork, photos: Path, run: Path) -> dict[str, Any]:
    """The figures of a network on the held-out photos, and its size."""
    held_out = split(photos, HEAD.held_out)[1]
    pooled = evaluation_features(network.backbone, held_out, run / "cache")
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return {**figures_of(codes_of_network(network.head, pooled)), "parameters": parameters}


def distil(teacher: HashNetwork, photos: Path, run: Path, seed: int = 0) -> HashNetwork:
    """A smaller network that learns the logits its ``teacher`` gives to clean pictures.

    The student sees one window of a clean or a distorted view; the teacher saw all of them.
    """
    training = split(photos, HEAD.held_out)[0]
    torch.manual_seed(seed)
    whole = NanoBackbone(**STUDENT)
    one = HashNetwork(NanoBackbone(size=64, zooms=[1.0], **STUDENT))
    data = ComposedViews(training, 64, run / "cache", NANO_COMPOSITION, zooms=whole.zooms)
    targets = _teach(teacher, data)
    optimizer = torch.optim.AdamW(one.parameters(), lr=STUDENT_RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, STUDENT_RATE, STUDENT_STEPS)
    rng = np.random.default_rng(seed)
    for _ in progress(range(STUDENT_STEPS), "distil"):
        rows = rng.choice(len(data), min(STUDENT_BATCH, len(data)), replace=False)
        logits = one(torch.cat(data.pairs(rows, rng)))
        loss = functional.mse_loss(logits, targets[rows].repeat(2, 1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    student = HashNetwork(whole)
    student.load_state_dict(one.state_dict())
    return student.eval()


def _teach(teacher: HashNetwork, data: ComposedViews) -> torch.Tensor:
    """The teacher's logits (N, 256) of every clean picture."""
    size = teacher.backbone.size
    logits = []
    with torch.inference_mode():
        for start in range(0, len(data), 64):
            clean = data.pictures[start : start + 64, 0].astype(np.float32) / np.float32(255)
            logits.append(teacher(torch.from_numpy(resample(clean, (size, size)))))
    return torch.cat(logits).clone()


def _relative_times(networks: dict[str, HashNetwork]) -> dict[str, float]:
    """Median time of one picture relative to the first network; they take turns."""
    works = []
    for network in networks.values():
        size = network.backbone.size
        works.append(partial(network, torch.rand(1, 3, size, size)))
    with torch.inference_mode():
        seconds = seconds_in_turns(works, TIMINGS)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return dict(zip(networks, map(float, ratios), strict=True))
