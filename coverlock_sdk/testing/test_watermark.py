"""The promises of a watermark plugin, one test each.

A test that fails says which promise was broken, by how much, and what to do. Tests that can say
nothing sensible after an earlier failure are skipped, so that the list of failures is the list
of things to repair.

To make the promises part of a test-suite of your own::

    from coverlock_sdk.testing.test_watermark import *

    @pytest.fixture(scope="session")
    def watermark():
        return MyWatermark()
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps

from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import CoverLockError, WeakMarkWarning
from coverlock_sdk.images.codecs import PICTURE_SUFFIXES, load_image
from coverlock_sdk.images.picture import MIN_SIDE
from coverlock_sdk.loading import load_watermark
from coverlock_sdk.locking.calibration import Calibration
from coverlock_sdk.locking.coverlock import DEFAULT_FPR, wrap
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.testing.pictures import natural_pictures
from coverlock_sdk.testing.plugin import FIGURE, IMAGES, WATERMARK

MIN_ACCURACY = 0.95
"""Mean share of right bits in pictures that were saved with 8 bits and otherwise left alone."""
CHANCE = 0.6
"""Share of right bits below which a decoder is no better than guessing."""
MIN_PSNR = 25.0
"""Decibels below which a mark cannot be called invisible by any standard."""
PICTURE_TOLERANCE = 1e-3
"""A quarter of an 8-bit step: what arithmetic in another order may change."""
LOGIT_TOLERANCE = 1e-2
"""The same for logits, relative to their mean magnitude."""
THREADS = 8

Picture = npt.NDArray[np.uint8]
Bits = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Photos = Callable[[int, tuple[int, int]], Picture]
Record = Callable[[str, object], None]
Guarded = Any
"""A watermark as callers know it, who may give it any kind of picture."""


@dataclass(frozen=True)
class Answer:
    """What one method of the plugin answers when it is called directly, with no SDK between."""

    method: str
    shape: tuple[int, ...]
    """The shape that was promised."""
    value: Floats
    """What was returned, as an array; empty where the method raised."""
    error: Exception | None
    overwritten: list[str]
    """The arguments that were different afterwards."""

    @property
    def usable(self) -> bool:
        """Whether there is any point in looking further."""
        finite = self.error is None and bool(np.isfinite(self.value).all())
        return finite and self.value.shape == self.shape


@dataclass(frozen=True)
class Marked:
    """Pictures as they were, as they were saved after marking, and what is read from them."""

    originals: Picture
    payloads: Bits
    pictures: Picture
    logits: Floats

    @property
    def accuracy(self) -> float:
        """Mean share of right bits."""
        return _accuracy(self.logits, self.payloads)


@pytest.fixture(scope="session")
def watermark(request: pytest.FixtureRequest) -> Watermark:
    """The watermark that is checked: the one that --watermark names."""
    try:
        return load_watermark(request.config.getoption(WATERMARK))
    except CoverLockError as error:
        return cast("Watermark", pytest.exit(str(error), returncode=4))


@pytest.fixture(scope="session")
def photos(request: pytest.FixtureRequest) -> Photos:
    """``photos(count, size)``: from the folder that --images names, or synthetic."""
    folder: Path | None = request.config.getoption(IMAGES, None)
    if folder is None:
        return natural_pictures
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() in PICTURE_SUFFIXES)
    if not files:
        pytest.exit(f"--images: there are no pictures in {folder}", returncode=4)

    def fitted(count: int, size: tuple[int, int]) -> Picture:
        chosen = [files[index % len(files)] for index in range(count)]
        images = [ImageOps.exif_transpose(load_image(path)).convert("RGB") for path in chosen]
        return np.stack([np.asarray(ImageOps.fit(i, (size[1], size[0]))) for i in images])

    return fitted


@pytest.fixture(scope="session")
def answers(watermark: Watermark, photos: Photos) -> dict[str, Answer]:
    """The first answer of each method; skipped while the attributes are wrong."""
    if _complaints_about_attributes(watermark):
        pytest.skip("name, bits or native_size must be repaired first")
    images = _as_floats(photos(2, watermark.native_size))
    payloads = _payloads(watermark, 2)
    return {
        "embed": _ask(watermark, "embed", images.shape, images=images, payloads=payloads),
        "decode": _ask(watermark, "decode", payloads.shape, images=images),
    }


@pytest.fixture(params=["embed", "decode"])
def answer(request: pytest.FixtureRequest, answers: dict[str, Answer]) -> Answer:
    """The answer of one method that did not raise."""
    answer = answers[request.param]
    if answer.error:
        pytest.skip(f"{answer.method} raises: see test_runs")
    return answer


@pytest.fixture(scope="session")
def sound(watermark: Watermark, answers: dict[str, Answer]) -> Guarded:
    """The watermark, once what it returns has the right form."""
    for answer in answers.values():
        if not answer.usable:
            pytest.skip(f"what {answer.method} returns must be repaired first")
    return watermark


@pytest.fixture(scope="session")
def marked(sound: Guarded, photos: Photos) -> Marked:
    """Eight marked pictures."""
    return _mark(sound, photos(8, sound.native_size), _payloads(sound, 8))


@pytest.fixture(scope="session")
def legible(sound: Guarded, marked: Marked) -> Guarded:
    """The watermark, once its payload can be read with the right sign."""
    if marked.accuracy < CHANCE or not _payload_matters(marked, sound):
        pytest.skip("the payload cannot be read at all: repair that first")
    return sound


@pytest.fixture(scope="session")
def changes(sound: Guarded, marked: Marked) -> dict[str, float]:
    """How much each method's answer changes when it is asked the same again."""
    images = _as_floats(marked.originals[:2])
    embedded = [sound.embed(images, marked.payloads[:2]) for _ in range(2)]
    decoded = [sound.decode(marked.pictures[:2]) for _ in range(2)]
    return {"embed": _apart(*embedded), "decode": _apart_in_logits(*decoded)}


