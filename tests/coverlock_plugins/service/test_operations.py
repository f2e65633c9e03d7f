"""What those who run a service do with it: reload, logs, traces, stopping it."""

import contextlib
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime

import httpx
import pytest

from coverlock_plugins.service.access import Limits, add_token
from coverlock_plugins.service.commands import DeploymentOptions
from coverlock_plugins.service.observing import log_as_json
from coverlock_plugins.service.server import create_app, reload_files, without_query
from coverlock_plugins.service.service import Service
from coverlock_sdk.locking.keys import generate_key
from tests.served import ask, png, running
from tests.toy_bundle import toy_lock, write_toy_bundle


def options(bundle, **changes) -> DeploymentOptions:
    return DeploymentOptions((bundle.path,), trust="any", runtime=("cpu", "fp32"), **changes)


def service_of(chosen: DeploymentOptions) -> Service:
    return Service(chosen.open(), Limits(), chosen.open)


def test_a_reload_takes_in_tokens_keys_and_bundles(tmp_path, photos, caplog):
    tokens, keys = tmp_path / "tokens.json", tmp_path / "key.json"
    old = add_token(tokens, "shop", ("verify",), 1e6, 10**6)
    generate_key(keys, id="first")
    bundle = write_toy_bundle(tmp_path / "bundle")
    service = service_of(options(bundle, tokens=tokens, key_file=keys))
    with running(service) as client:
        second = generate_key(keys, id="second", rotate=True)
        picture = png(toy_lock(second).embed(photos[0], "alice"))
        assert ask(client, picture, token=old, id="alice").json() == {"accepted": False}
        new = add_token(tokens, "shop", ("verify",), 1e6, 10**6)
        assert ask(client, picture, token=new, id="alice").status_code == 401
        reload_files(service)
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        assert ask(client, picture, token=old, id="alice").status_code == 401
        (tmp_path / "bundle" / "verify.onnx").write_bytes(b"damaged")
        reload_files(service)
        assert "not reloaded, the service goes on as before" in caplog.text
        assert "SHA-256" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        tokens.write_text("{")
        reload_files(service)
        assert "is not a token file" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}


def test_nothing_under_way_notices_a_reload(bundle, marked):
    chosen = options(bundle)
    service = service_of(chosen)
    answers: list[httpx.Response] = []
    with running(service) as client:
        over = threading.Event()

        def keep_asking() -> None:
            while not over.is_set():
                answers.append(ask(client, marked, token=None, id="alice"))

        threads = [threading.Thread(target=keep_asking) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            reload_files(service)
        over.set()
        for thread in threads:
            thread.join()
    assert len(answers) > 4
    assert {answer.text for answer in answers} == {'{"accepted":true}'}


@pytest.fixture
def log_restored():
    """The log is afterwards as it was."""
    root, requests = logging.getLogger(), logging.getLogger("coverlock_plugins.service.observing")
    before = root.handlers[:], root.level, requests.level
    yield
    logging.captureWarnings(False)
    root.handlers[:], root.level, requests.level = before


def test_the_log_is_json(bundle, marked, capfd, log_restored):
    log_as_json()
    with running(service_of(options(bundle))) as client:
        client.post("/verify?id=alice", content=marked, headers={"X-Request-ID": "first"})
    logging.getLogger("uvicorn.error").warning("of the %s", "server")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert all(datetime.fromisoformat(line.pop("time")) for line in lines)
    assert lines[0].pop("seconds") >= 0
    assert lines[0] == {
        "level": "info",
        "request": "first",
        "caller": None,
        "method": "POST",
        "route": "/verify",
        "status": 200,
    }
    assert lines[-1] == {"level": "warning", "logger": "uvicorn.error", "message": "of the server"}
    assert "alice" not in str(lines)


@contextlib.contextmanager
def process(bundle, folder, *extra: str):
    """``coverlock serve``, a client of it, and the file with what it wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = [sys.executable, "-m", "coverlock_sdk", "serve", str(bundle.path)]
    command += ["--listen", f"127.0.0.1:{port}", "--runtime", "cpu", "--trust", "any"]
    with log.open("wb") as output:
        started = subprocess.Popen([*command, *extra], stderr=output)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            yield client, started, log
    finally:
        started.kill()
        started.wait(60)


def until(true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if true():
                return
        time.sleep(0.05)
    pytest.fail("it did not happen")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of POSIX")
def test_signals_reload_and_drain(bundle, marked, tmp_path):
    """After SIGTERM, 16 of 16 clients that kept their connection lost their next request."""
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "old", ("verify",), 1e6, 10**6)
    with process(bundle, tmp_path, "--tokens", str(tokens), "--limit", "drain_seconds=1.5") as (
        client,
        started,
        log,
    ):
        token = add_token(tokens, "new", ("verify",), 1e6, 10**6)
        started.send_signal(signal.SIGHUP)
        until(lambda: "reloaded" in log.read_text())
        keeping = [httpx.Client(base_url=client.base_url, timeout=30) for _ in range(16)]
        answers = [ask(each, marked, token=token, id="alice") for each in keeping]
        started.send_signal(signal.SIGTERM)
        until(lambda: client.get("/readyz").json() == {"status": "draining"})
        answers += [ask(each, marked, token=token, id="alice") for each in keeping]
        assert {answer.text for answer in answers} == {'{"accepted":true}'}
        assert {answer.headers.get("Connection") for answer in answers[16:]} == {"close"}
        assert started.wait(20) == 0
        assert all(line.startswith("{") for line in log.read_text().splitlines()[1:])


def test_spans_do_not_name_identifiers(bundle, marked):
    pytest.importorskip("opentelemetry.sdk.trace")
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.fastapi")
    from fastapi.testclient import TestClient
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(service_of(options(bundle)))
    instrumentation.FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, server_request_hook=without_query
    )
    with TestClient(app) as client:
        assert client.post("/verify?id=alice", content=marked).json() == {"accepted": True}
    spans = exporter.get_finished_spans()
    assert "POST /verify" in {span.name for span in spans}
    assert "alice" not in str([dict(span.attributes) for span in spans])
