"""What a watermark plugin promises, one test each: its methods are called with arrays.

A test that fails says which promise was broken, by how much, and what to do. Tests that can say
nothing sensible after an earlier failure are skipped, so that the list of failures is the list
of things to repair.

To make the promises part of a test-suite of your own::

    from coverlock_sdk.testing.test_pictures import *
    from coverlock_sdk.testing.test_watermark import *

    @pytest.fixture(scope="session")
    def watermark():
        return MyWatermark()
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from coverlock_sdk import plugin_calls
from coverlock_sdk.arrays import Images, Logits
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.picture import MIN_SIDE
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.testing.fixtures import *  # noqa: F403
from coverlock_sdk.testing.fixtures import (
    CHANCE,
    MIN_ACCURACY,
    Answer,
    Marked,
    Photos,
    Record,
    as_floats,
    mark,
    payload_matters,
    promise,
    random_payloads,
)
from coverlock_sdk.testing.plugin import FIGURE

MIN_PSNR = 25.0
"""Decibels below which a mark cannot be called invisible by any standard."""
PICTURE_TOLERANCE = 1e-3
"""A quarter of an 8-bit step: what arithmetic in another order may change."""
LOGIT_TOLERANCE = 1e-2
"""The same for logits, relative to their mean magnitude."""
TOLERANCES = {"embed": PICTURE_TOLERANCE, "decode": LOGIT_TOLERANCE}
THREADS = 8

Ask = Callable[[Any], Images]
"""One method of the watermark, asked about some rows of the marked pictures."""


@pytest.fixture(scope="session")
def asks(sound: Watermark, marked: Marked) -> dict[str, Ask]:
    """The two methods as functions of rows."""
    images, pictures = as_floats(marked.originals), as_floats(marked.pictures)
    return {
        "embed": lambda rows: plugin_calls.embed(sound, images[rows], marked.payloads[rows]),
        "decode": lambda rows: plugin_calls.decode(sound, pictures[rows]),
    }


@pytest.fixture(scope="session")
def changes(asks: dict[str, Ask]) -> dict[str, float]:
    """How much each method's answer changes when it is asked the same again."""
    rows = slice(0, 2)
    return {method: _apart(method, ask(rows), ask(rows)) for method, ask in asks.items()}


@pytest.fixture(scope="session")
def repeatable(asks: dict[str, Ask], changes: dict[str, float]) -> dict[str, Ask]:
    """The two methods, once they answer the same question the same way."""
    if any(changes[method] > TOLERANCES[method] for method in asks):
        pytest.skip("the watermark is not deterministic: repair that first")
    return asks


# What it is


def test_members(watermark: Any) -> None:
    """The members that the contract asks for are there and make sense."""
    try:
        size = load_watermark(watermark).native_size
    except CoverLockError as error:
        pytest.fail(str(error), pytrace=False)
    promise(
        size is None or min(size) >= MIN_SIDE,
        f"native_size is {size}: both sides must have at least {MIN_SIDE} pixels",
    )


def test_card(loaded: Watermark) -> None:
    """``card`` is something that JSON holds."""
    try:
        json.dumps(dict(loaded.card), allow_nan=False)
    except (TypeError, ValueError) as error:
        pytest.fail(
            f"card cannot be written as JSON ({error}): use a dictionary of strings, finite "
            "numbers, lists and dictionaries",
            pytrace=False,
        )


# What it returns


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_runs(answers: dict[str, Answer], method: str) -> None:
    """Ordinary pictures and payloads raise nothing, and an array comes back."""
    error, value = answers[method].error, answers[method].value
    promise(
        error is None,
        f"{method} raised {type(error).__name__}: {error}. It is called with float32 pictures "
        "(N, 3, H, W) in [0, 1] and uint8 payloads (N, bits)",
    )
    promise(
        isinstance(value, np.ndarray),
        f"{method} returned a {type(value).__name__}: return a NumPy array (of a PyTorch tensor, "
        ".detach().cpu().numpy())",
    )


def test_shape(answer: Answer) -> None:
    """``embed`` returns the shape of its pictures, ``decode`` (N, bits)."""
    promise(
        answer.array.shape == answer.shape,
        f"{answer.method} returned the shape {answer.array.shape} instead of {answer.shape}",
    )


def test_type(answer: Answer, loaded: Watermark) -> None:
    """Both return float32; hard bits may have any type."""
    if answer.method == "decode" and loaded.hard_bits:
        pytest.skip("hard bits may have any type")
    promise(
        answer.array.dtype == np.float32,
        f"{answer.method} returned {answer.array.dtype} instead of float32: "
        "finish with .astype(np.float32)",
    )


def test_finite(answer: Answer) -> None:
    """Neither returns NaN or infinity."""
    broken = int((~np.isfinite(answer.array)).sum())
    promise(
        broken == 0,
        f"{answer.method} returned {broken} values that are NaN or infinite: look for a "
        "division by zero or a logarithm of zero in flat and black areas",
    )