@pytest.fixture(scope="session")
def repeatable(sound: Guarded, changes: dict[str, float]) -> Guarded:
    """The watermark, once it answers the same question the same way."""
    if changes["embed"] > PICTURE_TOLERANCE or changes["decode"] > LOGIT_TOLERANCE:
        pytest.skip("the watermark is not deterministic: repair that first")
    return sound


# What it is


def test_attributes(watermark: Watermark) -> None:
    """``name``, ``bits`` and ``native_size`` are there and make sense."""
    complaints = _complaints_about_attributes(watermark)
    _promise(not complaints, "; ".join(complaints))


def test_calibration(watermark: Watermark) -> None:
    """``calibration`` is one, and more evidence means more confidence."""
    calibration = watermark.calibration
    _promise(
        _is_calibration(calibration),
        f"calibration is {calibration!r}, which is not a coverlock_sdk.Calibration that trusts "
        "large logits more than small ones: fit one with 'coverlock calibrate', or leave it out",
    )


# What it returns


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_runs(answers: dict[str, Answer], method: str) -> None:
    """Ordinary pictures and payloads raise nothing."""
    error = answers[method].error
    _promise(
        error is None,
        f"{method} raised {type(error).__name__}: {error}. It is called with float32 pictures "
        "(N, 3, *native_size) in [0, 1] and uint8 payloads (N, bits)",
    )


def test_shape(answer: Answer) -> None:
    """``embed`` returns (N, 3, *native_size), ``decode`` (N, bits)."""
    _promise(
        answer.value.shape == answer.shape,
        f"{answer.method} returned the shape {answer.value.shape}, promised is {answer.shape}",
    )


def test_type(answer: Answer) -> None:
    """Both return float32."""
    _promise(
        answer.value.dtype == np.float32,
        f"{answer.method} returned {answer.value.dtype}, promised is float32: "
        "compute in float32, or end with .astype(np.float32)",
    )


def test_finite(answer: Answer) -> None:
    """Neither returns NaN or infinity."""
    broken = int((~np.isfinite(answer.value)).sum())
    _promise(
        broken == 0,
        f"{answer.method} returned {broken} values that are NaN or infinite: look for a "
        "division by zero or a logarithm of zero in flat and black areas",
    )


def test_range(answers: dict[str, Answer], sound: Guarded) -> None:
    """Marked pictures stay in [0, 1]."""
    value = answers["embed"].value
    low, high = float(value.min()), float(value.max())
    _promise(
        low >= -1e-6 and high <= 1 + 1e-6,
        f"embed returned values from {low:.4f} to {high:.4f}: end with np.clip(marked, 0, 1)",
    )


def test_arguments_are_left_alone(answer: Answer) -> None:
    """Neither method writes into the arrays it is given."""
    _promise(
        not answer.overwritten,
        f"{answer.method} overwrites its {' and '.join(answer.overwritten)}: "
        "replace in-place operations (+=, out=, slices) by ones that make a new array",
    )


