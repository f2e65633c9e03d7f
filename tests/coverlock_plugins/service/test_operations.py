"""What those who run a service do with it: reload, logs, stopping it."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from coverlock_plugins.service.access import Limits, add_token
from coverlock_plugins.service.commands import open_deployment
from coverlock_plugins.service.service import Service
from coverlock_sdk import Verifier
from coverlock_sdk.locking.keys import generate_key
from tests.served import QUICK, ask, png, running, until
from tests.toy_bundle import toy_lock, write_toy_bundle


def service_of(bundle, **files) -> Service:
    chosen = {"trust": "any", "runtime": ("cpu", "fp32"), **files}
    return Service(partial(open_deployment, bundle.path, Limits(), **chosen), Limits())


def test_a_reload_takes_in_tokens_keys_and_bundles(tmp_path, photos, caplog):
    tokens, keys = tmp_path / "tokens.json", tmp_path / "key.json"
    old = add_token(tokens, "shop", ("verify",), **QUICK)
    generate_key(keys, id="first")
    bundle = write_toy_bundle(tmp_path / "bundle")
    service = service_of(bundle, tokens=tokens, key_file=keys)
    with running(service) as client:
        second = generate_key(keys, id="second", rotate=True)
        picture = png(toy_lock(second).embed(photos[0], "alice"))
        assert ask(client, picture, token=old, id="alice").json() == {"accepted": False}
        new = add_token(tokens, "shop", ("verify",), **QUICK)
        assert ask(client, picture, token=new, id="alice").status_code == 401
        service.reload()
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        assert ask(client, picture, token=old, id="alice").status_code == 401
        (tmp_path / "bundle" / "verify.onnx").write_bytes(b"damaged")
        service.reload()
        assert "not reloaded, the service continues as before" in caplog.text
        assert "SHA-256" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        tokens.write_text("{")
        service.reload()
        assert "is not a token file" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}


def test_nothing_under_way_notices_a_reload(bundle, marked, monkeypatch):
    close, closed = Verifier.close, []
    monkeypatch.setattr(Verifier, "close", lambda each: (close(each), closed.append(each)))
    service, opened = service_of(bundle), []
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
            opened.append(service.deployment.verifier)
            service.reload()
        over.set()
        for thread in threads:
            thread.join()
        until(lambda: len(closed) == 4 and all(each in closed for each in opened))
    assert len(answers) > 4
    assert {answer.text for answer in answers} == {'{"accepted":true}'}


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


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs the signals of POSIX")
def test_signals_reload_and_drain_and_the_log_says_so(bundle, marked, tmp_path):
    """After SIGTERM, 16 of 16 clients that kept their connection lost their next request."""
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "old", ("verify",), **QUICK)
    with process(bundle, tmp_path, "--tokens", str(tokens)) as (client, started, log):
        token = add_token(tokens, "new", ("verify",), **QUICK)
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
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    assert all(datetime.fromisoformat(line.pop("time")) for line in lines)
    [reloaded] = [line for line in lines if line["level"] == "warning"]
    assert reloaded["message"] == "reloaded"
    asked = [line for line in lines if line.get("route") == "/verify"]
    about = {"level": "info", "caller": "new", "method": "POST", "route": "/verify", "status": 200}
    ids = [answer.headers["X-Request-ID"] for answer in answers]
    assert all(line.pop("seconds") >= 0 for line in asked)
    assert asked == [{**about, "request": id} for id in ids]
    assert "alice" not in log.read_text()


def memory(process: int) -> int:
    """Bytes that a process and its children have; of what they share, each has a part."""
    children = (task.read_text() for task in Path(f"/proc/{process}/task").glob("*/children"))
    kilobytes = 0
    for each in (process, *"".join(children).split()):
        about = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        kilobytes += sum(int(line.split()[1]) for line in about if line.startswith("Pss:"))
    return 1024 * kilobytes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")
def test_many_large_pictures_at_once_fit_into_a_container_of_one_gigabyte(bundle, tmp_path):
    large, peak = png(np.zeros((4000, 4000, 3), np.uint8)), 0
    patient = process(bundle, tmp_path, "--limit", "seconds=60")
    with patient as (client, started, _), ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, client, large, token=None, id="alice") for _ in range(8)]
        while not all(answer.done() for answer in asked):
            peak = max(peak, memory(started.pid))
            time.sleep(0.02)
    assert [answer.result().text for answer in asked] == ['{"accepted":false}'] * 8
    assert 200e6 < peak < 700e6  # the rest is for networks that are larger than a test's


def test_spans_do_not_name_identifiers(bundle, marked, monkeypatch):
    otlp = pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    pytest.importorskip("opentelemetry.instrumentation.fastapi")
    from opentelemetry.sdk.trace import export
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    sent = InMemorySpanExporter()
    monkeypatch.setattr(otlp, "OTLPSpanExporter", lambda: sent)
    monkeypatch.setattr(export, "BatchSpanProcessor", export.SimpleSpanProcessor)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/")
    with running(service_of(bundle)) as client:
        assert ask(client, marked, token=None, id="alice").json() == {"accepted": True}
    spans = sent.get_finished_spans()
    assert "POST /verify" in {span.name for span in spans}
    assert "alice" not in "".join(span.to_json() for span in spans)