def test_range(answers: dict[str, Answer]) -> None:
    """Marked pictures stay in [0, 1]."""
    marked = answers["embed"].array
    if not np.isfinite(marked).all():
        pytest.skip("embed returns NaN or infinity: see test_finite")
    promise(
        marked.min() >= -1e-6 and marked.max() <= 1 + 1e-6,
        f"embed returned values from {marked.min():.4f} to {marked.max():.4f}: "
        "end with np.clip(marked, 0, 1)",
    )


def test_logits_or_bits(answers: dict[str, Answer], loaded: Watermark) -> None:
    """``decode`` returns bits where it says ``hard_bits``, and otherwise logits."""
    decoded = answers["decode"].array
    only_bits = bool(np.isin(decoded, (0, 1)).all())
    promise(
        only_bits or not loaded.hard_bits,
        "hard_bits is True, but decode returned values other than 0 and 1: return bits, or "
        "logits without hard_bits",
    )
    promise(
        loaded.hard_bits or not only_bits,
        "decode returned only 0 and 1: return logits, above 0 for a 1 and below for a 0, or set "
        "hard_bits = True if your decoder knows no confidence",
    )


def test_arguments_are_left_alone(answer: Answer) -> None:
    """Neither method writes into the arrays it is given."""
    promise(
        not answer.overwritten,
        f"{answer.method} overwrites its {' and '.join(answer.overwritten)}: "
        "replace in-place operations (+=, out=, slices) by ones that make a new array",
    )


def test_any_size(sound: Watermark, photos: Photos) -> None:
    """With ``native_size = None``, pictures of odd sizes come back as large as they were."""
    if sound.native_size is not None:
        pytest.skip("this watermark has a size of its own")
    for size in ((243, 357), (512, 301)):
        try:
            mark(sound, photos(1, size))
        except CoverLockError as error:
            pytest.fail(
                f"native_size is None, but pictures of {size[1]} x {size[0]} pixels fail: "
                f"{error}; pad them inside your methods, or state a native_size",
                pytrace=False,
            )


# How it behaves


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_same_question_same_answer(changes: dict[str, float], method: str) -> None:
    """Determinism: verification must not depend on luck."""
    promise(
        changes[method] <= TOLERANCES[method],
        f"{method} answered the same question twice with a difference of {changes[method]:.2g} "
        f"(allowed: {TOLERANCES[method]:g}): switch off dropout and draw random numbers from a "
        "fixed seed",
    )


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_batch_equals_one_by_one(repeatable: dict[str, Ask], method: str) -> None:
    """What becomes of a picture does not depend on its neighbours, nor on their order."""
    ask = repeatable[method]
    alone = np.concatenate([ask([row]) for row in range(4)])
    batch, turned = ask([0, 1, 2, 3]), ask([3, 2, 1, 0])[::-1]
    difference = max(_apart(method, batch, alone), _apart(method, turned, alone))
    promise(
        difference <= TOLERANCES[method],
        f"{method} treats a picture in a batch differently from the same picture alone, by "
        f"{difference:.2g} (allowed: {TOLERANCES[method]:g}): put networks into eval mode (batch "
        "normalisation) and take means over each picture, never over the batch",
    )


def test_threads(repeatable: dict[str, Ask]) -> None:
    """Eight threads at once get what one alone gets."""

    def answers_to(row: int) -> dict[str, Images]:
        return {method: ask([row]) for method, ask in repeatable.items()}

    alone = [answers_to(row) for row in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(answers_to, range(THREADS)))
    wrong = sum(
        any(_apart(method, a[method], t[method]) > TOLERANCES[method] for method in repeatable)
        for a, t in zip(alone, together, strict=True)
    )
    promise(
        wrong == 0,
        f"{wrong} of {THREADS} threads got another answer than one thread alone: keep what "
        "belongs to a call in local variables, not on self, or guard it with a lock",
    )


# Whether it carries its payload


def test_payload_matters(sound: Watermark, marked: Marked) -> None:
    """Another payload gives another picture."""
    promise(
        payload_matters(sound, marked),
        "two different payloads gave the same 8-bit picture: embed ignores its payloads, "
        "or marks too weakly to survive rounding",
    )


def test_payload_can_be_read(sound: Watermark, marked: Marked) -> None:
    """``decode`` returns logits of the payload: above 0 for a 1, below for a 0."""
    if not payload_matters(sound, marked):
        pytest.skip("embed ignores its payloads: see test_payload_matters")
    promise(
        marked.accuracy >= CHANCE,
        f"only {marked.accuracy:.1%} of the bits are right; {_cause(marked.logits, marked)}",
    )


