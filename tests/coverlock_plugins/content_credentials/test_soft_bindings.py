import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_plugins.content_credentials.errors import ProvenanceError
from coverlock_plugins.content_credentials.soft_bindings import SoftBindings

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(words, words, words, st.none() | words, st.binary(min_size=1, max_size=128))
def test_bindings_survive_a_manifest(serial, watermark, hash, key, fingerprint):
    bindings = SoftBindings(serial, watermark, hash, key, fingerprint)
    assert SoftBindings.of_manifest({"assertions": bindings.assertions()}) == bindings


def good() -> list[dict]:
    return SoftBindings("a/1", "mbrs", "octave", None, bytes(32)).assertions()


def other(alg: str) -> dict:
    return {"label": "c2pa.soft-binding", "data": {"alg": alg, "blocks": []}}


def changed(part: int, **values) -> list[dict]:
    assertions = copy.deepcopy(good())
    assertions[part]["data"].update(values)
    return assertions


@pytest.mark.parametrize(
    ("assertions", "complaint"),
    [
        ([], "no soft binding of a locked watermark"),
        (good()[:1], "no fingerprint by 'octave'"),
        ([*good(), other("com.example.watermark")], "'com.example.watermark', which cannot be"),
        ([*good(), good()[1]], "two soft bindings by one algorithm"),
        ([*good(), {"label": "c2pa.soft-binding__3", "data": {}}], "without an algorithm"),
        (changed(0, **{"alg-params": "e30="}), "does not say how its mark is locked"),
        (changed(0, **{"alg-params": "?"}), "base64"),
        (changed(0, blocks=[]), "is damaged"),
        (changed(1, blocks=[{"scope": {}, "value": ""}]), "has 1 to 1024 bytes, not 0"),
        (changed(0, blocks=[{"scope": {}, "value": "/w=="}]), "is not text"),
    ],
)
def test_what_cannot_be_checked_is_refused(assertions, complaint):
    with pytest.raises(ProvenanceError, match=complaint):
        SoftBindings.of_manifest({"assertions": assertions})
