from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

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
    Serial,
    Verdict,
    Watermark,
    codeword,
    load_defense,
    wrap,
)
from coverlock_sdk.errors import (
    CoverLockError,
    ExposedKeyWarning,
    KeyringError,
    LossyFormatWarning,
    MessageError,
    PictureError,
    PluginError,
    WeakMarkWarning,
)
from coverlock_sdk.locking.judging import Judge
from coverlock_sdk.locking.keyed_codes import PlainMap, SaltedMap
from coverlock_sdk.locking.lock_format import LockFormat
from tests.conftest import AdditiveMark

RULES = ["hard", "soft"]


def message(bits: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, bits, dtype=np.uint8)


@pytest.mark.parametrize("rule", RULES)
def test_a_marked_picture_is_accepted_and_others_are_not(additive, photos, rule):
    locked = wrap(additive, rule=rule)
    marked = locked.embed(photos[0], message(48))
    verdict = locked.verify(marked, message(48))
    assert verdict
    assert verdict.p_value <= 1e-6
    assert (verdict.bits, verdict.rule, verdict.fpr) == (48, rule, 1e-6)
    assert not locked.verify(marked, message(48, seed=1))
    assert not locked.verify(photos[0], message(48))


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


def test_batches_are_single_pictures_where_nothing_is_hardened(additive, photos):
    locked = wrap(additive, harden=False)
    together = locked.embed(photos[:3], "studio")
    for index in range(3):
        assert (together[index] == locked.embed(photos[index], "studio")).all()


def test_hardened_batches_agree_with_single_pictures(additive, photos):
    locked = wrap(additive)
    together = locked.embed(photos[:3], "studio")
    for index in range(3):
        alone = locked.embed(photos[index], "studio").astype(int)
        # A batch rounds its products otherwise, and steps along gradients carry that on.
        assert np.abs(together[index] - alone).max() <= 1
        assert (together[index] != alone).mean() < 0.001


def test_each_picture_of_a_batch_can_have_its_own_message(additive, photos):
    locked = wrap(additive)
    messages = np.stack([message(48, seed) for seed in range(3)])
    marked = locked.embed(photos[:3], messages)
    assert all(locked.verify(marked, messages))
    assert not any(locked.verify(marked, messages[::-1])[::2])


def test_an_empty_batch_is_an_empty_answer(additive):
    locked = wrap(additive)
    assert locked.embed([], np.zeros((0, 48))) == []
    assert locked.verify([], np.zeros((0, 48))) == []


def test_the_payload_depends_on_the_picture(additive, photos):
    """The same message becomes another payload in another picture: that is the whole point."""
    locked = wrap(additive)
    payloads = locked.logits(locked.embed(photos, "studio"))[0] > 0
    agreement = (payloads[:, None] == payloads[None]).mean(axis=2)[np.triu_indices(len(photos), 1)]
    assert 0.4 < agreement.mean() < 0.6


def test_message_logits_give_the_message(additive, photos):
    locked = wrap(additive)
    wanted = message(48)
    logits = locked.decode(locked.embed(photos[:4], wanted))
    assert logits.shape == (4, 48)
    assert ((logits > 0) == wanted).mean() > 0.97


class FlickeringHash(ImageHash):
    """A hash of fine detail, much of which a mark changes."""

    name = "flickering"
    input_size = (128, 128)
    rows = np.random.RandomState(0).standard_normal((128 * 127, 256)).astype(np.float32)

    def logits(self, images):
        detail = np.diff(images.mean(axis=1), axis=2)
        return detail.reshape(len(images), -1) @ self.rows


def test_fixed_point_binding_lowers_hash_errors(additive, photos):
    once = CoverLock(hash=FlickeringHash(), rounds=1, rule="hard").protect(additive)
    settled = CoverLock(hash=FlickeringHash(), rounds=6, rule="hard").protect(additive)
    first = [once.mark(photo, "studio") for photo in photos]
    later = [settled.mark(photo, "studio") for photo in photos]
    assert sum(m.hash_errors for m in first) > 0
    assert sum(m.hash_errors for m in later) < sum(m.hash_errors for m in first)
    for before, after in zip(first, later, strict=True):
        assert after.verdict.p_value <= before.verdict.p_value


