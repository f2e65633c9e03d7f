from collections import Counter

import numpy as np
import pytest

from coverlock_sdk import wrap
from coverlock_sdk.frames import WHOLE, Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.distortions import Rotation
from coverlock_sdk.locking.picture_verifier import Looks
from coverlock_sdk.locking.registration import POPULAR, STEP, families, weight_of
from coverlock_sdk.testing import natural_pictures


def test_the_weights_of_all_cells_of_the_fine_grid_add_up_to_at_most_one():
    total = weight_of(WHOLE) + sum(map(weight_of, POPULAR))
    for number in range(1, 76):
        side = 1 - STEP * number
        centred = Frame(side=side)
        if weight_of(centred) < weight_of(POPULAR[0]):
            total += weight_of(centred)
        total += (number + 1) ** 2 * weight_of(Frame(side, x=0.5 + 2 * STEP))
    turned = 27 * 20 * weight_of(Frame(turn=1.0))
    assert total + turned <= 1.0001


def test_every_start_lies_inside_the_original_frame():
    for family in families():
        for frame in (Frame(*row) for row in family.frames):
            assert frame.side / 2 - 1e-9 <= frame.x <= 1 - frame.side / 2 + 1e-9
            assert frame.side / 2 - 1e-9 <= frame.y <= 1 - frame.side / 2 + 1e-9


@pytest.fixture(scope="module")
def photo():
    return natural_pictures(1, (256, 256), seed=3)[0]


@pytest.mark.parametrize(
    ("top", "left", "kept"), [(0, 0, 240), (16, 8, 240), (13, 13, 229), (20, 0, 228)]
)
def test_a_crop_is_recognised_by_the_registry_wherever_it_lies(
    additive, key, tmp_path, photo, top, left, kept
):
    locked = wrap(additive, key=key, registry=tmp_path / "pictures.db")
    whole = locked.embed(photo, "studio")
    crop = whole[top : top + kept, left : left + kept]
    assert locked.verify(crop, "studio").likeness > 0.88
    [description] = locked.logits(crop)[1]
    _, likeness = locked.lock.registry.found(key, locked.lock.hash, description, lambda: 1.0)
    assert likeness.frame.side == pytest.approx(kept / 256, abs=0.01)
    assert likeness.frame.x == pytest.approx((left + kept / 2) / 256, abs=0.01)
    assert likeness.frame.y == pytest.approx((top + kept / 2) / 256, abs=0.01)


def test_the_same_verdict_comes_from_all_the_work(additive, key, photo, tmp_path):
    for registry in (None, tmp_path / "pictures.db"):
        locked = wrap(additive, key=key, registry=registry)
        picture = locked.embed(photo, "studio")
        for shown in (picture, picture[8:240, 4:236], photo):
            looks = Looks(locked, Given(shown))
            quick, thorough = (
                locked.lock.verify(*locked.logits(shown), "studio", looks, thorough=everything)
                for everything in (False, True)
            )
            assert quick == thorough


def test_a_turn_is_found_whatever_the_proportions(additive, key, tmp_path):
    [photo] = natural_pictures(1, (256, 384), seed=4)
    locked = wrap(additive, key=key, registry=tmp_path / "pictures.db")
    turned = Rotation(3.0)(locked.embed(photo, "studio"), np.random.default_rng(0))
    verdict = locked.verify(turned, "studio")
    assert verdict.likeness > 0.88


def test_what_is_found_does_not_change_how_much_is_looked_at(additive, key, photo, monkeypatch):
    locked = wrap(additive, key=key)
    picture = locked.embed(photo, "studio")
    seen: Counter[tuple[object, ...]] = Counter()
    framed = type(locked.lock.hash).framed

    def counted(image_hash, view, frames, *stage):
        seen["turned", stage] += int(np.count_nonzero(frames[:, 3]))
        seen["unturned", stage] += int(np.count_nonzero(frames[:, 3] == 0))
        return framed(image_hash, view, frames, *stage)

    monkeypatch.setattr(type(locked.lock.hash), "framed", counted)
    work = []
    turned = Rotation(2.0)(picture, np.random.default_rng(0))
    for shown in (picture, picture[8:240, 4:236], turned, photo, photo[::-1]):
        seen.clear()
        looks = Looks(locked, Given(shown))
        locked.lock.verify(*locked.logits(shown), "studio", looks, thorough=True)
        work.append(dict(seen))
    # All bands are looked at in one turned frame, and in a second one if it fits best.
    assert {each["turned", ()] for each in work} <= {1, 2}
    for stage in ((), (1, 32), (2, 64), (3, 128)):
        looked_at = [each["turned", stage] + each["unturned", stage] for each in work]
        assert max(looked_at) <= 1.06 * min(looked_at)
