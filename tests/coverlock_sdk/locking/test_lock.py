import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk import (
    Calibration,
    CoverLock,
    ImageHash,
    Key,
    Keyring,
    NoDefense,
    Watermark,
    wrap,
)
from coverlock_sdk.errors import (
    CoverLockError,
    LossyFormatWarning,
    MessageError,
    PictureError,
    PluginError,
    WeakMarkWarning,
)
from coverlock_sdk.images.picture import LUMA
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.locking.verdict import Floors
from tests.conftest import AdditiveMark

RULES = ["hard", "soft"]


def message(bits: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, bits, dtype=np.uint8)


@pytest.mark.parametrize("rule", RULES)
def test_a_marked_picture_is_accepted_and_others_are_not(additive, photos, rule):
    locked = CoverLock(rule=rule).protect(additive)
    marked = locked.embed(photos[0], message(48))
    verdict = locked.verify(marked, message(48))
    assert verdict.p_value <= 1e-6
    assert (verdict.accepted, verdict.bits, verdict.rule, verdict.fpr) == (True, 48, rule, 1e-6)
    assert not any(locked.verify([marked, photos[0]], [message(48, seed=1), message(48)]))


@pytest.mark.parametrize("rule", RULES)
def test_a_transplanted_residual_passes_without_the_lock_and_fails_with_it(additive, photos, rule):
    for defense, expected in ((NoDefense(rule=rule), True), (CoverLock(rule=rule), False)):
        protected = defense.protect(additive)
        marked = protected.embed(photos[0], "studio")
        residual = marked.astype(np.int16) - photos[0]
        forged = [np.clip(victim + residual, 0, 255).astype(np.uint8) for victim in photos[1:]]
        accepted = [bool(verdict) for verdict in protected.verify(forged, "studio")]
        assert sum(accepted) >= 10 if expected else not any(accepted)


def test_every_kind_of_picture_comes_back_as_its_kind(additive, photos, tmp_path):
    torch = pytest.importorskip("torch")
    locked = wrap(additive)
    image = Image.fromarray(photos[0])
    image.save(tmp_path / "photo.png")
    floats = np.moveaxis(photos[:2], -1, 1).astype(np.float32) / 255
    kinds = {
        "pil": (image, Image.Image),
        "array": (photos[0], np.ndarray),
        "batch": (photos[:2], np.ndarray),
        "floats": (floats, np.ndarray),
        "tensor": (torch.from_numpy(floats), torch.Tensor),
        "list": ([image, photos[1]], list),
        "path": (tmp_path / "photo.png", type(tmp_path)),
    }
    for name, (source, expected) in kinds.items():
        marked = locked.embed(source, "studio")
        assert isinstance(marked, expected), name
        verdicts = locked.verify(marked, "studio")
        assert all(verdicts) if isinstance(verdicts, list) else verdicts, name
    assert isinstance(locked.decode(torch.from_numpy(floats)), torch.Tensor)


@pytest.mark.parametrize("size", [(128, 128), (600, 450), (97, 333), (1200, 1600)])
def test_any_resolution(additive, size):
    from coverlock_sdk.testing import natural_pictures

    [picture] = natural_pictures(1, size, seed=5)
    locked = wrap(additive)
    marked = locked.mark(picture, "studio")
    assert marked.picture.shape == picture.shape
    assert marked.verdict
    assert marked.psnr > 29


def test_hardened_batches_agree_with_single_pictures(additive, photos):
    locked = wrap(additive)
    together = locked.embed(photos[:3], "studio")
    for index in range(3):
        alone = locked.embed(photos[index], "studio").astype(int)
        assert np.abs(together[index] - alone).max() <= 1  # a batch rounds its products otherwise
        assert (together[index] != alone).mean() < 0.001


def test_each_picture_of_a_batch_can_have_its_own_message(additive, photos):
    locked = wrap(additive)
    messages = np.stack([message(48, seed) for seed in range(3)])
    marked = locked.embed(photos[:3], messages)
    assert all(locked.verify(marked, messages))
    assert not any(locked.verify(marked, messages[::-1])[::2])


# Keys