def test_a_report_describes_the_picture_that_is_returned(additive, photos):
    locked = wrap(additive)
    marked = locked.mark(photos[0], "studio")
    again = locked.verify(marked.picture, "studio")
    assert again == marked.verdict


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


def test_pictures_marked_before_the_lock_are_accepted_only_when_asked(additive, photos):
    legacy = NoDefense().protect(additive).embed(photos[0], message(48))
    locked = wrap(additive)
    assert not locked.verify(legacy, message(48))
    verdict = locked.verify(legacy, message(48), accept_unlocked=True)
    assert verdict.accepted
    assert not verdict.locked
    fresh = locked.verify(locked.embed(photos[0], message(48)), message(48), accept_unlocked=True)
    assert fresh.locked


# Files


def test_files_are_written_beside_the_original_or_where_asked(additive, photos, tmp_path):
    source = tmp_path / "photo.jpg"
    Image.fromarray(photos[0]).save(source, quality=95)
    before = source.read_bytes()
    locked = wrap(additive)
    assert locked.embed(source, "studio") == tmp_path / "photo.marked.png"
    out = tmp_path / "out.webp"
    assert locked.embed(str(source), "studio", out=out) == out
    assert locked.verify(out, "studio")
    assert source.read_bytes() == before
    with pytest.raises(PictureError, match="is the original"):
        locked.embed(source, "studio", out=source)
    assert source.read_bytes() == before


def test_saving_in_a_lossy_format_says_what_it_cost(additive, photos, tmp_path):
    source = tmp_path / "photo.png"
    Image.fromarray(photos[0]).save(source)
    locked = wrap(additive)
    with pytest.warns(LossyFormatWarning, match=r"\d+ of 48 bits survive in it"):
        marked = locked.mark_file(source, "studio", tmp_path / "out.jpg")
    assert locked.verify(tmp_path / "out.jpg", "studio") == marked.verdict


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


# The floor


@pytest.mark.parametrize(("rule", "floor"), [("hard", 0.79), ("soft", 0.84)])
def test_a_long_message_needs_more_than_a_small_p_value(rule, floor):
    """At 256 bits 75 % of the bits have a p-value of 1e-16, which similar pictures reach too."""
    judge = Judge(LockFormat(256, Calibration(), Calibration()), None, 1e-6, rule)
    message = np.random.default_rng(0).integers(0, 2, 256, dtype=np.uint8)
    hashed = np.full((1, 256), 4, dtype=np.float32)
    payload = judge.format.payload(message[None], judge.format.code(hashed, PlainMap.of(None, 256)))
    for wrong, accepted in ((64, False), (20, True)):
        read = payload.copy()
        read[0, :wrong] ^= 1
        [verdict] = judge.verify((read * 8.0 - 4).astype(np.float32), hashed, message)
        assert verdict.p_value < 1e-6
        assert verdict.floor == floor
        assert verdict.agreement == pytest.approx(1 - wrong / 256)
        assert verdict.accepted is accepted


@given(st.integers(0, 2**32 - 1), st.integers(0, 64))
def test_agreement_excuses_what_the_decoder_is_unsure_of_and_not_what_the_hash_is(seed, wrong):
    layout = LockFormat(64, Calibration(), Calibration())
    rng = np.random.default_rng(seed)
    hashed = (rng.standard_normal((1, 256)) + 1e-3).astype(np.float32)
    payload = layout.payload(message(64)[None], layout.code(hashed, PlainMap.of(None, 64)))
    damaged = np.isin(np.arange(64), rng.permutation(64)[:wrong])
    judge = Judge(layout, None, 1e-6, "soft")

    def agreement(decoded, hashed):
        [verdict] = judge.verify(decoded.astype(np.float32), hashed, message(64))
        return verdict.agreement

    sure = np.where(payload ^ damaged, 4.0, -4.0)
    assert agreement(sure, hashed) == pytest.approx(1 - wrong / 64)
    assert agreement(sure, hashed * 1e-3) == pytest.approx(1 - wrong / 64)
    unsure = np.where(damaged, sure / 8, sure)
    assert agreement(unsure, hashed) >= agreement(sure, hashed) - 1e-12


