from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.serving.crowd import Crowd, origin
from coverlock_sdk.serving.listening import bind

STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "wait", "stop", "leave"]), st.integers(0, 8)), max_size=60
)


@given(STEPS)
def test_the_longest_waiting_of_the_busiest_origin_goes(steps):
    crowd: Crowd[int] = Crowd(most=3)
    present: set[int] = set()
    waiting: list[int] = []

    def origin_of(connection: int) -> str:
        return "abc"[connection % 3]

    for step, connection in steps:
        if step == "enter" and connection not in present:
            crowd.enter(connection, origin_of(connection))
            present.add(connection)
        elif step == "wait":
            crowd.wait(connection)
            waiting = [*(c for c in waiting if c != connection), connection]
        elif step == "stop":
            crowd.stop_waiting(connection)
            waiting = [c for c in waiting if c != connection]
        elif step == "leave":
            crowd.leave(connection)
            present.discard(connection)
        waiting = [c for c in waiting if c in present]
        goes = crowd.superfluous()
        if len(present) <= 3 or not waiting:
            assert goes is None
            continue
        size = {origin: sum(origin_of(c) == origin for c in present) for origin in "abc"}
        most = max(size[origin_of(c)] for c in waiting)
        assert size[origin_of(goes)] == most
        assert goes == next(c for c in waiting if origin_of(c) == origin_of(goes))


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        (("192.0.2.7", 1), "192.0.2.7"),
        (("::ffff:192.0.2.7", 1), "192.0.2.7"),
        (("2001:db8::1", 1), "2001:db8::/64"),
        (("2001:db8::ffff:1", 1), "2001:db8::/64"),
        (None, ""),
    ],
)
def test_a_client_counts_under_one_address(client, counted):
    assert origin(client) == counted


def test_a_port_that_is_taken_is_an_error_that_names_it():
    [first] = bind("127.0.0.1", 0)
    with first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(CoverLockError, match=f"cannot listen on 127.0.0.1, port {port}"):
            bind("127.0.0.1", port)
