"""What those who run a service do with it: reload, TLS, logs, several processes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from coverlock_sdk.cli.deployment import DeploymentOptions
from coverlock_sdk.errors import AccessError, MissingModelError
from coverlock_sdk.locking.keys import generate_key
from coverlock_sdk.serving import request_log
from coverlock_sdk.serving.access import add_token
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.deployment import Current, Deployment
from coverlock_sdk.serving.request_log import show_requests
from coverlock_sdk.serving.server import ServiceServer
from coverlock_sdk.serving.service import Service
from coverlock_sdk.serving.tls import Certificate
from coverlock_sdk.serving.tracing import start_tracing
from tests.served import ask, png, running
from tests.toy_bundle import toy_lock, write_toy_bundle


def options(bundle, **changes) -> DeploymentOptions:
    opening = {"runtime": "cpu", "threads": 1, "trust": "any"}
    settings = dict.fromkeys(("key_file", "tokens", "ids", "registry", "resolution", "marking"))
    return DeploymentOptions(bundles=(bundle.path,), opening=opening, **{**settings, **changes})


def server_of(chosen: DeploymentOptions, certificate=None) -> ServiceServer:
    return ServiceServer(Service(chosen.open(), Limits(), chosen.open), certificate)


def test_a_reload_takes_in_tokens_keys_and_bundles(tmp_path, photos, caplog):
    tokens, keys = tmp_path / "tokens.json", tmp_path / "key.json"
    old = add_token(tokens, "shop", ("verify",), 1e6, 10**6)
    generate_key(keys, id="first")
    bundle = write_toy_bundle(tmp_path / "bundle")
    server = server_of(options(bundle, tokens=tokens, key_file=keys))
    with running(server) as client:
        second = generate_key(keys, id="second", rotate=True)
        picture = png(toy_lock(second).embed(photos[0], "alice"))
        assert ask(client, picture, token=old, id="alice").json() == {"accepted": False}
        new = add_token(tokens, "shop", ("verify",), 1e6, 10**6)
        assert ask(client, picture, token=new, id="alice").status_code == 401
        server.reload()
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        assert ask(client, picture, token=old, id="alice").status_code == 401
        (tmp_path / "bundle" / "verify.onnx").write_bytes(b"damaged")
        server.reload()
        assert "not reloaded, the service goes on as before" in caplog.text
        assert "SHA-256" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}
        tokens.write_text("{")
        server.reload()
        assert "is not a token file" in caplog.text
        assert ask(client, picture, token=new, id="alice").json() == {"accepted": True}


def test_nothing_under_way_notices_a_reload(bundle, marked):
    chosen = options(bundle)
    server = server_of(chosen)
    answers: list[httpx.Response] = []
    with running(server) as client:
        over = threading.Event()

        def keep_asking() -> None:
            while not over.is_set():
                answers.append(ask(client, marked, token=None, id="alice"))

        threads = [threading.Thread(target=keep_asking) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            server.reload()
        over.set()
        for thread in threads:
            thread.join()
    assert len(answers) > 4
    assert {answer.text for answer in answers} == {'{"accepted":true}'}


class Closing:
    closed = False

    def close(self) -> None:
        self.closed = True


def test_what_was_replaced_is_closed_when_nobody_uses_it_any_more():
    first, second = Closing(), Closing()
    current = Current(Deployment((first,)))
    with current.use() as used:
        thread = threading.Thread(target=current.replace, args=(Deployment((second,)),))
        thread.start()
        while current.deployment is used:
            time.sleep(0.001)
        assert not first.closed
    thread.join()
    assert first.closed
    assert not second.closed


@pytest.fixture
def certificate(tmp_path) -> Certificate:
    made = Certificate(tmp_path / "certificate.pem", tmp_path / "key.pem")
    certify(made, "first")
    return made


def certify(certificate: Certificate, name: str) -> None:
    """Write a certificate of 127.0.0.1 that signs itself."""
    x509 = pytest.importorskip("cryptography.x509")
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate.chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    certificate.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.chain))


def test_https_and_a_new_certificate_at_a_reload(bundle, marked, certificate, caplog):
    server = server_of(options(bundle), certificate)
    before = trusting(certificate)
    with running(server, verify=before) as client:
        assert ask(client, marked, token=None, id="alice").json() == {"accepted": True}
        certificate.key.write_text("damaged")
        server.reload()
        assert "not reloaded" in caplog.text
        with httpx.Client(base_url=client.base_url, verify=before) as again:
            assert again.get("/livez").status_code == 200
        certify(certificate, "second")
        server.reload()
        with httpx.Client(base_url=client.base_url, verify=trusting(certificate)) as renewed:
            assert renewed.get("/livez").status_code == 200
        with (
            pytest.raises(httpx.ConnectError),
            httpx.Client(base_url=client.base_url, verify=before) as outdated,
        ):
            outdated.get("/livez")


def test_a_handshake_that_never_ends_is_not_waited_for(bundle, certificate):
    chosen = options(bundle)
    limits = Limits(idle_seconds=0.5)
    server = ServiceServer(Service(chosen.open(), limits), certificate)
    with (
        running(server, verify=False) as client,
        socket.create_connection((client.base_url.host, client.base_url.port), 10) as silent,
    ):
        start = time.monotonic()
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""
        assert time.monotonic() - start < 5


def test_a_certificate_that_cannot_be_used_is_an_error(certificate, tmp_path):
    for chain, key in (
        (tmp_path / "none.pem", certificate.key),
        (certificate.chain, certificate.chain),
    ):
        with pytest.raises(AccessError, match="cannot be used"):
            Certificate(chain, key).context()


def test_half_of_a_certificate_is_refused(bundle, certificate):
    line = ["serve", str(bundle.path), "--tls-certificate", str(certificate.chain)]
    result = CliRunner().invoke(build_cli(), line)
    assert result.exit_code == 2
    assert "both --tls-certificate and --tls-key" in result.output


@pytest.fixture
def quiet_log():
    """The request log as it was before."""
    logger = request_log.logger
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.level, logger.propagate = before


def test_a_line_for_each_request_as_json_or_text(bundle, marked, capfd, quiet_log):
    with running(server_of(options(bundle))) as client:
        for kind in ("json", "text"):
            show_requests(kind)
            client.post("/verify?id=alice", content=marked, headers={"X-Request-ID": f"{kind}-1"})
            client.get("/livez", headers={"X-Request-ID": f"{kind}-2"})
    lines = capfd.readouterr().err.splitlines()
    first = json.loads(lines[0])
    assert datetime.fromisoformat(first.pop("time"))
    assert first.pop("seconds") >= 0
    assert first == {
        "request": "json-1",
        "caller": None,
        "method": "POST",
        "path": "/verify",
        "status": 200,
    }
    assert " text-1 - POST /verify 200 " in lines[2]
    assert len(lines) == 4
    assert "alice" not in "".join(lines)
    assert logging.getLogger().level == logging.WARNING


@contextlib.contextmanager
def workers(bundle, folder, *extra: str):
    """``coverlock serve --workers 2``, its client, and the file with what it wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = [sys.executable, "-m", "coverlock_sdk", "serve", str(bundle.path)]
    command += ["--port", str(port), "--workers", "2", "--runtime", "cpu", "--threads", "1"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--trust", "any", *extra], stderr=output)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            yield client, process, log
    finally:
        process.terminate()
        process.wait(60)


def until(true, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if true():
                return
        time.sleep(0.1)
    pytest.fail("it did not happen")


def children(pid: int) -> list[int]:
    """The processes of a service, without those that decode or keep books."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if b"spawn_main" in command_of(child)]


def command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_several_processes_are_one_service(bundle, marked, tmp_path):
    tokens, clean = tmp_path / "tokens.json", png(np.full((160, 160, 3), 120, np.uint8))
    slow = add_token(tokens, "slow", ("verify",), rate=1e-6, burst=7)
    fast = add_token(tokens, "fast", ("verify",), rate=1e6, burst=10**6)
    watcher = add_token(tokens, "watcher", ("metrics",), rate=1e6, burst=10**6)
    extra = ("--tokens", str(tokens), "--max-rejections", "5")
    with workers(bundle, tmp_path, *extra) as (client, process, log):
        until(lambda: len(children(process.pid)) == 2)

        def statuses(count: int, token: str, picture: bytes, id: str) -> list[int]:
            """Over a connection each, so that both processes are asked."""
            answers = [
                httpx.post(
                    client.base_url.join(f"/verify?id={id}"),
                    content=picture,
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=30,
                )
                for _ in range(count)
            ]
            return [answer.status_code for answer in answers]

        assert statuses(16, slow, marked, "alice").count(200) == 7
        assert statuses(12, fast, clean, "alice").count(200) == 5
        headers = {"Authorization": f"Bearer {watcher}"}
        seen = {client.get("/metrics", headers=headers).text for _ in range(3)}
        [line] = {
            line
            for text in seen
            for line in text.splitlines()
            if line.startswith("coverlock_answers_total") and "429" in line and "slow" in line
        }
        assert line.endswith(" 9.0")

        [victim, survivor] = children(process.pid)
        os.kill(victim, signal.SIGKILL)
        until(lambda: "is replaced" in log.read_text())
        until(lambda: len(set(children(process.pid)) - {victim, survivor}) == 1)
        assert set(statuses(4, fast, marked, "alice2")) == {200}

        newcomer = add_token(tokens, "new", ("verify",), rate=1e6, burst=10**6)
        process.send_signal(signal.SIGHUP)
        until(lambda: log.read_text().count("reloaded") == 2)
        assert set(statuses(6, newcomer, marked, "alice")) == {200}
        left = children(process.pid)
        process.kill()
        until(lambda: not any(b"spawn_main" in command_of(child) for child in left))


def test_a_request_is_traced_as_a_part_of_what_its_sender_traces(
    bundle, marked, photos, monkeypatch
):
    pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    chosen = options(bundle, marking={})
    with running(server_of(chosen)) as client:
        for path, picture in (("/verify", marked), ("/embed", png(photos[1]))):
            headers = {"traceparent": parent, "X-Request-ID": "traced"}
            answer = client.post(f"{path}?id=alice", content=picture, headers=headers)
            assert answer.status_code == 200
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert set(spans) == {"POST /verify", "POST /embed", "decode", "verify", "embed"}
    whole = spans["POST /verify"]
    assert whole.parent.span_id == int(parent.split("-")[2], 16)
    assert whole.attributes["http.response.status_code"] == 200
    assert whole.attributes["coverlock.request"] == "traced"
    assert "alice" not in str(whole.attributes)
    assert spans["verify"].parent.span_id == whole.context.span_id
    assert spans["embed"].parent.span_id == spans["POST /embed"].context.span_id
    assert {span.context.trace_id for span in spans.values()} == {int(parent.split("-")[1], 16)}


def test_traces_that_cannot_be_sent_say_what_to_install(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingModelError, match=r"coverlock-sdk\[otel\]"):
        start_tracing()