# How it behaves


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_same_question_same_answer(changes: dict[str, float], method: str) -> None:
    """Determinism: verification must not depend on luck."""
    tolerance = PICTURE_TOLERANCE if method == "embed" else LOGIT_TOLERANCE
    _promise(
        changes[method] <= tolerance,
        f"{method} answered the same question twice with a difference of {changes[method]:.2g} "
        f"(allowed: {tolerance:g}): switch off dropout and draw random numbers from a fixed seed",
    )


@pytest.mark.parametrize("method", ["embed", "decode"])
def test_batch_equals_one_by_one(repeatable: Guarded, marked: Marked, method: str) -> None:
    """What becomes of a picture does not depend on its neighbours, nor on their order."""
    if method == "embed":
        images, payloads = _as_floats(marked.originals[:4]), marked.payloads[:4]
        batch = repeatable.embed(images, payloads)
        turned = repeatable.embed(images[::-1], payloads[::-1])[::-1]
        alone = np.concatenate(
            [repeatable.embed(images[i : i + 1], payloads[i : i + 1]) for i in range(4)]
        )
        apart, tolerance = _apart, PICTURE_TOLERANCE
    else:
        pictures = marked.pictures[:4]
        batch = repeatable.decode(pictures)
        turned = repeatable.decode(pictures[::-1])[::-1]
        alone = np.concatenate([repeatable.decode(pictures[i : i + 1]) for i in range(4)])
        apart, tolerance = _apart_in_logits, LOGIT_TOLERANCE
    difference = max(apart(batch, alone), apart(turned, alone))
    _promise(
        difference <= tolerance,
        f"{method} treats a picture in a batch differently from the same picture alone, by "
        f"{difference:.2g} (allowed: {tolerance:g}): put networks into eval mode (batch "
        "normalisation) and take means over each picture, never over the batch",
    )


def test_threads(repeatable: Guarded, marked: Marked) -> None:
    """Eight threads at once get what one alone gets."""
    images, payloads = _as_floats(marked.originals), marked.payloads

    def round_trip(index: int) -> tuple[Floats, Floats]:
        picture = repeatable.embed(images[index], payloads[index])
        return picture, repeatable.decode(picture)

    alone = [round_trip(index) for index in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(round_trip, range(THREADS)))
    pairs = list(zip(alone, together, strict=True))
    wrong = sum(
        _apart(a[0], t[0]) > PICTURE_TOLERANCE or _apart_in_logits(a[1], t[1]) > LOGIT_TOLERANCE
        for a, t in pairs
    )
    _promise(
        wrong == 0,
        f"{wrong} of {THREADS} threads got another answer than one thread alone: keep what "
        "belongs to a call in local variables, not on self, or guard it with a lock",
    )


# Whether it carries its payload


def test_payload_matters(sound: Guarded, marked: Marked) -> None:
    """Another payload gives another picture."""
    _promise(
        _payload_matters(marked, sound),
        "two different payloads gave the same 8-bit picture: embed ignores its payloads, "
        "or marks too weakly to survive rounding",
    )


def test_payload_can_be_read(sound: Guarded, marked: Marked) -> None:
    """``decode`` returns logits of the payload: above 0 for a 1, below for a 0."""
    if not _payload_matters(marked, sound):
        pytest.skip("embed ignores its payloads: see test_payload_matters")
    low, high = float(marked.logits.min()), float(marked.logits.max())
    if low >= 0:
        cause = (
            f"decode returned no negative value (they reach from {low:.3g} to {high:.3g}): "
            "return logits, not probabilities; log(p / (1 - p)) makes the one of the other"
        )
    elif marked.accuracy < 1 - CHANCE:
        cause = "a positive logit must mean bit 1: change the sign of what decode returns"
    else:
        cause = (
            "guessing does as well: check that encoder and decoder agree on the order of bits and "
            "channels, and on the range of pictures, which is [0, 1] here"
        )
    _promise(
        marked.accuracy >= CHANCE, f"only {marked.accuracy:.1%} of the bits are right; {cause}"
    )


@pytest.mark.parametrize("content", ["random", "zeros", "ones"])
def test_bit_accuracy(
    legible: Guarded, marked: Marked, record_property: Record, content: str
) -> None:
    """Whatever the payload, it is read from a clean 8-bit picture."""
    if content != "random":
        payloads = np.full((4, legible.bits), content == "ones", dtype=np.uint8)
        marked = _mark(legible, marked.originals[:4], payloads)
    record_property(f"{FIGURE}bit accuracy, {content}", f"{marked.accuracy:.4f}")
    _promise(
        marked.accuracy >= MIN_ACCURACY,
        f"{marked.accuracy:.1%} of the bits are right ({content} payload, clean 8-bit pictures), "
        f"promised are {MIN_ACCURACY:.0%}: mark more strongly, or carry fewer bits",
    )


