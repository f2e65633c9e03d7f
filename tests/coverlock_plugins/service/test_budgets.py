"""Budgets of rejections: what a search for a forgery by asking gets out of a service."""

import asyncio
import contextlib

import numpy as np
import pytest

from coverlock_plugins.service import budgets
from coverlock_plugins.service.access import Caller, Callers, Limits, digest
from coverlock_plugins.service.budgets import Budgets, canonical
from coverlock_plugins.service.refusals import RefusalError
from coverlock_sdk import Verifier
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.verifier.verifier import Settings
from tests.served import QUICK, ask, png, served

HOUR, DAY = 3600.0, 86400.0
WALKERS = [f"walker-{number}" for number in range(10)]


@pytest.fixture
def clock(monkeypatch):
    """The time as the budgets see it, in a list of one."""
    now = [1.8e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


async def rejected(kept: Budgets, caller: str, identifier: str, seconds: float = 0.0) -> bool:
    """Whether a caller could have a picture rejected for an identifier."""
    try:
        async with kept.asking(Caller(caller, "0"), identifier) as spend:
            if seconds:
                await asyncio.sleep(seconds)
            await spend()
    except RefusalError:
        return False
    return True


def test_a_walker_with_ten_tokens_gets_at_most_two_hundred_rejections_in_a_month(clock):
    """1,000 to 1,300 are the median of a walk that only sees decisions; they took a day."""
    kept = Budgets(Limits().rejections)

    async def walk() -> int:
        got = 0
        for _ in range(int(30 * DAY / HOUR)):
            for walker in WALKERS:
                while await rejected(kept, walker, "alice"):
                    got += 1
            clock[0] += HOUR
        return got

    for start in (0.0, 29.9 * DAY):  # just before its window ends a walker gets the most
        clock[0] = 600 * 30 * DAY + start
        kept = Budgets(Limits().rejections)
        assert asyncio.run(walk()) <= 200


def test_one_caller_alone_does_not_spend_the_budget_of_all_in_a_day(clock):
    kept = Budgets(100)

    async def spend() -> list[int]:
        return [sum([await rejected(kept, name, "a") for _ in range(200)]) for name in WALKERS]

    assert asyncio.run(spend()) == [25, 25, 25, 25] + [0] * 6


def test_many_requests_at_once_gain_nothing(clock):
    kept = Budgets(4)

    async def ask_at_once() -> int:
        return sum(await asyncio.gather(*(rejected(kept, name, "a", 0.01) for name in WALKERS)))

    assert asyncio.run(ask_at_once()) == 4


def test_made_up_messages_neither_fill_the_memory_nor_revive_a_spent_budget(clock, monkeypatch):
    """100,001 identifiers pushed a spent budget out."""
    monkeypatch.setattr(budgets, "SLOTS", 64)
    kept = Budgets(100)

    async def attack() -> None:
        for walker in WALKERS:
            while await rejected(kept, walker, "alice"):
                pass
        for number in range(2000):
            await rejected(kept, f"crowd-{number % 5}", f"{number}")
        assert not await rejected(kept, "new", "alice")
        assert len(kept._limiter.storage.storage) < 64 * 30

    asyncio.run(attack())


def test_all_spellings_of_an_identifier_share_one_budget(bundle):
    """After a 429, 40 of 40 other spellings of the same digits were answered."""
    clean = png(np.full((160, 160, 3), 120, np.uint8))
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1))
    with served(verifier, limits=Limits(rejections=12)) as client:
        first = [ask(client, clean, id="order-01").status_code for _ in range(3)]
        others = [ask(client, clean, id=f"Order-{digits}") for digits in ("01", "\uff10\uff11")]
        assert first == [200] * 3
        assert [other.status_code for other in others] == [429] * 2
        assert int(others[0].headers["Retry-After"]) >= 60
        assert ask(client, clean, id="bob").status_code == 200


@pytest.mark.parametrize("spelling", [" Alice ", "ALICE", "\uff41lice", "al\uff49ce"])
def test_identifiers_that_look_alike_share_a_budget(spelling):
    assert canonical(spelling) == canonical("alice") != canonical("alicia")
    assert canonical("any") != canonical(None)


def test_identification_has_a_budget_too_and_whoever_sees_p_values_has_none(bundle, photos):
    plain = Caller("plain", digest("plain"), ("identify",), **QUICK)
    own = Caller("own", digest("own"), ("identify", "detail"), **QUICK)
    callers = Callers((plain, own))
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1))
    limits = Limits(rejections=8)
    with served(verifier, callers, limits=limits, names=["alice", "bob"]) as client:

        def statuses(name: str) -> list[int]:
            headers = {"Authorization": f"Bearer {name}"}
            content = png(photos[3])
            return [
                client.post("/identify", content=content, headers=headers).status_code
                for _ in range(4)
            ]

        assert statuses("plain") == [200, 200, 429, 429]
        assert statuses("own") == [200] * 4


def test_no_caller_exceeds_their_rate(clock):
    caller = Caller("shop", "0", rate=0.5, burst=5)
    kept = Budgets(100)

    async def ask_for(seconds: int) -> int:
        got = 0
        for number in range(4 * seconds):
            clock[0] += number % 4 == 0  # four at once, every second
            with contextlib.suppress(RefusalError):
                await kept.admit(caller)
                got += 1
        with pytest.raises(RefusalError) as refusal:
            await kept.admit(caller)
        assert 1 <= int(refusal.value.headers["Retry-After"]) <= 10
        return got

    assert 90 <= asyncio.run(ask_for(200)) <= 110


def test_a_storage_that_is_not_there_is_said(bundle):
    with pytest.raises(CoverLockError, match="cannot be kept in 'nowhere://'"):
        Budgets(100, "nowhere://")


def test_limits_are_chosen_by_name():
    assert Limits.chosen([]) == Limits()
    chosen = Limits.chosen(["rejections=7", " seconds = 2.5", "counted_in=redis://a:1"])
    assert (chosen.rejections, chosen.seconds, chosen.counted_in) == (7, 2.5, "redis://a:1")
    for wrong in ("rejections", "rejections=0", "in_flight=many", "pixels=999999999", "rate=1"):
        with pytest.raises(CoverLockError, match="use NAME=VALUE for one of bytes, pixels"):
            Limits.chosen([wrong])
