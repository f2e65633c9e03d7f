import base64
import hashlib
import json
import logging
import os
import pickle
import traceback

import numpy as np
import pytest

from coverlock_sdk import Key, Keyring, wrap
from coverlock_sdk.errors import KeyringError
from coverlock_sdk.locking.keys import as_keyring, codeword, generate_key

SECRET = b"0123456789abcdef0123456789abcdef"
GOOD = {"id": "k", "secret": base64.b64encode(SECRET).decode(), "created": ""}


def test_golden_values():
    """What a key determines must never change, on any platform: marked pictures depend on it."""
    key = Key(SECRET, id="golden")
    assert key.fingerprint == "ee3cff22adeee710"
    for chosen, golden in ((key, "6cc864c0"), (None, "370550a3")):
        assert np.packbits(codeword("vendor-42", chosen, 32)).tobytes().hex() == golden
    long = np.packbits(codeword("vendor-42", key, 600))
    assert hashlib.sha256(long).hexdigest().startswith("d03a2fbd24ec2d17")


def _shown(text: str) -> bool:
    forms = [SECRET.decode(), base64.b64encode(SECRET).decode(), SECRET.hex(), repr(SECRET)]
    return any(form in text for form in forms)


def test_the_secret_is_never_shown(tmp_path, caplog, additive):
    ring = Keyring.load(_write(tmp_path, [GOOD]))
    locked = wrap(additive, key=ring)
    for value in (ring, ring.keys[0], locked, vars(locked), [ring]):
        assert not _shown(repr(value))
        assert not _shown(str(value))
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").warning("%s %r", ring, ring.keys[0])
    assert not _shown(caplog.text)
    try:
        locked.verify("no such file", "id")
    except Exception as error:
        full = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert not _shown("".join(full.format()))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(ring.keys[0])


@pytest.mark.parametrize("case", ["malformed", "incomplete", "duplicate", "newer", "rotated"])
def test_no_frame_of_an_error_holds_a_secret(tmp_path, case):
    bad = {"malformed": {**GOOD, "secret": "?"}, "incomplete": {**GOOD, "created": None}}
    path = _write(tmp_path, [GOOD, bad.get(case, GOOD)] if case != "rotated" else [GOOD])
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
    assert Keyring.load(path).keys[0] == key
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyringError, match="exists"):
        generate_key(path)
    assert Keyring.load(path).keys[0] == key


def test_rotation_puts_the_new_key_first_and_keeps_the_old(tmp_path):
    path = tmp_path / "key.json"
    old = generate_key(path, id="old")
    new = generate_key(path, id="new", rotate=True)
    assert Keyring.load(path).keys == (new, old)
    with pytest.raises(KeyringError, match="already has a key 'new'"):
        generate_key(path, id="new", rotate=True)


@pytest.mark.parametrize(
    "content",
    [
        "",
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
