"""Measurements kept one by one, so that an interrupted run goes on where it stopped.

One SQLite file holds a row per measurement, under everything it depends on. A row is written when
it is complete: Ctrl-C, a power cut or a full disk cost at most the one that was being made.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coverlock_bench.forecast import OverallProgress
from coverlock_bench.photos import to_float
from coverlock_sdk import Key, ProtectedWatermark, Watermark
from coverlock_sdk.errors import CoverLockError, WeakMarkWarning
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.plugin_calls import decode, embed, working_size
from coverlock_sdk.progress import progress
from coverlock_sdk.testing import natural_pictures

Item = TypeVar("Item")


class NotMeasuredError(CoverLockError):
    """A figure cannot be had here: too few pictures, or no time; the rest of a run goes on."""


class Ledger:
    """Rows of figures by what they depend on; without a path they live as long as the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._own: sqlite3.Connection | None = None

    def recall(self, **key: Any) -> Any | None:
        """The figures kept under ``key``, or None."""
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
                "or repair the file, and run the same command again; what is in it is not lost"
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
    """What measurements of one command share: a ledger, and a moment to begin nothing new after."""

    ledger: Ledger = field(default_factory=Ledger)
    deadline: float | None = None
    """In seconds of ``time.monotonic``; None when there is no hurry."""
    quiet: bool = True
    overall: OverallProgress | None = None
    """The progress of the whole run, where its stages are known beforehand."""
    out_of_time: bool = False
    """Whether something was left out because the deadline had passed."""

    _known: dict[int, tuple[Any, str]] = field(default_factory=dict, repr=False)

    def fingerprint(self, marker: Watermark | ProtectedWatermark) -> str:
        """The fingerprint of a watermark or lock, which is taken once in a session."""
        if id(marker) not in self._known:
            self._known[id(marker)] = marker, fingerprint(marker)
        return self._known[id(marker)][1]

    def key(self) -> Key:
        """The vendor's key, which no attacker has: made for this run, and kept in its ledger."""
        secret = self.ledger.recall(kind="key") or secrets.token_hex(32)
        self.ledger.keep(secret, kind="key")
        return Key(bytes.fromhex(secret), id="bench", created="for this run")

    def steps(self, items: Sequence[Item], label: str) -> Iterator[Item]:
        """``items`` one by one, with progress."""
        if self.overall is not None:
            return self.overall.steps(items, label)
        return progress(items, label, quiet=self.quiet)

    def may_begin(self) -> bool:
        """Whether there is time for another measurement; what is kept costs none."""
        late = self.deadline is not None and time.monotonic() > self.deadline
        self.out_of_time |= late
        return not late

    def once(self, measure: Callable[[], Any], **key: Any) -> Any | None:
        """What is kept under ``key``, or what ``measure`` finds; None where there is no time."""
        found = self.ledger.recall(**key)
        if found is None and self.may_begin():
            found = measure()
            self.ledger.keep(found, **key)
        return found


@contextmanager
def resumable(kept: Path) -> Iterator[None]:
    """Answer Ctrl-C with one sentence: nothing that is in ``kept`` was lost."""
    try:
        yield
    except KeyboardInterrupt:
        raise CoverLockError(
            f"interrupted; what was measured is kept in {kept}, and the same command goes on"
        ) from None


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits that stand for arrays and whatever else has a ``repr``."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            total.update(f"{part.dtype}{part.shape}".encode())
            total.update(np.ascontiguousarray(part).tobytes())
        else:
            total.update(repr(part).encode())
    return total.hexdigest()[:16]


def fingerprint(marker: Watermark | ProtectedWatermark) -> str:
    """Changes when the networks behind a name do: a digest of what it makes of a fixed picture."""
    watermark = marker if isinstance(marker, Watermark) else marker.watermark
    [picture] = natural_pictures(1, working_size(watermark))
    message = (np.arange(marker.bits) % 2).astype(np.uint8)
    if isinstance(marker, Watermark):
        marked = embed(watermark, to_float(picture)[None], message[None])
        return digest(watermark.name, rounded(marked), rounded(decode(watermark, marked)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakMarkWarning)  # the picture is synthetic
        marked = marker.embed([picture], message)[0]
    shown: list[Any] = []
    if isinstance(marker, LockedWatermark):
        shown += [rounded(logits) for logits in marker.logits([marked])]
        lock = marker.lock
        shown += [lock.decoder, lock.floors, marker.binder.rounds]
        shown += [] if lock.hash is None else [lock.hash.name, lock.hash.calibration]
    else:
        shown.append(rounded(marker.decode([marked])))
    scores = marker.scores([marked])
    if scores is not None:
        shown.append(rounded(scores))
    return digest(watermark.name, marker.bits, marked, *shown)


def rounded(values: Any) -> Any:
    """What other machines and thread counts compute alike; without negative zeros."""
    return np.round(np.asarray(values, dtype=np.float64), 2) + 0.0


def _canonical(key: dict[str, Any]) -> str:
    return json.dumps(key, sort_keys=True)