def test_another_key_rejects_what_one_key_marked(additive, photos, key):
    other = Key(b"x" * 32, id="other")
    marked = wrap(additive, key=key).embed(photos[0], message(48))
    assert wrap(additive, key=key).verify(marked, message(48))
    assert not wrap(additive, key=other).verify(marked, message(48))
    assert not wrap(additive).verify(marked, message(48))


@pytest.mark.parametrize("wanted", ["studio", message(48)], ids=["identifier", "bits"])
def test_rotated_keys_still_verify_and_the_p_value_pays_for_it(additive, photos, key, wanted):
    new = Key(b"n" * 32, id="new")
    old_lock, new_lock = wrap(additive, key=key), wrap(additive, key=Keyring([new, key]))
    marked = old_lock.embed(photos[0], wanted)
    before, after = old_lock.verify(marked, wanted), new_lock.verify(marked, wanted)
    assert after.accepted
    assert after.key_id == "test"
    assert after.p_value == pytest.approx(2 * before.p_value, rel=1e-3)
    assert new_lock.verify(new_lock.embed(photos[0], wanted), wanted).key_id == "new"


# Files


def test_files_are_written_beside_the_original_or_where_asked(additive, photos, tmp_path):
    source, out = tmp_path / "photo.jpg", tmp_path / "out.webp"
    Image.fromarray(photos[0]).save(source, quality=95)
    before = source.read_bytes()
    locked = wrap(additive)
    assert locked.embed(source, "studio") == tmp_path / "photo.marked.png"
    assert locked.embed(str(source), "studio", out=out) == out
    assert locked.verify(out, "studio")
    with pytest.raises(PictureError, match="is the original"):
        locked.embed(source, "studio", out=source)
    assert source.read_bytes() == before


def test_saving_in_a_lossy_format_says_what_it_cost(additive, photos, tmp_path):
    source = tmp_path / "photo.png"
    Image.fromarray(photos[0]).save(source)
    locked = wrap(additive)
    additive.strength = 0.01
    with pytest.warns(LossyFormatWarning, match=r"\d+ of 48 bits survive in it"):
        content, marked = locked.mark_content(source, "studio", ".jpg", quality=5)
    assert locked.verify(content, "studio") == marked.verdict


class Unreadable(Watermark):
    name = "unreadable"
    bits = 48
    native_size = (64, 64)

    def embed(self, images, payloads):
        return images

    def decode(self, images):
        return np.tile(np.float32([1, -1]), (len(images), 24))


def test_a_mark_that_would_not_verify_is_reported_at_once(photos):
    with pytest.warns(WeakMarkWarning, match="would not be accepted"):
        wrap(Unreadable()).embed(photos[0], "studio")


# Floors


class FixedCode(ImageHash):
    """A hash whose code is given, in one band or in three."""

    name, input_size = "fixed", (8, 8)

    def __init__(self, bands=(256,)):
        self.bands = bands

    def logits(self, images):
        raise AssertionError("codes are given")


def verdict_on(lock, wanted, code, wrong, faint=()):
    """The verdict on a picture of this code whose decoder has some bits ``wrong``, some faint."""
    terms = lock.terms(wanted, lock.keys[0])
    payload = lock.payload(terms.message, lock.code(code, terms, 0))
    decoded = np.where(payload ^ np.isin(np.arange(len(payload)), wrong), 6.0, -6.0)
    decoded[list(faint)] *= 1e-3
    return lock.verify(decoded[None].astype(np.float32), code[None], wanted[None])[0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("bits", "share"), [(30, 0.93), (64, 0.89), (100, 0.87), (256, 0.84)])
def test_the_floor_follows_from_the_number_of_bits(rule, bits, share):
    least = Floors().least(bits)
    assert least / bits == pytest.approx(share, abs=0.01)
    lock = Lock(bits, Calibration(), FixedCode(), rule=rule)
    code = np.random.default_rng(0).choice([-4, 4], 256).astype(np.float32)
    for wrong, accepted in ((bits - least, True), (bits - least + 1, False)):
        verdict = verdict_on(lock, message(bits), code, np.arange(wrong))
        assert verdict.agreement == pytest.approx(1 - wrong / bits, abs=1e-6)
        assert (verdict.agreement >= verdict.floor) is accepted


