"""Limits that the processes of a service share: one small SQLite file, which each of them opens.

Rates, budgets and places in flight hold over all processes, because each look and each change is
one transaction. A process that dies leaves its places behind until its parent gives them back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any

from coverlock_sdk.serving.access import MOST_BUCKETS
from coverlock_sdk.serving.admission import Shares

SWEEP = 500
"""Changes after which what is not needed any more is thrown away."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS buckets (name TEXT PRIMARY KEY, level REAL, since REAL, full REAL)",
    "CREATE TABLE IF NOT EXISTS held (kind TEXT, holder TEXT, process INTEGER, amount INTEGER, "
    "PRIMARY KEY (kind, holder, process))",
    "CREATE INDEX IF NOT EXISTS by_full ON buckets (full)",
)


class Ledger:
    """The file, shared by ``processes``; it can be sent to them."""

    def __init__(
        self, path: Path, processes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.processes = processes
        self._clock = clock
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None
        self._changes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Ledger, (self.path, self.processes)

    def wait(self, name: str, rate: float, burst: int, taken: int) -> float:
        """As ``RateLimit.wait``, for the bucket ``name``."""
        with self._transaction() as database:
            now = self._clock()
            row = database.execute(
                "SELECT level, since FROM buckets WHERE name = ?", (name,)
            ).fetchone()
            level, since = row or (float(burst), now)
            level = min(burst, level + (now - since) * rate)
            allowed = level >= 1
            level -= taken if allowed else 0
            database.execute(
                "INSERT OR REPLACE INTO buckets VALUES (?, ?, ?, ?)",
                (name, level, now, now + (burst - level) / rate),
            )
            return 0.0 if allowed else (1 - level) / rate

    def take(self, kind: str, holder: str, amount: int, total: int, each: int) -> bool:
        """As ``Shares.take``, of what is called ``kind``."""
        with self._transaction() as database:
            [[of_holder, of_all]] = database.execute(
                "SELECT COALESCE(SUM(CASE WHEN holder = ? THEN amount END), 0), "
                "COALESCE(SUM(amount), 0) FROM held WHERE kind = ?",
                (holder, kind),
            ).fetchall()
            if of_holder + amount > each or of_all + amount > total:
                return False
            self._hold(database, kind, holder, amount)
            return True

    def give(self, kind: str, holder: str, amount: int) -> None:
        """Give some back that this process took."""
        with self._transaction() as database:
            self._hold(database, kind, holder, -amount)

    def forget(self, process: int) -> None:
        """Give back what a process held that is gone."""
        with self._transaction() as database:
            database.execute("DELETE FROM held WHERE process = ?", (process,))

    def _hold(self, database: sqlite3.Connection, kind: str, holder: str, amount: int) -> None:
        database.execute(
            "INSERT INTO held VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
            (kind, holder, os.getpid(), amount),
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Nobody else looks or changes anything meanwhile."""
        with self._lock:
            database = self._database()
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                self._sweep(database)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")

    def _sweep(self, database: sqlite3.Connection) -> None:
        """Forget buckets that are full again, and the fullest of too many: strangers name some."""
        self._changes += 1
        if self._changes % SWEEP:
            return
        database.execute("DELETE FROM buckets WHERE full <= ?", (self._clock(),))
        database.execute(
            "DELETE FROM buckets WHERE name IN (SELECT name FROM buckets ORDER BY full "
            "LIMIT MAX(0, (SELECT COUNT(*) FROM buckets) - ?))",
            (MOST_BUCKETS,),
        )
        database.execute("DELETE FROM held WHERE amount = 0")

    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = sqlite3.connect(
                self.path, timeout=5, isolation_level=None, check_same_thread=False
            )
            self._opened.execute("PRAGMA journal_mode = WAL")
            self._opened.execute("PRAGMA synchronous = OFF")  # it need not outlive the machine
            for table in _TABLES:
                self._opened.execute(table)
        return self._opened


class SharedRates:
    """A ``RateLimit`` of all processes together."""

    def __init__(self, ledger: Ledger, kind: str) -> None:
        self._ledger = ledger
        self._kind = kind

    def wait(self, name: Hashable, rate: float, burst: int, taken: int = 1) -> float:
        """Zero when one more may proceed, which then takes ``taken``; else the seconds until then.

        Names are kept as digests, because an identifier may be long.
        """
        digest = hashlib.sha256(repr((self._kind, name)).encode()).hexdigest()
        return self._ledger.wait(digest, rate, burst, taken)


class SharedShares(Shares):
    """``Shares`` of all processes together."""

    def __init__(self, ledger: Ledger, kind: str, total: int) -> None:
        super().__init__(total)
        self._ledger = ledger
        self._kind = kind

    def take(self, holder: Hashable, amount: int = 1) -> bool:
        """Take some more, if it is there."""
        return self._ledger.take(self._kind, repr(holder), amount, self.total, self.each)

    def give(self, holder: Hashable, amount: int = 1) -> None:
        """Give some back."""
        self._ledger.give(self._kind, repr(holder), amount)
