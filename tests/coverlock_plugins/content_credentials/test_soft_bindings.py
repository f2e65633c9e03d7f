import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_plugins.content_credentials.soft_bindings import SoftBindings

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(words, words, words, st.none() | words, st.binary(min_size=1, max_size=128))
def test_bindings_are_those_of_their_own_manifest(serial, watermark, hash, key, fingerprint):
    bindings = SoftBindings(serial, watermark, hash, key, fingerprint)
    assert bindings.are_those_of({"assertions": bindings.assertions()})


GOOD = SoftBindings("a/1", "mbrs", "octave", None, bytes(32))


def changed(part: int, **values) -> list[dict]:
    assertions = copy.deepcopy(GOOD.assertions())
    assertions[part]["data"].update(values)
    return assertions


@pytest.mark.parametrize(
    "assertions",
    [
        [],
        GOOD.assertions()[:1],
        [*GOOD.assertions(), GOOD.assertions()[1]],
        [
            *GOOD.assertions(),
            {"label": "c2pa.soft-binding__3", "data": {"alg": "com.example", "blocks": []}},
        ],
        changed(0, **{"alg-params": "e30="}),
        changed(0, blocks=[]),
        changed(1, blocks=[{"scope": {}, "value": "AAAA"}]),
    ],
)
def test_manifests_that_say_anything_else_are_told(assertions):
    assert not GOOD.are_those_of({"assertions": assertions})