def test_each_band_has_a_floor_of_its_own():
    """Six errors are fine when they are spread, and not when they are all in the finest band."""
    lock = Lock(64, Calibration(), FixedCode((192, 320, 512)))
    code = np.random.default_rng(0).choice([-4, 4], 1024).astype(np.float32)
    assert [Floors().least_in_band(bits) for bits in (10, 21, 33)] == [9, 19, 29]
    assert verdict_on(lock, message(64), code, np.arange(6))
    assert not verdict_on(lock, message(64), code, np.arange(6) * 3 + 2)


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.integers(0, 60))
def test_bits_that_cannot_be_read_never_help_to_reach_the_floor(seed, wrong, faint):
    """Muting wrong bits does not make a forgery pass that needs all of its bits."""
    rng = np.random.default_rng(seed)
    lock = Lock(64, Calibration(), FixedCode())
    code = rng.choice([-4, 4], 256).astype(np.float32)
    order = rng.permutation(64)
    verdict = verdict_on(lock, message(64), code, order[:wrong], order[:faint])
    legible_errors, legible = max(wrong - faint, 0), 64 - faint
    allowed = legible - Floors().least(legible)
    assert (verdict.agreement >= verdict.floor) is (legible_errors <= allowed)


def test_a_nearly_empty_picture_is_refused(additive, key):
    blank = np.full((160, 160, 3), 128, np.uint8)
    locked = wrap(additive, key=key)
    verdict = locked.verify(blank, "studio")
    assert not verdict
    assert "nearly empty" in str(verdict)
    with pytest.raises(PictureError, match="nearly empty"):
        locked.embed(blank, "studio")


class ColourMark(AdditiveMark):
    """Adds to red what it takes from green, so that nothing of it is left in grey."""

    def embed(self, images, payloads):
        mark = super().embed(np.full_like(images, 0.5), payloads)[:, 0] - 0.5
        tint = np.stack([mark / LUMA[0], -mark / LUMA[1], 0 * mark], axis=1)
        return np.clip(images + tint / 3, 0, 1)

    def decode(self, images):
        return super().decode((images[:, 0] - images[:, 1])[:, None])


def test_a_grey_picture_that_the_watermark_cannot_mark_is_refused_and_not_written(photos, tmp_path):
    locked = wrap(ColourMark())
    picture = Image.fromarray(photos[0])
    picture.save(tmp_path / "colour.png")
    picture.convert("L").save(tmp_path / "grey.png")
    picture.convert("L").convert("RGB").save(tmp_path / "converted.png")
    with pytest.raises(PictureError, match="convert the picture to RGB"):
        locked.embed(tmp_path / "grey.png", "studio")
    assert not (tmp_path / "grey.marked.png").exists()
    for name in ("colour", "converted"):
        assert locked.verify(locked.embed(tmp_path / f"{name}.png", "studio"), "studio")


# Payload lengths


@settings(max_examples=40)
@given(st.integers(24, 700), st.booleans(), st.integers(0, 2**32 - 1))
def test_locking_and_unlocking_are_inverse_for_every_length(bits, keyed, seed):
    rng = np.random.default_rng(seed)
    keyring = Keyring([Key(rng.bytes(32), id="k")]) if keyed else None
    lock = Lock(bits, Calibration(), FixedCode((200, 300)), keyring, fpr=1e-4)
    code = rng.standard_normal(500).astype(np.float32)
    wanted = rng.integers(0, 2, lock.bits, dtype=np.uint8)
    terms = lock.terms(wanted, lock.keys[0])
    salt = terms.code_map.stablest(terms.code_map.seen(code[None])[0])
    payload = lock.payload(terms.message, lock.code(code, terms, salt))
    assert payload.shape == (bits,)
    decoded = (payload * 12.0 - 6)[None].astype(np.float32)
    assert lock.verify(decoded, code[None], wanted[None])[0].matches == lock.bits
    if not keyed:
        np.testing.assert_array_equal(lock.message_logits(decoded, code[None])[0] > 0, wanted)