def test_imperceptibility(marked: Marked, record_property: Record) -> None:
    """The mark is no more than a faint noise."""
    difference = marked.pictures.astype(np.float64) - marked.originals
    error = np.maximum(np.square(difference).mean(axis=(1, 2, 3)), 1e-12)
    psnr = 10 * np.log10(255**2 / error)
    record_property(f"{FIGURE}PSNR", f"{psnr.mean():.1f} dB (lowest {psnr.min():.1f} dB)")
    _promise(
        psnr.mean() >= MIN_PSNR,
        f"the PSNR of marked pictures is {psnr.mean():.1f} dB, promised are {MIN_PSNR:g} dB: "
        "mark more weakly, and check that pictures are RGB in [0, 1] where you expect them to be",
    )


@pytest.mark.parametrize(
    ("taller", "wider"), [(1.875, 2.5), (3.5, 1.2)], ids=["landscape", "portrait"]
)
def test_other_sizes(
    legible: Guarded, photos: Photos, record_property: Record, taller: float, wider: float
) -> None:
    """A mark survives being carried to a larger picture and back."""
    size = round(legible.native_size[0] * taller), round(legible.native_size[1] * wider)
    marked = _mark(legible, photos(2, size), _payloads(legible, 2))
    dimensions = f"{size[1]} x {size[0]}"
    record_property(f"{FIGURE}bit accuracy, {dimensions} pixels", f"{marked.accuracy:.4f}")
    _promise(
        marked.accuracy >= MIN_ACCURACY,
        f"{marked.accuracy:.1%} of the bits are right in pictures of {dimensions} pixels, promised "
        f"are {MIN_ACCURACY:.0%}: the SDK adds the residual to the large picture and rounds it to "
        "8 bits, so the residual must not hang on single pixels or exact values",
    )


# What callers may give it


def test_pil_image(legible: Guarded, marked: Marked) -> None:
    """A PIL image in, a PIL image out."""
    original = Image.fromarray(marked.originals[0])
    image = legible.embed(original, marked.payloads[0])
    _promise(isinstance(image, Image.Image), f"a PIL image came back as {type(image).__name__}")
    _promise(image.size == original.size and image.mode == "RGB", f"an RGB image became {image}")
    _same_payload(legible, image, marked)


def test_byte_array(legible: Guarded, marked: Marked) -> None:
    """A uint8 array (H, W, 3) in, one out."""
    array = legible.embed(marked.originals[0], marked.payloads[0])
    _promise(
        array.dtype == np.uint8 and array.shape == marked.originals[0].shape,
        f"a uint8 array {marked.originals[0].shape} came back as {array.dtype} {array.shape}",
    )
    _same_payload(legible, array, marked)


def test_float_array(legible: Guarded, marked: Marked) -> None:
    """A float array (3, H, W) in, one out."""
    original = _as_floats(marked.originals[:1])[0]
    array = legible.embed(original, marked.payloads[0])
    _promise(
        array.dtype == np.float32 and array.shape == original.shape,
        f"a float32 array {original.shape} came back as {array.dtype} {array.shape}",
    )
    _same_payload(legible, array, marked)


def test_path(legible: Guarded, marked: Marked, tmp_path: Path) -> None:
    """A path in, the path of the marked file out."""
    original = tmp_path / "photo.png"
    Image.fromarray(marked.originals[0]).save(original)
    path = legible.embed(original, marked.payloads[0])
    _promise(Path(path).is_file() and path != original, f"no new file was written: {path!r}")
    _same_payload(legible, path, marked)


def test_greyscale(legible: Guarded, marked: Marked, record_property: Record) -> None:
    """A greyscale image stays one; how much of a mark in colour is left is measured, not judged."""
    original = Image.fromarray(marked.originals[0]).convert("L")
    image = legible.embed(original, marked.payloads[0])
    _promise(image.mode == "L", f"a greyscale image came back in mode {image.mode}")
    accuracy = _accuracy(legible.decode(image), marked.payloads[:1])
    record_property(f"{FIGURE}bit accuracy, greyscale", f"{accuracy:.4f}")


