"""What strangers did to the service, and what other callers notice of it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import struct
import time

import httpx
import numpy as np
import pytest

from coverlock_sdk import Verifier
from coverlock_sdk.serving.admission import Limits, Shares
from coverlock_sdk.serving.readiness import FRESH_SECONDS
from tests.coverlock_sdk.images.test_pictures import chained_pages
from tests.served import DETAILED, PLAIN, ask, png, raw_request, served
from tests.toy_bundle import put_runtime


@pytest.fixture(scope="module")
def service(bundle):
    limits = Limits(in_flight=8, seconds=8, idle_seconds=1, decode_seconds=0.2)
    with served(Verifier.open(bundle, "cpu", threads=1), limits=limits) as client:
        yield client


def connected(client, source="127.0.0.1") -> socket.socket:
    address = client.base_url.host, client.base_url.port
    try:
        return socket.create_connection(address, 10, source_address=(source, 0))
    except OSError:
        pytest.skip(f"{source} is no address of this machine")


def closed_after(connection: socket.socket) -> float:
    """Seconds until the other side hangs up."""
    start = time.monotonic()
    while connection.recv(4096):
        pass
    return time.monotonic() - start


def test_slow_senders_keep_nobody_waiting(service, marked):
    """A place was taken before the body came: 27 of 40 requests of another caller got a 503."""
    slow = [raw_request(service, announced=10_000) for _ in range(30)]
    for connection in slow:
        connection.sendall(bytes(100))
    statuses = [ask(service, marked, token=DETAILED, id="alice").status_code for _ in range(20)]
    for connection in slow:
        connection.close()
    assert statuses == [200] * 20


def test_a_chain_of_tiff_pages_keeps_nobody_waiting(service, marked):
    attack = chained_pages(40_000)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        attacks = [pool.submit(ask, service, attack, id="alice") for _ in range(4)]
        start = time.monotonic()
        assert ask(service, marked, token=DETAILED, id="alice").status_code == 200
        assert time.monotonic() - start < 10  # it was 44
        assert {attack.result().status_code for attack in attacks} == {422}


def test_a_picture_that_takes_too_long_to_decode_is_stopped(service, marked):
    slow = png(np.zeros((7900, 7900, 3), np.uint8))  # nearly a second on two old cores
    answer = ask(service, slow, id="alice")
    assert answer.status_code == 422
    assert "takes more than 0.2 s" in answer.json()["error"]
    assert ask(service, marked, id="alice").status_code == 200


def test_a_connection_that_sends_nothing_is_closed(service):
    with connected(service) as connection:
        assert 0.5 < closed_after(connection) < 3


def test_headers_that_trickle_in_are_not_waited_for(service):
    with connected(service) as connection:
        start = time.monotonic()
        connection.settimeout(0.05)
        for character in b"GET /livez HTTP/1.1\r\nX: " + b"a" * 200:
            try:
                connection.sendall(bytes([character]))
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the connection is still there")
        assert time.monotonic() - start < 5


def test_a_connection_is_kept_between_requests_and_then_closed(service):
    with connected(service) as connection:
        for _ in range(3):
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
            answer = b""
            while b'"status"' not in answer:  # head and body may come apart
                answer += connection.recv(4096)
            assert b"200 OK" in answer
            time.sleep(0.3)
        assert closed_after(connection) < 3


def test_of_too_many_connections_the_longest_idle_goes(bundle):
    limits = Limits(connections=4, idle_seconds=20)
    with served(Verifier.open(bundle, "cpu", threads=1), limits=limits) as client:
        idle = [connected(client) for _ in range(8)]
        assert client.get("/livez").status_code == 200
        idle[0].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""
        for connection in idle:
            connection.close()


def test_the_busiest_address_has_to_give_way(bundle):
    limits = Limits(connections=4, idle_seconds=20)
    with served(Verifier.open(bundle, "cpu", threads=1), limits=limits) as client:
        modest = connected(client)
        greedy = [connected(client, source="127.0.0.2") for _ in range(8)]
        assert client.get("/livez").status_code == 200
        modest.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert modest.recv(4096).startswith(b"HTTP/1.1 200 ")
        for connection in (modest, *greedy):
            connection.close()


def test_an_address_that_connects_too_often_is_refused_and_others_are_not(bundle):
    with served(
        Verifier.open(bundle, "cpu", threads=1), limits=Limits(arrivals=5, idle_seconds=20)
    ) as client:
        flood = [connected(client, source="127.0.0.2") for _ in range(30)]
        assert client.get("/livez").status_code == 200
        flood[-1].settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert flood[-1].recv(1) == b""
        flood[0].sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert flood[0].recv(4096).startswith(b"HTTP/1.1 200 ")
        for connection in flood:
            connection.close()


def test_a_stranger_is_refused_before_anything_is_looked_up(service):
    assert httpx.post(f"{service.base_url}/nothing").status_code == 401


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /verify?id=a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /livez HTTP/1.1\nHost: a\n\n",
        b"GET /livez HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    ],
    ids=["two lengths", "bare line feeds", "one bare line feed"],
)
def test_requests_with_two_meanings_are_refused(service, request_):
    with connected(service) as connection:
        connection.sendall(request_)
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_line_feeds_in_a_body_are_fine(service):
    answer = ask(service, b"a\nb\n\n", id="alice")
    assert answer.status_code == 422


@pytest.mark.parametrize("announced", [True, False])
def test_a_client_that_sends_all_before_it_reads_sees_its_413(service, announced):
    """It saw a broken connection, because nobody read what it was sending."""
    size = 60_000_000
    with connected(service) as connection:
        length = f"Content-Length: {size}" if announced else "Transfer-Encoding: chunked"
        head = f"POST /verify?id=a HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {PLAIN}\r\n{length}"
        connection.sendall(head.encode() + b"\r\n\r\n")
        chunk = bytes(1_000_000)
        for _ in range(size // len(chunk)):
            connection.sendall(chunk if announced else b"F4240\r\n" + chunk + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_need_not_send_what_is_too_large(service):
    with connected(service) as connection:
        head = "POST /verify?id=a HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n"
        head += f"Authorization: Bearer {PLAIN}\r\nExpect: 100-continue\r\n\r\n"
        connection.sendall(head.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_one_caller_does_not_get_everything():
    shares = Shares(10, each=5)
    assert shares.take("greedy", 5)
    assert not shares.take("greedy")
    assert shares.take("modest", 5)
    assert not shares.take("third")
    shares.give("greedy", 2)
    assert shares.take("third", 2)
    assert shares.held == {"greedy": 3, "modest": 5, "third": 2}
    assert Shares(10).take(None, 10)


class Broken:
    name = "broken"
    providers = ("nothing",)

    def run(self, images):
        raise ZeroDivisionError("a secret of this machine")

    def close(self):
        pass


def test_ready_means_that_a_picture_could_be_verified_and_recorded_now(bundle, tmp_path):
    """/healthz said ok while nobody was answered."""
    log = tmp_path / "verdicts.jsonl"
    verifier = Verifier.open(bundle, "cpu", threads=1, audit=log)
    with served(verifier) as client:
        assert client.get("/readyz").status_code == 200
        log.unlink()
        log.mkdir()
        assert not_ready(client) == "the audit log cannot be written"
        log.rmdir()
        put_runtime(verifier, Broken())
        time.sleep(FRESH_SECONDS)
        assert not_ready(client) == "pictures cannot be verified"
        assert client.get("/livez").json() == {"status": "ok"}
        assert client.get("/healthz").status_code == 503


def not_ready(client) -> str:
    for _ in range(50):
        answer = client.get("/readyz")
        if answer.status_code == 503:
            return answer.json()["error"]
        time.sleep(0.1)
    pytest.fail("it is still ready")


def test_the_description_needs_no_other_host(service):
    page = service.get("/docs")
    assert page.status_code == 200
    assert "/verify" in page.text
    assert "http://HOST/verify" in page.text
    for outside in ("https://", "src=", "cdn"):
        assert outside not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_every_answer_names_its_request(service, marked):
    answer = ask(service, marked, id="alice")
    assert len(answer.headers["X-Request-ID"]) == 32
    named = service.get("/livez", headers={"X-Request-ID": "edge-17.a"})
    assert named.headers["X-Request-ID"] == "edge-17.a"
    forged = service.get("/livez", headers={"X-Request-ID": "two words"})
    assert len(forged.headers["X-Request-ID"]) == 32
    refused = httpx.get(f"{service.base_url}/nothing")
    assert len(refused.headers["X-Request-ID"]) == 32


def test_hanging_up_hard_leaves_the_service_alive(service, marked):
    for _ in range(20):
        connection = raw_request(service, announced=len(marked))
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()
    until = time.monotonic() + 5
    while (answer := ask(service, marked, id="alice")).status_code == 503:
        assert time.monotonic() < until  # the caller's own places are held until it notices
    assert answer.status_code == 200