def test_a_payload_beyond_256_bits_repeats_the_message_and_is_read_better():
    lock = Lock(1024, Calibration(), FixedCode())
    assert lock.bits == 256
    rng = np.random.default_rng(0)
    wanted, code = message(256), np.full(256, 3, np.float32)
    terms = lock.terms(wanted, None)
    payload = lock.payload(terms.message, lock.code(code, terms, 0))
    noisy = (payload * 2.0 - 1 + rng.standard_normal(payload.shape) * 1.5).astype(np.float32)
    assert ((noisy > 0) != payload).mean() > 0.2
    assert ((lock.message_logits(noisy[None], code[None])[0] > 0) != wanted).mean() < 0.1


# Bad input


BAD_MESSAGES = {
    "too short": ([0, 1, 1], "has 3 bits, but 48 are needed"),
    "not bits": ([2] * 48, "only the bits 0 and 1"),
    "words": ([["a"]], "bits"),
    "a number": (12345, "12345 is not a message: pass a string"),
    "nothing": (None, "None is not a message: pass a string"),
    "an empty name": (" ", "the identifier is empty"),
    "bytes": (b"alice", "b'alice' is not a message: pass a string"),
    "too many": (np.zeros((3, 48)), "there are 3 messages for 1 pictures"),
    "cube": (np.zeros((1, 1, 48)), "shape"),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_bad_messages_are_refused(case, additive, photos):
    value, expected = BAD_MESSAGES[case]
    with pytest.raises(MessageError, match=expected):
        wrap(additive).embed(photos[0], value)


BAD_SETTINGS = {
    "a registry without a key": ({"registry": "pictures.db"}, "a registry needs a key"),
    "too low a rate": ({"fpr": 1e-30}, "48 bits cannot reach"),
    "no rate": ({"fpr": "often"}, "is not a false-positive rate"),
    "no key": ({"key": 3}, "is not a key"),
    "too high a quality": ({"psnr": 51}, "choose from 20 to 50"),
    "no rule": ({"rule": "medium"}, "'medium' is not a rule"),
    "no rounds": ({"rounds": 0}, "at least one round"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_settings_are_refused(case, additive, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings, expected = BAD_SETTINGS[case]
    with pytest.raises(CoverLockError, match=expected):
        CoverLock(**settings).protect(additive)


def test_what_is_no_watermark_or_no_text_is_refused(additive, photos):
    wrong_size = AdditiveMark()
    wrong_size.native_size = 128
    for wrong, expected in ((AdditiveMark, "is a class"), (wrong_size, "native_size 128")):
        with pytest.raises(PluginError, match=expected):
            wrap(wrong)
    with pytest.raises(MessageError, match="not text"):
        wrap(additive).verify(photos[0], "\udcff")
    with pytest.raises(PictureError, match="given as a path"):
        wrap(additive).embed(photos[0], "studio", out="x.png")


def test_marking_promises_what_verification_keeps_under_several_keys(additive, photos, key):
    locked = wrap(additive, key=[key, Key(b"o" * 32, id="old")])
    marked = locked.mark(photos[0], "studio")
    assert locked.verify(marked.picture, "studio") == marked.verdict


def test_paths_that_would_share_an_output_are_refused(additive, photos, tmp_path):
    for name in ("a.png", "a.tiff"):
        Image.fromarray(photos[0]).save(tmp_path / name)
    with pytest.raises(PictureError, match="2 pictures would all be written to"):
        wrap(additive).embed([tmp_path / "a.png", tmp_path / "a.tiff"], "studio")
    assert not (tmp_path / "a.marked.png").exists()


def test_verdicts_read_as_what_they_are(additive, photos):
    locked = wrap(additive)
    verdict = locked.verify(photos[0], "studio")
    assert bool(verdict) is verdict.accepted is False
    assert str(verdict).startswith("rejected: no better than chance, p = ")
    accepted = locked.verify(locked.embed(photos[0], "studio"), "studio")
    assert str(accepted).startswith(f"accepted: {accepted.matches} of {accepted.bits} bits, p = ")
