"""What strangers did to the service, and what other callers notice of it."""

import concurrent.futures
import socket
import struct
import time

import httpx
import numpy as np
import pytest

from coverlock_plugins.service import deployment
from coverlock_plugins.service.access import Limits
from coverlock_sdk import Verifier
from coverlock_sdk.verifier.verifier import Settings
from tests.bombs import chained_pages
from tests.served import DETAILED, BrokenRuntime, ask, png, raw_request, served, until
from tests.toy_bundle import put_runtime


@pytest.fixture(scope="module")
def service(bundle):
    limits = Limits(in_flight=8, seconds=8, decode_seconds=0.2, pixels=64_000_000)
    with served(
        Verifier.open(bundle, "cpu", settings=Settings(threads=1)), limits=limits
    ) as client:
        yield client


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


def test_nobody_need_send_what_is_too_large(service):
    with raw_request(service, announced=60_000_000) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_ready_means_that_a_picture_could_be_verified_and_recorded_now(
    bundle, tmp_path, monkeypatch
):
    """/healthz said ok while nobody was answered."""
    monkeypatch.setattr(deployment, "FRESH", 0.0)
    log = tmp_path / "verdicts.jsonl"
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1, audit=log))
    with served(verifier) as client:
        assert client.get("/readyz").status_code == 200
        log.unlink()
        log.mkdir()
        assert client.get("/readyz").json()["error"] == "the audit log cannot be written"
        put_runtime(verifier, BrokenRuntime())
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "not ready", "error": "pictures cannot be verified"}
        assert client.get("/livez").json() == {"status": "ok"}


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
    # The caller's own places are held until it notices.
    until(lambda: ask(service, marked, id="alice").status_code == 200)