@given(st.integers(0, 2**32 - 1), st.integers(1, 24), st.booleans())
def test_with_a_key_wrong_bits_weigh_most_where_the_hash_is_unsure(seed, wrong, keyed):
    key = Key(bytes(range(32)), id="studio", created="") if keyed else None
    layout, code_map = LockFormat(64, Calibration(), Calibration()), PlainMap.of(key, 64)
    hashed = np.random.default_rng(seed).standard_normal((1, 256)).astype(np.float32)
    payload = layout.payload(message(64)[None], layout.code(hashed, code_map))[0]
    by_doubt = np.argsort(np.abs(code_map.selected(hashed, 0)[0]))

    def agreement(damaged, rule):
        decoded = np.where(payload ^ np.isin(np.arange(64), damaged), 4.0, -4.0)[None]
        [reading] = layout.readings(decoded.astype(np.float32), hashed, code_map, key=key)
        return reading.agreement(message(64), rule)

    unsure, sure = by_doubt[:wrong], by_doubt[-wrong:]
    assert agreement(unsure, "hard") == agreement(sure, "hard") == 1 - wrong / 64
    if keyed:
        assert agreement(unsure, "soft") < 1 - wrong / 64 < agreement(sure, "soft")
    else:
        assert agreement(unsure, "soft") == pytest.approx(agreement(sure, "soft"))


def test_without_a_lock_there_is_no_floor(additive, photos):
    bare = NoDefense().protect(additive)
    assert bare.verify(bare.embed(photos[0], "studio"), "studio").floor == 0
    with pytest.raises(CoverLockError, match="without a lock there is no floor"):
        Judge(bare.format, None, 1e-6, "soft", floor=0.9)


@settings(max_examples=40)
@given(
    st.sampled_from(RULES),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 20),
    st.integers(0, 2**32 - 1),
)
def test_a_higher_floor_never_accepts_what_a_lower_one_rejects(rule, one, other, wrong, seed):
    layout = LockFormat(64, Calibration(), Calibration())
    rng = np.random.default_rng(seed)
    hashed = rng.standard_normal((1, 256)).astype(np.float32)
    payload = layout.payload(message(64)[None], layout.code(hashed, PlainMap.of(None, 64)))
    payload[0, rng.permutation(64)[:wrong]] ^= 1
    decoded = ((2.0 * payload - 1) * rng.exponential(4.0, 64)).astype(np.float32)
    lower, higher = (
        Judge(layout, None, 1e-6, rule, floor).verify(decoded, hashed, message(64))[0]
        for floor in sorted((one, other))
    )
    assert lower.accepted or not higher.accepted
    for verdict in (lower, higher):
        asked = verdict.p_value <= 1e-6 and verdict.agreement >= verdict.floor
        assert verdict.accepted is asked


def test_a_strict_lock_says_so_and_rejects_what_is_damaged(additive, photos):
    usual, strict = wrap(additive), wrap(additive, floor=1.0)
    marked = usual.embed(photos[0], "studio")
    assert strict.verify(marked, "studio").floor == strict.floor == 1.0
    noise = np.random.default_rng(0).normal(0, 60, np.shape(marked))
    damaged = np.clip(marked + noise, 0, 255).astype(np.uint8)
    verdicts = [lock.verify(damaged, "studio") for lock in (usual, strict)]
    assert [verdict.accepted for verdict in verdicts] == [True, False]
    assert "of 1.00" in str(verdicts[1])
    assert "floor=1)" in repr(strict)


@pytest.mark.parametrize("wrong", [-0.01, 1.01, 90, float("nan"), "high"])
def test_a_floor_is_a_share_from_0_to_1(additive, wrong):
    with pytest.raises(CoverLockError, match="a floor on agreement is a share from 0 to 1, not"):
        wrap(additive, floor=wrong)


# Keys that released pictures give away


def test_marking_with_a_key_of_scheme_1_warns_and_serials_do_not(additive, photos):
    locked = wrap(additive, key=Key(bytes(32), id="old", scheme=1))
    with pytest.warns(ExposedKeyWarning, match="keygen --rotate"):
        locked.embed(photos[0], "studio")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExposedKeyWarning)
        locked.embed(photos[0], Serial("studio/1"))
        wrap(additive, key=Key(bytes(32), id="new")).embed(photos[0], "studio")


