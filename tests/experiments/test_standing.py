from coverlock_sdk import Key, wrap
from coverlock_sdk.testing import natural_pictures
from experiments.disguises import DISGUISES, encoded
from experiments.standing import standing_attacks


def test_only_an_attack_that_succeeds_is_counted(additive, monkeypatch):
    pictures = natural_pictures(4, (128, 128), seed=5)
    locked = wrap(additive, key=Key(bytes(range(32)), id="test"))
    monkeypatch.setitem(DISGUISES, "none at all", lambda marked, other: encoded(marked))
    found = standing_attacks(locked, pictures[:2], pictures[2:])
    accepted = {name: figure["successes"] for name, figure in found.items()}
    assert accepted.pop("none at all") == 2
    assert {"a profile", "alpha", "gamma", "combined messages"} <= accepted.keys()
    assert set(accepted.values()) == {0}