def _cause(logits: Logits, marked: Marked) -> str:
    if logits.min() >= 0:
        return (
            f"decode returned no negative value (they reach from {logits.min():.3g} to "
            f"{logits.max():.3g}): return logits, not probabilities; log(p / (1 - p)) turns "
            "probabilities into logits"
        )
    if marked.accuracy < 1 - CHANCE:
        return "a positive logit must mean bit 1: change the sign of what decode returns"
    return (
        "guessing does as well: check that encoder and decoder agree on the order of bits and "
        "channels, and on the range of pictures, which is [0, 1] here"
    )


@pytest.mark.parametrize("content", ["random", "zeros", "ones"])
def test_bit_accuracy(
    legible: Watermark, marked: Marked, record_property: Record, content: str
) -> None:
    """Whatever the payload, it is read from a clean 8-bit picture."""
    payloads = random_payloads(legible, 8)
    if content != "random":
        payloads = np.full((4, legible.bits), content == "ones", dtype=np.uint8)
    accuracy = mark(legible, marked.originals[: len(payloads)], payloads).accuracy
    record_property(f"{FIGURE}bit accuracy, {content}", f"{accuracy:.4f}")
    promise(
        accuracy >= MIN_ACCURACY,
        f"{accuracy:.1%} of the bits are right ({content} payload, clean 8-bit pictures), "
        f"but {MIN_ACCURACY:.0%} are needed: mark more strongly, or carry fewer bits",
    )


def test_imperceptibility(marked: Marked, record_property: Record) -> None:
    """The mark is no more than a faint noise."""
    difference = marked.pictures.astype(np.float64) - marked.originals
    error = np.maximum(np.square(difference).mean(axis=(1, 2, 3)), 1e-12)
    psnr = 10 * np.log10(255**2 / error)
    record_property(f"{FIGURE}PSNR", f"{psnr.mean():.1f} dB (lowest {psnr.min():.1f} dB)")
    promise(
        psnr.mean() >= MIN_PSNR,
        f"the PSNR of marked pictures is {psnr.mean():.1f} dB, but {MIN_PSNR:g} dB are needed: "
        "mark more weakly, and check that pictures are RGB in [0, 1] where you expect them to be",
    )


# Whether it can be exported and analysed


def test_decoder_module(legible: Watermark, marked: Marked) -> None:
    """``decoder_module()``, where there is one, says what ``decode`` says."""
    torch = pytest.importorskip("torch")
    module = legible.decoder_module()
    if module is None:
        pytest.skip("there is no decoder_module(), so this watermark cannot be exported")
    promise(not module.training, "decoder_module() is in training mode: call .eval() on it")
    images = as_floats(marked.pictures)
    with torch.no_grad():
        logits = module(torch.from_numpy(images)).numpy()
    difference = _apart("decode", logits, marked.logits)
    promise(
        difference <= LOGIT_TOLERANCE,
        f"decoder_module() and decode differ by {difference:.2g} of a mean logit "
        f"(allowed: {LOGIT_TOLERANCE:g})"
        + ("; the module must return -1 and 1 for hard bits" if legible.hard_bits else ""),
    )


def test_feature_layer(loaded: Watermark) -> None:
    """``feature_layer``, where it is set, names a module inside ``decoder_module()``."""
    if loaded.feature_layer is None:
        pytest.skip("feature_layer is not set, so the audit chooses a layer")
    pytest.importorskip("torch")
    module = loaded.decoder_module()
    names = [name for name, _ in module.named_modules() if name] if module is not None else []
    close = difflib.get_close_matches(str(loaded.feature_layer), names, n=1, cutoff=0)
    promise(
        loaded.feature_layer in names,
        f"feature_layer is {loaded.feature_layer!r}, which is no module inside decoder_module()"
        + (f"; did you mean {close[0]!r}?" if close else ""),
    )


def test_encoder_module(legible: Watermark, marked: Marked, asks: dict[str, Ask]) -> None:
    """``encoder_module()``, where there is one, makes the pictures that ``embed`` makes."""
    torch = pytest.importorskip("torch")
    module = legible.encoder_module()
    if module is None:
        pytest.skip("there is no encoder_module(), so bundles of this watermark only verify")
    promise(not module.training, "encoder_module() is in training mode: call .eval() on it")
    images, payloads = as_floats(marked.originals[:2]), marked.payloads[:2]
    with torch.no_grad():
        pictures = module(torch.from_numpy(images), torch.from_numpy(payloads).float()).numpy()
    difference = _apart("embed", pictures, asks["embed"](slice(0, 2)))
    promise(
        difference <= PICTURE_TOLERANCE,
        f"encoder_module() and embed differ by {difference:.2g} (allowed: {PICTURE_TOLERANCE:g})",
    )


def _apart(method: str, one: Images, other: Images) -> float:
    """The largest difference; between logits it is relative to their mean magnitude."""
    difference = float(np.abs(one - other).max())
    return difference if method == "embed" else difference / max(float(np.abs(one).mean()), 1e-12)