def test_too_few_bits_for_salts_are_said(photos):
    locked = wrap(AdditiveMark(bits=24), key=Key(bytes(32), id="new"))
    with pytest.warns(ExposedKeyWarning, match="serial of its own"):
        locked.embed(photos[0], "studio")


# Payload lengths


@given(st.integers(24, 700), st.integers(0, 2**32 - 1))
def test_locking_and_unlocking_are_inverse_for_every_length(bits, seed):
    rng = np.random.default_rng(seed)
    layout = LockFormat(bits, Calibration(), Calibration())
    hash_logits = rng.standard_normal((1, 256)).astype(np.float32)
    key = Key(rng.bytes(32), id="k")
    maps = [PlainMap.of(None, layout.bits), SaltedMap.of(key, "id/any", layout.bits, salts=4)]
    code_map, salt = maps[seed % 2], seed % maps[seed % 2].salts
    wanted = rng.integers(0, 2, (1, layout.bits), dtype=np.uint8)
    payload = layout.payload(wanted, layout.code(hash_logits, code_map, salt))
    assert payload.shape == (1, bits)
    decoder_logits = (payload * 2.0 - 1).astype(np.float32) * 4
    [reading] = layout.readings(decoder_logits, hash_logits, code_map, salt)
    np.testing.assert_array_equal(reading.bits, wanted[0])
    recovered = layout.message_logits(decoder_logits, hash_logits, code_map, salt) > 0
    np.testing.assert_array_equal(recovered, wanted)


def test_a_payload_beyond_256_bits_repeats_the_message_and_is_read_better():
    layout = LockFormat(1024, Calibration(), Calibration())
    assert layout.bits == 256
    rng = np.random.default_rng(0)
    wanted = rng.integers(0, 2, (1, 256), dtype=np.uint8)
    hash_logits = np.full((1, 256), 3, dtype=np.float32)
    payload = layout.payload(wanted, layout.code(hash_logits, PlainMap.of(None, 256)))
    noisy = (payload * 2.0 - 1 + rng.standard_normal(payload.shape) * 1.5).astype(np.float32)
    assert ((noisy > 0) != payload).mean() > 0.2
    [reading] = layout.readings(noisy, hash_logits, PlainMap.of(None, 256))
    assert (reading.bits != wanted[0]).mean() < 0.1


def test_a_long_watermark_works_end_to_end(photos):
    locked = wrap(AdditiveMark(bits=320))
    assert locked.bits == 256
    assert locked.verify(locked.embed(photos[0], "studio"), "studio")


# Bad input


BAD_MESSAGES = {
    "too short": ([0, 1, 1], "has 3 bits, but 48 are needed"),
    "not bits": ([2] * 48, "only the bits 0 and 1"),
    "words": ([["a"]], "bits"),
    "too many": (np.zeros((3, 48)), "there are 3 messages for 1 pictures"),
    "cube": (np.zeros((1, 1, 48)), "shape"),
}


@pytest.mark.parametrize("case", BAD_MESSAGES)
def test_bad_messages_are_refused(case, additive, photos):
    value, expected = BAD_MESSAGES[case]
    with pytest.raises(MessageError, match=expected):
        wrap(additive).embed(photos[0], value)


def test_bad_settings_are_refused(additive):
    with pytest.raises(CoverLockError, match="'medium' is not a rule"):
        wrap(additive, rule="medium")
    with pytest.raises(MessageError, match="48 bits cannot reach"):
        wrap(additive, fpr=1e-30)
    with pytest.raises(KeyringError, match="is not a key"):
        wrap(additive, key=3)
    with pytest.raises(PictureError, match="given as a path"):
        wrap(additive).embed(np.zeros((64, 64, 3), np.uint8), "studio", out="x.png")


class Raising(Unreadable):
    name = "raising"

    def decode(self, images):
        raise RuntimeError("out of cheese")


class Nan(Unreadable):
    name = "nan"

    def decode(self, images):
        return np.full((len(images), 48), np.nan)