def test_caller_keeps_original(sound: Guarded, marked: Marked) -> None:
    """What the caller passed in is the same afterwards."""
    picture, image = marked.originals[0].copy(), _as_floats(marked.originals[:1])
    payloads = marked.payloads[:1].copy()
    before = image.copy()
    sound.embed(picture, payloads[0])
    sound.embed(image, payloads)
    sound.decode(image)
    _promise(
        np.array_equal(picture, marked.originals[0])
        and np.array_equal(image, before)
        and np.array_equal(payloads, marked.payloads[:1]),
        "the arrays of the caller were overwritten",
    )


@pytest.mark.parametrize(
    "mistake", ["too many bits", "not bits", "NaN", "wrong shape", "not a picture"]
)
def test_clear_errors(sound: Guarded, marked: Marked, mistake: str) -> None:
    """A caller's mistake gives a CoverLockError, not a wrong result or a crash deep inside."""
    picture: Any = _as_floats(marked.originals[:1])
    payload = marked.payloads[:1]
    if mistake == "too many bits":
        payload = np.concatenate([payload, payload], axis=1)
    elif mistake == "not bits":
        payload = payload + 2
    elif mistake == "NaN":
        picture[0, 0, 0, 0] = np.nan
    elif mistake == "wrong shape":
        picture = picture[:, :2]
    else:
        picture = {"a": "dictionary"}
    try:
        sound.embed(picture, payload)
    except CoverLockError:
        return
    except Exception as error:
        pytest.fail(
            f"{mistake}: embed raised {type(error).__name__} ({error}) instead of a "
            "CoverLockError: derive from Watermark, which checks what comes in",
            pytrace=False,
        )
    pytest.fail(f"{mistake}: embed raised nothing", pytrace=False)


def test_decoder_module(legible: Guarded, marked: Marked) -> None:
    """``decoder_module()``, where there is one, says what ``decode`` says."""
    torch = pytest.importorskip("torch")
    module = legible.decoder_module()
    if module is None:
        pytest.skip("there is no decoder_module(), so this watermark cannot be exported")
    _promise(not module.training, "decoder_module() is in training mode: call .eval() on it")
    images = _as_floats(marked.pictures)
    with torch.no_grad():
        logits = module(torch.from_numpy(images)).numpy()
    difference = _apart_in_logits(logits, legible.decode(images))
    _promise(
        difference <= LOGIT_TOLERANCE,
        f"decoder_module() and decode differ by {difference:.2g} of a mean logit "
        f"(allowed: {LOGIT_TOLERANCE:g})",
    )


def test_encoder_module(legible: Guarded, marked: Marked) -> None:
    """``encoder_module()``, where there is one, makes the pictures that ``embed`` makes."""
    torch = pytest.importorskip("torch")
    module = legible.encoder_module()
    if module is None:
        pytest.skip("there is no encoder_module(), so bundles of this watermark only verify")
    _promise(not module.training, "encoder_module() is in training mode: call .eval() on it")
    images, payloads = _as_floats(marked.originals[:2]), marked.payloads[:2]
    with torch.no_grad():
        pictures = module(torch.from_numpy(images), torch.from_numpy(payloads).float()).numpy()
    difference = _apart(pictures, legible.embed(images, payloads))
    _promise(
        difference <= PICTURE_TOLERANCE,
        f"encoder_module() and embed differ by {difference:.2g} (allowed: {PICTURE_TOLERANCE:g})",
    )


# Whether it can be locked


@pytest.fixture(scope="session")
def locked(legible: Guarded) -> LockedWatermark:
    """The watermark behind CoverLock, at a false-positive rate its length allows."""
    if not _is_calibration(legible.calibration):
        pytest.skip("the calibration must be repaired first")
    fpr = max(DEFAULT_FPR, 2.0 ** (4 - legible.bits))
    if fpr > 0.01:
        pytest.skip(f"{legible.bits} bits are too few to tell a mark from chance")
    return wrap(legible, fpr=fpr)


