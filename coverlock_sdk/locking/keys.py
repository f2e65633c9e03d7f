"""Secret keys: how they are stored, and how they stay out of sight.

Everything secret is derived from a key by HMAC-SHA256 on the host, identically on every platform,
so networks and bundles hold no secret.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import numpy as np

from coverlock_sdk.arrays import Bits
from coverlock_sdk.documents import DocumentError, parsed, read_file
from coverlock_sdk.errors import KeyringError, MessageError
from coverlock_sdk.files import write_atomically

KEY_BYTES = 32
KEY_FILE_VARIABLE = "COVERLOCK_KEY_FILE"
_FORMAT = 3
"""Version of the key file's format."""

_Name = Annotated[str, msgspec.Meta(max_length=200)]


@dataclass(frozen=True)
class _Entry:
    """A key in its file, where the secret is base64."""

    id: _Name
    created: _Name
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class _KeyFile:
    """The content of a key file. The first key marks."""

    coverlock_keys: int
    keys: list[_Entry]


class Key:
    """One secret with an identifier. Printing, logging or pickling it never shows the secret."""

    __slots__ = ("_digest", "fingerprint", "id")

    def __init__(self, secret: bytes, id: str) -> None:
        if len(secret) < KEY_BYTES:
            raise KeyringError(
                f"a key needs at least {KEY_BYTES} bytes, but this one has {len(secret)}"
            )
        # Only this keyed hash object refers to the secret, and it has no way to print it. Python
        # does not wipe what it frees, so memory and core dumps may still hold copies.
        self._digest = hmac.new(secret, digestmod=hashlib.sha256)
        self.id = id
        self.fingerprint = self.derive("fingerprint").hex()[:16]
        """A short public name of the secret, for manifests and logs."""

    def derive(self, label: str, counter: int = 0) -> bytes:
        """32 bytes that depend on the secret, on ``label`` and on ``counter``."""
        digest, name = self._digest.copy(), label.encode()
        digest.update(len(name).to_bytes(4, "big") + name + counter.to_bytes(4, "big"))
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Key(id={self.id!r}, fingerprint={self.fingerprint!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key cannot be pickled: pass the path of the key file instead")


PUBLIC_SECRET = b"CoverLock without a key: public!"
PUBLIC_KEY = Key(PUBLIC_SECRET, id="public")
"""Used if there is no key: the paper's seed-determined subset, which everyone knows."""


def require_text(identifier: str) -> str:
    """Return ``identifier``, or refuse it if it is empty or not text."""
    if not identifier.strip():
        raise MessageError("the identifier is empty: give a name, such as order-4711")
    try:
        identifier.encode()
    except UnicodeEncodeError:
        raise MessageError("the identifier contains characters that are not text") from None
    return identifier


def codeword(identifier: str, key: Key | None, bits: int) -> Bits:
    """The message of ``bits`` bits that stands for ``identifier``. Without the key it looks
    uniformly random, so the p-value of a verdict is exact."""
    key, label = key or PUBLIC_KEY, f"codeword/{require_text(identifier)}"
    blocks = [key.derive(label, counter) for counter in range(-(-bits // 256))]
    return np.unpackbits(np.frombuffer(b"".join(blocks), dtype=np.uint8))[:bits]


class Keyring:
    """The active keys of a deployment. The first one marks; all of them verify."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys = tuple(keys)
        identifiers = [key.id for key in self.keys]
        if not self.keys:
            raise KeyringError("a keyring needs at least one key: make one with 'coverlock keygen'")
        if len(set(identifiers)) != len(identifiers):
            raise KeyringError(f"two keys of a ring have the same identifier: {identifiers}")

    def __repr__(self) -> str:
        return f"Keyring({list(self.keys)!r})"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Keyring:
        """Read a key file, and refuse it if other users can read it."""
        keys = _read_keys(Path(path))
        if isinstance(keys, str):
            raise KeyringError(keys)
        return cls(keys)


def generate_key(path: str | os.PathLike[str], id: str | None = None, rotate: bool = False) -> Key:
    """Make a new key in the file ``path``; with ``rotate``, put it before the keys already there.

    Existing keys are never overwritten, because pictures marked with them would no longer verify.
    """
    path = Path(path)
    if path.exists() and not rotate:
        raise KeyringError(f"{path} exists: choose another name, or add a key to it with --rotate")
    taken = [key.id for key in Keyring.load(path).keys] if rotate else []
    created = datetime.now(timezone.utc)
    identifier = id or created.strftime("%Y-%m-%d-") + secrets.token_hex(2)
    if identifier in taken:
        raise KeyringError(f"{path} already has a key '{identifier}': choose another identifier")
    problem = _add_key(path, identifier, created.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if problem:
        raise KeyringError(problem)
    return Keyring.load(path).keys[0]


# Only the two functions below hold secrets in variables. They return errors as sentences and never
# raise, so that no traceback can show their variables.


def _read_keys(path: Path) -> list[Key] | str:
    """The keys in a key file, or what is wrong with it."""
    try:
        if "\0" in str(path) or not path.exists():
            return f"there is no key file {path}: make one with 'coverlock keygen'"
        file = parsed(read_file(path), _KeyFile)
        if file.coverlock_keys != _FORMAT:
            return f"{path} was written by another version: make a key with 'coverlock keygen'"
        if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return f"other users can read {path}: run 'chmod 600 {path}' first"
        return [Key(entry.secret, entry.id) for entry in file.keys]
    except OSError as error:
        return f"{path} cannot be read ({error.strerror or error})"
    except (DocumentError, ValueError, KeyringError):
        return f"{path} is not a CoverLock key file: make one with 'coverlock keygen'"


def _add_key(path: Path, identifier: str, created: str) -> str | None:
    """Put a new secret first in the key file. Returns what went wrong, or None."""
    entry = _Entry(identifier, created, secrets.token_bytes(KEY_BYTES))
    try:
        earlier = parsed(read_file(path), _KeyFile).keys if path.exists() else []
        content = msgspec.json.encode(_KeyFile(_FORMAT, [entry, *earlier]))
        write_atomically(path, msgspec.json.format(content) + b"\n", mode=0o600)
    except OSError as error:
        return f"{path} cannot be written ({error.strerror or error})"
    except DocumentError as error:
        return f"{path} is not a key file any more ({error})"
    return None


def as_keyring(key: Any) -> Keyring | None:
    """Turn any form of key (None, a key, a list, a keyring, a key file) into a keyring."""
    if key is None or isinstance(key, Keyring):
        return key
    if isinstance(key, Key):
        return Keyring([key])
    if isinstance(key, str | os.PathLike):
        return Keyring.load(key)
    if isinstance(key, list | tuple) and all(isinstance(item, Key) for item in key):
        return Keyring(key)
    raise KeyringError(
        f"a {type(key).__name__} is not a key: "
        "pass a Key, a list of them, or the path of a key file"
    )