class Misshapen(Unreadable):
    name = "misshapen"

    def decode(self, images):
        return np.zeros((len(images), 47))


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (Raising, "'raising' failed in decode: RuntimeError: out of cheese"),
        (Nan, "'nan' returned NaN"),
        (Misshapen, r"'misshapen' returned shape \(1, 47\) from decode, not \(1, 48\)"),
    ],
)
def test_a_plugin_that_breaks_its_promise_is_named(plugin, expected, photos):
    with pytest.raises(PluginError, match=expected):
        wrap(plugin()).verify(photos[0], "studio")


def test_an_object_of_your_own_needs_no_base_class(photos):
    inner = AdditiveMark()

    class Plain:
        name, bits, native_size = "plain", 48, (128, 128)

        def embed(self, images, payloads):
            return inner.embed(images, payloads)

        def decode(self, images):
            return inner.decode(images)

    locked = wrap(Plain())
    assert locked.verify(locked.embed(photos[0], "studio"), "studio")
    with pytest.raises(PluginError, match="it lacks bits, native_size, embed, decode"):
        wrap(type("Nothing", (), {"name": "nothing"})())


def test_odd_settings_are_understood_or_refused(additive, photos):
    verdict = wrap(additive, fpr=np.float64(1e-6)).verify(photos[0], "studio")
    assert bool(verdict) is False
    for wrong in ("often", None):
        with pytest.raises(CoverLockError, match="is not a false-positive rate"):
            wrap(additive, fpr=wrong)
    with pytest.raises(CoverLockError, match="at least one round"):
        CoverLock(rounds=0).protect(additive)
    with pytest.raises(PluginError, match="is a class"):
        wrap(AdditiveMark)
    wrong_size = AdditiveMark()
    wrong_size.native_size = 128
    with pytest.raises(PluginError, match="native_size 128"):
        wrap(wrong_size)
    with pytest.raises(MessageError, match="not text"):
        wrap(additive).verify(photos[0], "\udcff")


def test_marking_promises_what_verification_keeps_under_several_keys(additive, photos, key):
    locked = wrap(additive, key=[key, Key(b"o" * 32, id="old")])
    marked = locked.mark(photos[0], "studio")
    assert locked.verify(marked.picture, "studio") == marked.verdict


def test_identifiers_marked_before_there_was_a_key_are_found(additive, photos, key):
    legacy = NoDefense().protect(additive).embed(photos[0], "studio")
    assert wrap(additive, key=key).verify(legacy, "studio", accept_unlocked=True)
    assert wrap(additive, key=key).verify(photos[0], "studio", accept_unlocked=True).locked


def test_paths_that_would_share_an_output_are_refused(additive, photos, tmp_path):
    for name in ("a.png", "a.bmp"):
        Image.fromarray(photos[0]).save(tmp_path / name)
    with pytest.raises(PictureError, match="2 pictures would all be written to"):
        wrap(additive).embed([tmp_path / "a.png", tmp_path / "a.bmp"], "studio")
    assert not (tmp_path / "a.marked.png").exists()


def test_threads_agree_with_one_another(additive, photos):
    locked = wrap(additive)
    marked = locked.embed(photos, "studio")
    expected = locked.verify(marked, "studio")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda picture: locked.verify(picture, "studio"), marked))
    assert answers == expected


def test_verdicts_are_true_exactly_when_accepted(additive, photos):
    locked = wrap(additive)
    verdict = locked.verify(photos[0], "studio")
    assert isinstance(verdict, Verdict)
    assert bool(verdict) is verdict.accepted is False
    assert "rejected" in str(verdict)
    assert verdict.to_dict()["p_value"] == verdict.p_value


def test_defenses_are_found_by_name(additive, photos):
    locked = load_defense("coverlock", fpr=1e-9, rule="hard").protect(additive)
    assert (locked.fpr, locked.rule) == (1e-9, "hard")
    plain = load_defense("none").protect(additive)
    payload = plain.decode(plain.embed(photos[:1], "studio"))[0] > 0
    assert (payload == codeword("studio", None, 48)).mean() > 0.95


def test_nothing_warns_when_all_is_well(additive, photos):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        locked = wrap(additive)
        locked.verify(locked.embed(photos[0], "studio"), "studio")
