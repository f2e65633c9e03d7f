"""Stores measurements one by one, so that an interrupted run resumes where it stopped.

One SQLite file has a row per measurement; its key is everything that the measurement depends on.
Only complete rows are written: Ctrl-C, a power cut or a full disk cost at most the current one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from coverlock_bench.photos import to_float
from coverlock_sdk import CoverLockError, Key, LockedWatermark, ProtectedWatermark, Watermark
from coverlock_sdk.cli import INTERRUPTED
from coverlock_sdk.errors import WeakMarkWarning
from coverlock_sdk.plugin_calls import decode, embed, working_size
from coverlock_sdk.progress import progress
from coverlock_sdk.testing import natural_pictures

Item = TypeVar("Item")

JUDGES = (
    "coverlock_sdk.calibration",
    "coverlock_sdk.contract",
    "coverlock_sdk.frames",
    "coverlock_sdk.hashing",
    "coverlock_sdk.images",
    "coverlock_sdk.locking",
    "coverlock_sdk.plugin_calls",
    "coverlock_bench.attacks",
    "coverlock_bench.auditing.trials",
    "coverlock_bench.rt",
    "coverlock_bench.settings",
    "coverlock_bench.trial",
)
"""Modules and packages whose code affects measurements."""


class NotMeasuredError(CoverLockError):
    """A figure cannot be measured here, for example for lack of pictures; the run continues."""


class Ledger:
    """Rows of figures by what they depend on; without a path, they last as long as the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._own: sqlite3.Connection | None = None

    def recall(self, **key: Any) -> Any | None:
        """The figures stored under ``key``, or None."""
        found = self._run("SELECT figures FROM measurements WHERE key = ?", _canonical(key))
        return json.loads(found[0][0]) if found else None

    def keep(self, figures: Any, **key: Any) -> None:
        """Remember ``figures`` under ``key``."""
        self._run(
            "INSERT OR REPLACE INTO measurements VALUES (?, ?)",
            _canonical(key),
            json.dumps(figures),
        )

    def _run(self, statement: str, *values: str) -> list[Any]:
        try:
            with self._connection() as connection:
                return connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise CoverLockError(
                f"the measurements in {self._path} cannot be read or written ({error}): make room "
                "or repair the file, and run the same command again; its content is not lost"
            ) from None

    def _connection(self) -> sqlite3.Connection:
        if self._own is None:
            if self._path:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._own = sqlite3.connect(self._path or ":memory:", timeout=60)
            self._own.execute(
                "CREATE TABLE IF NOT EXISTS measurements (key TEXT PRIMARY KEY, figures TEXT)"
            )
        return self._own


@dataclass
class Session:
    """What the measurements of one command share: a ledger, and the progress of the command."""

    ledger: Ledger = field(default_factory=Ledger)
    quiet: bool = True
    stages: int | None = None
    """How many stages the command has, if that is known in advance."""
    stage: int = 0
    """The number of the current stage, from 1."""

    _known: dict[int, tuple[Any, str]] = field(default_factory=dict, repr=False)

    def fingerprint(self, marker: Watermark | ProtectedWatermark) -> str:
        """The fingerprint of a watermark or lock, computed once per session."""
        if id(marker) not in self._known:
            self._known[id(marker)] = marker, fingerprint(marker)
        return self._known[id(marker)][1]

    def key(self) -> Key:
        """The vendor's key, which no attacker has, made for this run and stored in its ledger."""
        secret = self.ledger.recall(kind="key") or secrets.token_hex(32)
        self.ledger.keep(secret, kind="key")
        return Key(bytes.fromhex(secret), id="bench")

    def steps(self, items: Sequence[Item], label: str) -> Iterator[Item]:
        """``items`` one by one, as the next stage of the run, with progress."""
        self.stage += 1
        number = f"{self.stage}/{self.stages} " if self.stages else ""
        return progress(items, f"{number}{label}", quiet=self.quiet)

    def once(self, measure: Callable[[], Any], **key: Any) -> Any:
        """The stored value of ``key``, or else the result of ``measure``."""
        [found] = self.each([key], lambda: [measure()])
        return found

    def each(self, keys: Sequence[dict[str, Any]], measure: Callable[[], list[Any]]) -> list[Any]:
        """The stored values of ``keys``; if any is missing, all are measured."""
        rows = [self.ledger.recall(**key) for key in keys]
        if None in rows:
            rows = measure()
            for key, row in zip(keys, rows, strict=True):
                self.ledger.keep(row, **key)
        return rows


@contextmanager
def resumable(kept: Path, session: Session | None = None) -> Iterator[None]:
    """On Ctrl-C, say how far the run got and how to resume it."""
    try:
        yield
    except KeyboardInterrupt:
        far = f" in stage {session.stage} of {session.stages}" if session and session.stages else ""
        click.echo(f"interrupted{far}; run the same command to resume from {kept}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits that stand for arrays and anything else with a ``repr``."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).tobytes())
        else:
            total.update(repr(part).encode())
    return total.hexdigest()[:16]


def fingerprint(marker: Watermark | ProtectedWatermark) -> str:
    """A digest that changes with everything that a verdict depends on.

    That is the networks (by their answers on a fixed picture), the settings of the lock, and the
    code that marks, forges and judges.
    """
    watermark = marker if isinstance(marker, Watermark) else marker.watermark
    [picture] = natural_pictures(1, working_size(watermark))
    message = (np.arange(marker.bits) % 2).astype(np.uint8)
    shown: list[Any] = [judging_code(), watermark.name, marker.bits]
    if isinstance(marker, Watermark):
        marked = embed(watermark, to_float(picture)[None], message[None])
        return digest(*shown, rounded(marked), rounded(decode(watermark, marked)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)  # the picture is synthetic
        marked = marker.embed([picture], message)[0]
    shown += [marked, marker.fpr]
    if isinstance(marker, LockedWatermark):
        lock, binder = marker.lock, marker.binder
        shown += [rounded(logits) for logits in marker.logits([marked])]
        apart = ("hash", "keyring", "registry")  # these show in the marked picture
        shown += [getattr(lock, each.name) for each in fields(lock) if each.name not in apart]
        shown += [lock.registry is not None, binder.psnr, binder.harden, binder.rounds]
        shown += [] if lock.hash is None else [lock.hash.name, lock.hash.calibration]
    else:
        shown.append(rounded(marker.decode([marked])))
    return digest(*shown)


@lru_cache
def judging_code(modules: tuple[str, ...] = JUDGES) -> str:
    """A digest of the source code of some modules, and of all modules of packages."""
    total = hashlib.sha256()
    for name in modules:
        found = find_spec(name)
        assert found is not None, name
        folders = found.submodule_search_locations
        files = [file for folder in folders or () for file in Path(folder).rglob("*.py")]
        for file in sorted(files) or [Path(str(found.origin))]:
            total.update(file.read_bytes())
    return total.hexdigest()[:16]


def rounded(values: Any) -> Any:
    """Round to what all machines and thread counts agree on; drop negative zeros."""
    return np.round(np.asarray(values, dtype=np.float64), 2) + 0.0


def _canonical(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
