"""What a watermark plugin promises, one test each: its methods are called with arrays.

Tests that can say nothing sensible after an earlier failure are skipped, so that the list of
failures is the list of things to repair.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from coverlock_sdk import plugin_calls
from coverlock_sdk.arrays import AnyArray, Images
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.picture import MIN_SIDE, Picture
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.testing.fixtures import *  # noqa: F403
from coverlock_sdk.testing.fixtures import (
    CHANCE,
    MIN_ACCURACY,
    MarkedPhotos,
    Photos,
    as_floats,
    mark,
    payload_matters,
    promise,
    random_payloads,
)

MIN_PSNR = 25.0
"""Decibels below which a mark cannot be called invisible by any standard."""
TOLERANCES = {"embed": 1e-3, "decode": 1e-2}
"""What arithmetic in another order may change: pictures, and logits relative to their mean size."""
METHODS = ("embed", "decode")
THREADS = 8


@pytest.fixture(scope="session")
def repeatable(loaded: Watermark, marked: MarkedPhotos) -> Watermark:
    """The watermark, once it answers the same question the same way."""
    if any(_change(loaded, marked, method) > TOLERANCES[method] for method in METHODS):
        pytest.skip("the watermark is not deterministic: repair that first")
    return loaded


# What it is


def test_members(watermark: Any) -> None:
    """The members that the contract asks for are there and make sense."""
    try:
        loaded = load_watermark(watermark)
        json.dumps(dict(loaded.card), allow_nan=False)
    except CoverLockError as error:
        pytest.fail(str(error), pytrace=False)
    except (TypeError, ValueError) as error:
        promise(False, f"card cannot be written as JSON ({error}): use strings and finite numbers")
    size = loaded.native_size
    promise(
        size is None or min(size) >= MIN_SIDE,
        f"native_size is {size}: both sides must have at least {MIN_SIDE} pixels",
    )


# What it returns


@pytest.mark.parametrize("method", METHODS)
def test_answers(loaded: Watermark, photos: Photos, method: str) -> None:
    """An array of the right shape comes back: pictures in [0, 1], and logits or hard bits."""
    images = as_floats(photos(2, plugin_calls.working_size(loaded)))
    try:
        if method == "decode":
            plugin_calls.decode(loaded, images)
            return
        marked = plugin_calls.embed(loaded, images, random_payloads(loaded, 2))
    except CoverLockError as error:
        pytest.fail(str(error), pytrace=False)
    promise(
        marked.min() >= -1e-6 and marked.max() <= 1 + 1e-6,
        f"embed returned values from {marked.min():.4f} to {marked.max():.4f}: "
        "end with np.clip(marked, 0, 1)",
    )


@pytest.mark.parametrize("method", METHODS)
def test_arguments_are_left_alone(loaded: Watermark, marked: MarkedPhotos, method: str) -> None:
    """Neither method writes into the arrays it is given."""
    given: dict[str, AnyArray] = {"images": as_floats(marked.originals[:2])}
    if method == "embed":
        given["payloads"] = marked.payloads[:2]
    arguments = {name: array.copy() for name, array in given.items()}
    getattr(loaded, method)(*arguments.values())
    overwritten = [name for name in given if not np.array_equal(given[name], arguments[name])]
    promise(
        not overwritten,
        f"{method} overwrites its {' and '.join(overwritten)}: "
        "replace in-place operations (+=, out=, slices) by ones that make a new array",
    )


def test_any_size(loaded: Watermark, marked: MarkedPhotos, photos: Photos) -> None:
    """With ``native_size = None``, pictures of odd sizes come back as large as they were."""
    if loaded.native_size is not None:
        pytest.skip("this watermark has a size of its own")
    for size in ((243, 357), (512, 301)):
        try:
            mark(loaded, photos(1, size))
        except CoverLockError as error:
            pytest.fail(
                f"native_size is None, but pictures of {size[1]} x {size[0]} pixels fail: "
                f"{error}; pad them inside your methods, or state a native_size",
                pytrace=False,
            )


# How it behaves


@pytest.mark.parametrize("method", METHODS)
def test_same_question_same_answer(loaded: Watermark, marked: MarkedPhotos, method: str) -> None:
    """Determinism: verification must not depend on luck."""
    change = _change(loaded, marked, method)
    promise(
        change <= TOLERANCES[method],
        f"{method} answered the same question twice with a difference of {change:.2g} "
        f"(allowed: {TOLERANCES[method]:g}): switch off dropout and draw random numbers from a "
        "fixed seed",
    )


@pytest.mark.parametrize("method", METHODS)
def test_batch_equals_one_by_one(repeatable: Watermark, marked: MarkedPhotos, method: str) -> None:
    """What becomes of a picture does not depend on its neighbours, nor on their order."""
    ask = partial(_ask, repeatable, marked, method)
    alone = np.concatenate([ask([row]) for row in range(4)])
    batch, turned = ask([0, 1, 2, 3]), ask([3, 2, 1, 0])[::-1]
    difference = max(_apart(method, batch, alone), _apart(method, turned, alone))
    promise(
        difference <= TOLERANCES[method],
        f"{method} treats a picture in a batch differently from the same picture alone, by "
        f"{difference:.2g} (allowed: {TOLERANCES[method]:g}): put networks into eval mode (batch "
        "normalisation) and take means over each picture, never over the batch",
    )


def test_threads(repeatable: Watermark, marked: MarkedPhotos) -> None:
    """Eight threads at once get what one alone gets."""

    def answers_to(row: int) -> dict[str, Images]:
        return {method: _ask(repeatable, marked, method, [row]) for method in METHODS}

    alone = [answers_to(row) for row in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(answers_to, range(THREADS)))
    wrong = sum(
        any(_apart(method, a[method], t[method]) > TOLERANCES[method] for method in METHODS)
        for a, t in zip(alone, together, strict=True)
    )
    promise(
        wrong == 0,
        f"{wrong} of {THREADS} threads got another answer than one thread alone: keep what "
        "belongs to a call in local variables, not on self, or guard it with a lock",
    )


# Whether it carries its payload


def test_payload_matters(loaded: Watermark, marked: MarkedPhotos) -> None:
    """Another payload gives another picture."""
    promise(
        payload_matters(loaded, marked),
        "two different payloads gave the same 8-bit picture: embed ignores its payloads, "
        "or marks too weakly to survive rounding",
    )


def test_payload_can_be_read(loaded: Watermark, marked: MarkedPhotos) -> None:
    """``decode`` returns logits of the payload: above 0 for a 1, below for a 0."""
    if not payload_matters(loaded, marked):
        pytest.skip("embed ignores its payloads: see test_payload_matters")
    promise(
        marked.accuracy >= CHANCE,
        f"only {marked.accuracy:.1%} of the bits are right; {_cause(marked)}",
    )


def _cause(marked: MarkedPhotos) -> str:
    if marked.logits.min() >= 0:
        return (
            "decode returned no negative value: return logits, not probabilities; log(p / (1 - p)) "
            "turns probabilities into logits"
        )
    if marked.accuracy < 1 - CHANCE:
        return "a positive logit must mean bit 1: change the sign of what decode returns"
    return (
        "guessing does as well: check that encoder and decoder agree on the order of bits and "
        "channels, and on the range of pictures, which is [0, 1] here"
    )


@pytest.mark.parametrize("content", ["random", "zeros", "ones"])
def test_bit_accuracy(legible: Watermark, marked: MarkedPhotos, content: str) -> None:
    """Whatever the payload, it is read from a clean 8-bit picture."""
    payloads = random_payloads(legible, 8)
    if content != "random":
        payloads = np.full((4, legible.bits), content == "ones", dtype=np.uint8)
    accuracy = mark(legible, marked.originals[: len(payloads)], payloads).accuracy
    promise(
        accuracy >= MIN_ACCURACY,
        f"{accuracy:.1%} of the bits are right ({content} payload, clean 8-bit pictures), "
        f"but {MIN_ACCURACY:.0%} are needed: mark more strongly, or carry fewer bits",
    )


def test_imperceptibility(marked: MarkedPhotos) -> None:
    """The mark is no more than a faint noise."""
    pairs = zip(marked.originals, marked.pictures, strict=True)
    psnr = np.mean([Picture(original).psnr(Picture(picture)) for original, picture in pairs])
    promise(
        psnr >= MIN_PSNR,
        f"the PSNR of marked pictures is {psnr:.1f} dB, but {MIN_PSNR:g} dB are needed: "
        "mark more weakly, and check that pictures are RGB in [0, 1] where you expect them to be",
    )


# Whether it can be exported and analysed


@pytest.mark.parametrize("method", METHODS)
def test_modules(legible: Watermark, marked: MarkedPhotos, method: str) -> None:
    """``encoder_module()`` and ``decoder_module()`` answer as ``embed`` and ``decode`` do."""
    torch = pytest.importorskip("torch")
    name = {"embed": "encoder_module", "decode": "decoder_module"}[method]
    module = getattr(legible, name)()
    if module is None:
        pytest.skip(f"there is no {name}(), so bundles {method} with the plugin or not at all")
    promise(not module.training, f"{name}() is in training mode: call .eval() on it")
    rows = slice(0, 2)
    given = [as_floats(marked.pictures[rows])]
    if method == "embed":
        given = [as_floats(marked.originals[rows]), marked.payloads[rows].astype(np.float32)]
    with torch.no_grad():
        answer = module(*map(torch.from_numpy, given)).numpy()
    difference = _apart(method, answer, _ask(legible, marked, method, rows))
    promise(
        difference <= TOLERANCES[method],
        f"{name}() and {method} differ by {difference:.2g} (allowed: {TOLERANCES[method]:g})"
        + ("; the module must return -1 and 1 for hard bits" if legible.hard_bits else ""),
    )


def test_feature_layer(loaded: Watermark) -> None:
    """``feature_layer``, where it is set, names a module inside ``decoder_module()``."""
    if loaded.feature_layer is None:
        pytest.skip("feature_layer is not set, so the audit chooses a layer")
    pytest.importorskip("torch")
    module = loaded.decoder_module()
    promise(
        module is not None and loaded.feature_layer in dict(module.named_modules()),
        f"feature_layer is {loaded.feature_layer!r}, which is no module inside decoder_module()",
    )


def _change(watermark: Watermark, marked: MarkedPhotos, method: str) -> float:
    """How much an answer changes when the same is asked again."""
    return _apart(method, *(_ask(watermark, marked, method, [0, 1]) for _ in range(2)))


def _ask(watermark: Watermark, marked: MarkedPhotos, method: str, rows: Any) -> Images:
    """What one method answers about some rows of the marked pictures."""
    if method == "decode":
        return plugin_calls.decode(watermark, as_floats(marked.pictures[rows]))
    originals = as_floats(marked.originals[rows])
    return plugin_calls.embed(watermark, originals, marked.payloads[rows])


def _apart(method: str, one: Images, other: Images) -> float:
    """The largest difference; between logits it is relative to their mean magnitude."""
    difference = float(np.abs(one - other).max())
    return difference if method == "embed" else difference / max(float(np.abs(one).mean()), 1e-12)
