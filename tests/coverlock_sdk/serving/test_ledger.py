from __future__ import annotations

import os
import pickle
import tempfile
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coverlock_sdk.serving import ledger as ledgers
from coverlock_sdk.serving.access import RateLimit
from coverlock_sdk.serving.admission import Shares
from coverlock_sdk.serving.ledger import Ledger, SharedRates, SharedShares


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["shop", "lab"]), st.integers(0, 2), st.floats(0, 3), st.booleans()
        ),
        max_size=30,
    )
)
def test_two_processes_together_limit_as_one_does(steps):
    now = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        several = [SharedRates(Ledger(path, 2, lambda: now), "rate") for _ in range(2)]
        one = RateLimit(lambda: now)
        for name, taken, pause, which in steps:
            now += pause
            expected = one.wait(name, rate=0.7, burst=3, taken=taken)
            assert abs(several[which].wait(name, 0.7, 3, taken) - expected) < 1e-9


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans()), max_size=30),
)
def test_two_processes_share_one_set_of_places(steps):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        several = [SharedShares(Ledger(path, 2), "places", 8) for _ in range(2)]
        one = Shares(8, each=5)
        for shares in several:
            shares.each = 5
        held: list[tuple[str, int]] = []
        for holder, amount, which in steps:
            taken = one.take(holder, amount)
            assert several[which].take(holder, amount) == taken
            if taken:
                held.append((holder, amount))
            elif held:
                one.give(*held[-1])
                several[which].give(*held.pop())


def test_threads_never_get_more_than_there_is(tmp_path):
    handles = [Ledger(tmp_path / "ledger", 4) for _ in range(4)]
    got = []

    def ask(ledger: Ledger) -> None:
        rates = SharedRates(ledger, "rate")
        got.extend(rates.wait("shop", rate=1e-9, burst=40) == 0 for _ in range(25))

    threads = [threading.Thread(target=ask, args=(ledger,)) for ledger in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), sum(got)) == (100, 40)


def test_what_a_dead_process_held_is_given_back(tmp_path):
    ledger = Ledger(tmp_path / "ledger", 2)
    shares = SharedShares(ledger, "places", 3)
    assert shares.take("shop", 3)
    other = SharedShares(pickle.loads(pickle.dumps(ledger)), "places", 3)
    assert not other.take("lab")
    ledger.forget(os.getpid())
    assert other.take("lab", 3)


def test_names_that_strangers_choose_do_not_fill_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, "MOST_BUCKETS", 50)
    monkeypatch.setattr(ledgers, "SWEEP", 10)
    now = 0.0
    ledger = Ledger(tmp_path / "ledger", 2, lambda: now)
    rates = SharedRates(ledger, "rejections")
    for number in range(200):
        assert rates.wait(("shop", str(number)), rate=0.1, burst=2) == 0
    [[count]] = ledger._database().execute("SELECT COUNT(*) FROM buckets").fetchall()
    assert count <= 60
    now = 100.0
    for _ in range(10):
        rates.wait("shop", rate=0.1, burst=2)
    [[count]] = ledger._database().execute("SELECT COUNT(*) FROM buckets").fetchall()
    assert count == 1
