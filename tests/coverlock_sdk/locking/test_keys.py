import base64
import json
import logging
import os
import pickle
import traceback

import numpy as np
import pytest

from coverlock_sdk import Key, Keyring
from coverlock_sdk.errors import KeyringError
from coverlock_sdk.locking.keys import as_keyring, codeword, generate_key

SECRET = b"0123456789abcdef0123456789abcdef"
GOLDEN = {
    "fingerprint": "ee3cff22adeee710",
    "codeword": "01101100110010000110010011000000",
    "public codeword": "00110111000001010101000010100011",
}


def test_golden_values():
    """What a key determines must never change, on any platform: marked pictures depend on it."""
    key = Key(SECRET, id="golden")
    assert key.fingerprint == GOLDEN["fingerprint"]
    assert "".join(map(str, codeword("vendor-42", key, 32))) == GOLDEN["codeword"]
    assert "".join(map(str, codeword("vendor-42", None, 32))) == GOLDEN["public codeword"]


def test_codewords_look_like_coin_tosses():
    key = Key(SECRET, id="k")
    words = np.stack([codeword(f"id-{i}", key, 256) for i in range(400)])
    assert words.mean() == pytest.approx(0.5, abs=0.01)
    agreement = (words[:, None] == words[None]).mean(axis=2)[np.triu_indices(400, 1)]
    assert agreement.std() == pytest.approx(0.5 / 16, rel=0.03)


def _shown(text: str) -> bool:
    forms = [SECRET.decode(), base64.b64encode(SECRET).decode(), SECRET.hex(), repr(SECRET)]
    return any(form in text for form in forms)


def test_the_secret_is_never_shown(tmp_path, caplog, additive):
    from coverlock_sdk import wrap

    path = _write(
        tmp_path, [{"id": "k", "secret": base64.b64encode(SECRET).decode(), "created": ""}]
    )
    ring = Keyring.load(path)
    locked = wrap(additive, key=ring)
    for value in (ring, ring.primary, locked, vars(locked), [ring]):
        assert not _shown(repr(value))
        assert not _shown(str(value))
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("%s %r", ring, ring.primary)
    assert not _shown(caplog.text)
    try:
        locked.verify("no such file", "id")
    except Exception as error:
        full = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert not _shown("".join(full.format()))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(ring.primary)


@pytest.mark.parametrize("case", ["malformed", "incomplete", "duplicate", "newer", "rotated"])
def test_no_frame_of_an_error_holds_a_secret(tmp_path, case):
    good = {"id": "k", "secret": base64.b64encode(SECRET).decode(), "created": ""}
    bad = {"malformed": {**good, "secret": "?"}, "incomplete": {**good, "created": None}}
    path = _write(tmp_path, [good, bad.get(case, good)] if case != "rotated" else [good])
    if case == "newer":
        path.write_text(path.read_text().replace('"coverlock_keys": 3', '"coverlock_keys": 4'))
    with pytest.raises(KeyringError) as caught:
        generate_key(path, id="k", rotate=True) if case == "rotated" else Keyring.load(path)
    inner = caught.value.with_traceback(caught.tb.tb_next)  # this test itself knows the secret
    full = traceback.TracebackException.from_exception(inner, capture_locals=True)
    assert not _shown("".join(full.format()))


def test_generated_files_are_private_and_never_overwritten(tmp_path):
    path = tmp_path / "key.json"
    key = generate_key(path, id="first")
    assert Keyring.load(path).primary == key
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyringError, match="exists"):
        generate_key(path)
    assert Keyring.load(path).primary == key


def test_rotation_puts_the_new_key_first_and_keeps_the_old(tmp_path):
    path = tmp_path / "key.json"
    old = generate_key(path, id="old")
    new = generate_key(path, id="new", rotate=True)
    assert Keyring.load(path).keys == (new, old)
    with pytest.raises(KeyringError, match="already has a key 'new'"):
        generate_key(path, id="new", rotate=True)


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")
def test_a_key_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "key.json"
    generate_key(path)
    path.chmod(0o644)
    with pytest.raises(KeyringError, match="chmod 600"):
        Keyring.load(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"coverlock_keys": 3}',
        '{"coverlock_keys": 3, "keys": []}',
        '{"coverlock_keys": 3, "keys": [{"id": "a", "created": "", "secret": "short"}]}',
        '{"coverlock_keys": 3, "keys": [{"id": "a", "created": "", "secret": "?"}]}',
        '{"coverlock_keys": 99, "keys": []}',
    ],
)
def test_malformed_key_files_are_explained(tmp_path, content):
    path = tmp_path / "key.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeyringError):
        Keyring.load(path)


def test_what_is_not_a_key_is_refused(tmp_path):
    with pytest.raises(KeyringError, match="is not a key"):
        as_keyring(42)
    with pytest.raises(KeyringError, match="at least 32 bytes"):
        Key(b"short", id="k")
    with pytest.raises(KeyringError, match="same identifier"):
        Keyring([Key(SECRET, id="a"), Key(SECRET[::-1], id="a")])
    with pytest.raises(KeyringError, match="no key file"):
        as_keyring(tmp_path / "missing.json")


def _write(folder, entries):
    path = folder / "ring.json"
    path.write_text(json.dumps({"coverlock_keys": 3, "keys": entries}))
    path.chmod(0o600)
    return path