@pytest.fixture(scope="session")
def locked_pictures(locked: LockedWatermark, marked: Marked) -> Picture:
    """Three pictures that carry a message of all ones under the lock."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)
        return cast("Picture", locked.embed(marked.originals[:3], np.ones(locked.bits)))


def test_lock_accepts(locked: LockedWatermark, locked_pictures: Picture) -> None:
    """A locked picture verifies."""
    verdicts = cast("list[Verdict]", locked.verify(locked_pictures, np.ones(locked.bits)))
    rejected = [str(verdict) for verdict in verdicts if not verdict]
    _promise(
        not rejected,
        f"{len(rejected)} of {len(verdicts)} locked pictures are not accepted "
        f"({'; '.join(rejected)}): the lock adds the bit errors of the hash to those of the "
        "watermark, so raise its bit accuracy or its number of bits, and fit its calibration",
    )


def test_lock_rejects(locked: LockedWatermark, locked_pictures: Picture, marked: Marked) -> None:
    """Another message is not accepted, and neither is an unmarked picture."""
    message, other = np.ones(locked.bits), np.arange(locked.bits) % 2
    for claim, verdicts in (
        ("another message", locked.verify(locked_pictures, other)),
        ("an unmarked picture", locked.verify(marked.originals[:3], message)),
    ):
        accepted = [str(verdict) for verdict in cast("list[Verdict]", verdicts) if verdict]
        _promise(not accepted, f"{claim} was accepted: {'; '.join(accepted)}")


def _promise(kept: bool | np.bool_, otherwise: str) -> None:
    """Fail with a sentence for the vendor rather than a traceback into the kit."""
    if not kept:
        pytest.fail(otherwise, pytrace=False)


def _complaints_about_attributes(watermark: Watermark) -> list[str]:
    complaints = []
    name, bits = getattr(watermark, "name", None), getattr(watermark, "bits", None)
    size = getattr(watermark, "native_size", None)
    if not isinstance(name, str) or not name or name != name.strip():
        complaints.append(f"name is {name!r}: make it the string that users will type")
    if not isinstance(bits, int) or isinstance(bits, bool) or bits < 1:
        complaints.append(f"bits is {bits!r}: make it the length of a payload, an int of 1 or more")
    if not (
        isinstance(size, tuple)
        and len(size) == 2
        and all(isinstance(side, int) and side >= MIN_SIDE for side in size)
    ):
        complaints.append(
            f"native_size is {size!r}: make it a tuple (height, width) of ints, each {MIN_SIDE} "
            "or more"
        )
    return complaints


def _is_calibration(value: object) -> bool:
    if not isinstance(value, Calibration):
        return False
    confidence = value.confidence([0.01, 1.0, 100.0])
    return bool(np.isfinite(confidence).all()) and bool(confidence[2] > confidence[0])


def _ask(watermark: Watermark, method: str, shape: tuple[int, ...], **given: Any) -> Answer:
    """Call a method as the vendor wrote it, behind the SDK's back."""
    written = getattr(type(watermark), method).__wrapped__
    arguments = {name: array.copy() for name, array in given.items()}
    value, failure = np.empty(0, dtype=np.float32), None
    try:
        value = np.asarray(written(watermark, *arguments.values()))
    except Exception as error:
        failure = error
    overwritten = [name for name in given if not np.array_equal(given[name], arguments[name])]
    return Answer(method, shape, value, failure, overwritten)


def _mark(watermark: Guarded, originals: Picture, payloads: Bits) -> Marked:
    pictures = watermark.embed(originals, payloads)
    return Marked(originals, payloads, cast("Picture", pictures), watermark.decode(pictures))


def _payload_matters(marked: Marked, watermark: Guarded) -> bool:
    inverted = watermark.embed(marked.originals[0], 1 - marked.payloads[0])
    return not np.array_equal(inverted, marked.pictures[0])


def _same_payload(watermark: Guarded, picture: Any, marked: Marked) -> None:
    """The first payload is in ``picture`` about as well as in the first of ``marked``."""
    expected = _accuracy(marked.logits[:1], marked.payloads[:1])
    found = _accuracy(watermark.decode(picture), marked.payloads[:1])
    _promise(
        found >= expected - 0.1,
        f"{found:.1%} of the bits are right in this kind of picture, {expected:.1%} in others",
    )


def _payloads(watermark: Watermark, count: int) -> Bits:
    return np.random.RandomState(count).randint(0, 2, (count, watermark.bits)).astype(np.uint8)


def _as_floats(pictures: Picture) -> Floats:
    """8-bit pictures (N, H, W, 3) as the contract's (N, 3, H, W) in [0, 1]."""
    return np.moveaxis(pictures, -1, 1).astype(np.float32) / np.float32(255)


def _accuracy(logits: Floats, payloads: Bits) -> float:
    return float(((logits > 0) == (payloads > 0)).mean())


def _apart(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).max())


def _apart_in_logits(one: Floats, other: Floats) -> float:
    return _apart(one, other) / max(float(np.abs(one).mean()), 1e-12)
