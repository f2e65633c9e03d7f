"""Limits on requests and rejections.

An attacker who searches for a forgery through the service needs a thousand rejections for one
message. So the service counts rejections of each message, across all callers in 30 days and per
caller in a day. A spent budget refills slowly. Until then, nobody gets an answer about that
message, because even "accepted" would tell the attacker something.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

from limits import RateLimitItem, RateLimitItemPerDay, RateLimitItemPerSecond
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError
from limits.storage import storage_from_string

from coverlock_plugins.service.access import Caller
from coverlock_plugins.service.refusals import RefusalError
from coverlock_sdk import CoverLockError

DAYS = 30
SLOTS = 65_536
"""Messages share this many budgets: invented ones cannot fill the memory or evict a spent one."""

Rejected = Callable[[], Awaitable[None]]


class Budgets:
    """Counts requests and rejections, in memory or in a Redis shared by several services."""

    def __init__(self, rejections: int, storage: str = "memory://") -> None:
        self._limiter = SlidingWindowCounterRateLimiter(_opened(storage))  # type: ignore[arg-type]
        self._for_all = RateLimitItemPerDay(rejections, DAYS, "all")
        self._for_one = RateLimitItemPerDay(max(1, rejections // 4), 1, "one")
        self._for_any_message = RateLimitItemPerDay(100 * rejections, 1, "any")
        self._pending: Counter[str] = Counter()

    async def admit(self, caller: Caller) -> None:
        """Count a request of ``caller``, or refuse it."""
        seconds = max(1, math.ceil(caller.burst / caller.rate))
        most = max(caller.burst, int(caller.rate * seconds))
        rate = RateLimitItemPerSecond(most, seconds, "rate")
        if not await self._limiter.hit(rate, caller.name):
            reset, _ = await self._limiter.get_window_stats(rate, caller.name)
            wait = min(reset - time.time(), seconds)
            raise RefusalError(429, f"'{caller.name}' asks too often", retry_after=wait)

    @contextlib.asynccontextmanager
    async def asking(self, caller: Caller, identifier: str | None) -> AsyncIterator[Rejected]:
        """Ask about an identifier, or None for any, while its budget of rejections lasts.

        Call the yielded function if a picture was rejected. Requests in progress count as
        rejected, so that sending many at once gains nothing. Callers who see p-values have no
        budget: they can search without rejections.
        """
        named = hashlib.sha256(canonical(identifier).encode()).digest()
        slot = str(int.from_bytes(named[:8], "big") % SLOTS)
        budgets: list[tuple[RateLimitItem, tuple[str, ...]]] = []
        if "detail" not in caller.scopes:
            budgets = [
                (self._for_all, (slot,)),
                (self._for_one, (caller.name, slot)),
                (self._for_any_message, (caller.name,)),
            ]
        under_way = Counter(item.key_for(*names) for item, names in budgets)
        self._pending.update(under_way)
        try:
            for item, names in budgets:
                reset, left = await self._limiter.get_window_stats(item, *names)
                if left < self._pending[item.key_for(*names)]:
                    raise _spent(reset)

            async def rejected() -> None:
                for item, names in budgets:
                    if not await self._limiter.hit(item, *names):
                        raise _spent(time.time() + 3600)  # another replica was faster

            yield rejected
        finally:
            self._pending -= under_way


def canonical(identifier: str | None) -> str:
    """The same text for all spellings of an identifier; None means any identifier."""
    if identifier is None:
        return "any"
    return "id:" + unicodedata.normalize("NFKC", identifier).casefold().strip()


def _opened(storage: str) -> object:
    options = {"implementation": "redispy"} if storage.startswith("redis") else {}
    try:
        return storage_from_string(f"async+{storage}", wrap_exceptions=True, **options)
    except ConfigurationError as error:
        raise CoverLockError(
            f"limits cannot be kept in '{storage}' ({error}): pass the address of a Redis, such as "
            "redis://HOST:6379, and install coverlock-sdk[redis]"
        ) from None


def _spent(reset: float) -> RefusalError:
    wait = max(60.0, reset - time.time())
    return RefusalError(429, "too many pictures were rejected for this message", retry_after=wait)
