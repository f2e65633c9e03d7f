import hashlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner

from coverlock_plugins.service.access import Caller, Callers, Limits, add_token, digest
from coverlock_sdk import Verifier
from coverlock_sdk.cli import build_cli
from coverlock_sdk.verifier.verifier import Settings
from tests.bombs import bomb
from tests.served import (
    DETAILED,
    PLAIN,
    WATCHER,
    BrokenRuntime,
    ask,
    counters,
    png,
    raw_request,
    served,
    until,
)
from tests.toy_bundle import put_runtime, toy_lock


@pytest.fixture(scope="module")
def service(bundle):
    with served(Verifier.open(bundle, "cpu", settings=Settings(threads=1))) as client:
        yield client


def test_accepted_or_rejected_and_nothing_else(service, marked, photos):
    assert ask(service, marked, id="alice").json() == {"accepted": True}
    assert ask(service, marked, id="bob").json() == {"accepted": False}
    assert ask(service, png(photos[1]), id="alice").json() == {"accepted": False}


def test_details_for_those_who_may_see_them(service, marked):
    answer = ask(service, marked, token=DETAILED, id="alice").json()
    assert answer == json.loads(json.dumps(toy_lock().verify(marked, "alice").to_dict()))


@pytest.mark.parametrize(
    ("token", "status"), [(None, 401), ("guess", 401), (WATCHER, 403), (PLAIN, 200)]
)
def test_only_holders_of_a_token_are_answered(service, marked, token, status):
    answer = ask(service, marked, token=token, id="alice")
    assert answer.status_code == status
    assert ("accepted" in answer.json()) == (status == 200)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({}, "id: Field required"),
        ({"id": ""}, "at least 1 character"),
        ({"id": "a" * 1025}, "at most 1024 characters"),
        ({"id": "a\nb"}, "control characters"),
        ({"id": "a\x7f"}, "control characters"),
        ({"id": ["alice", "bob"]}, "once"),
        ({"id": ["alice", "alice"]}, "once"),
    ],
)
def test_a_malformed_message_is_refused(service, marked, query, complaint):
    answer = ask(service, marked, **query)
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


def test_what_is_not_a_picture_is_refused_and_the_service_goes_on(service, marked):
    for content in (b"", b"a\nb\n\n", marked[:1000], bomb(), png(np.zeros((8, 8, 3), np.uint8))):
        answer = ask(service, content, id="alice")
        assert answer.status_code == 422, content[:20]
        assert "picture" in answer.json()["error"]
    assert ask(service, marked, id="alice").json() == {"accepted": True}


def test_pictures_beyond_the_limits_are_refused(bundle, marked, photos):
    limits = Limits(bytes=50_000, pixels=20_000)
    with served(Verifier.open(bundle, "cpu"), limits=limits) as client:
        answer = ask(client, bytes(60_000), id="alice")
        assert answer.status_code == 413
        assert "50,000 bytes" in answer.json()["error"]

        def unannounced():
            for _ in range(60):
                yield bytes(1000)

        assert ask(client, unannounced(), id="alice").status_code == 413
        small = png(np.zeros((160, 192, 3), np.uint8))
        answer = ask(client, small, id="alice")
        assert answer.status_code == 422
        assert "20,000" in answer.json()["error"]


def test_a_caller_who_asks_too_often_is_told_when_to_come_back(bundle, marked):
    slow = Callers((Caller("slow", digest(PLAIN), ("verify",), rate=0.2, burst=2),))
    with served(Verifier.open(bundle, "cpu"), slow) as client:
        answers = [ask(client, marked, id="alice") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 10


class HeldRuntime:
    """Answers while its gate is open, ``seconds`` after it was asked."""

    name = "held"
    providers = ("patience",)

    def __init__(self, runtime, seconds):
        self.runtime = runtime
        self.seconds = seconds
        self.gate = threading.Event()

    def run(self, images):
        time.sleep(self.seconds)
        assert self.gate.wait(60)
        return self.runtime.run(images)

    def close(self):
        self.runtime.close()


def held_verifier(bundle, seconds=0.0, **options) -> tuple[Verifier, HeldRuntime]:
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1, **options))
    held = HeldRuntime(verifier.runtime, seconds)
    put_runtime(verifier, held)
    return verifier, held


def test_every_request_of_an_overload_is_answered(bundle, marked):
    verifier, held = held_verifier(bundle, 0.3, max_batch=2)
    held.gate.set()
    with served(verifier, limits=Limits(in_flight=8)) as client, ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: ask(client, marked, id="alice"), range(24)))
    statuses = [answer.status_code for answer in answers]
    assert len(statuses) == 24
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 4
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert busy.headers["Retry-After"] == "1"
    assert "waiting" in busy.json()["error"]


def test_a_verdict_that_takes_too_long_is_a_504_and_keeps_its_place(bundle, marked, tmp_path):
    log = tmp_path / "verdicts.jsonl"
    verifier, held = held_verifier(bundle, audit=log)
    with served(verifier, limits=Limits(in_flight=1, seconds=1.0)) as client:
        assert ask(client, marked, id="alice").status_code == 504
        assert ask(client, marked, id="alice").status_code == 503
        held.gate.set()
        until(lambda: counters(client)["coverlock_in_flight"] == 0)
        held.gate.clear()
        assert ask(client, marked, id="alice").status_code == 504
        labels = 'caller="shop",route="/verify",status="504"'
        assert counters(client)[f"coverlock_requests_total{{{labels}}}"] == 2
        held.gate.set()
    assert log.read_text() == ""  # nobody heard of those verdicts


def test_a_failure_after_a_504_is_logged(bundle, marked, caplog):
    verifier, held = held_verifier(bundle)
    with served(verifier, limits=Limits(seconds=2.0)) as client:
        held.runtime = BrokenRuntime()
        assert ask(client, marked, id="alice").status_code == 504
        held.gate.set()
    assert "ZeroDivisionError: a secret of this machine" in caplog.text


def test_a_picture_that_never_arrives_is_given_up(bundle):
    with (
        served(Verifier.open(bundle, "cpu"), limits=Limits(seconds=0.3)) as client,
        raw_request(client, announced=1000) as connection,
    ):
        connection.sendall(bytes(10))
        assert b" 408 " in connection.recv(4096)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "example.org"])
def test_others_reach_it_only_with_tokens_and_through_a_proxy(bundle, tmp_path, host):
    tokens = tmp_path / "tokens.json"
    add_token(tokens, "shop", ("verify",), rate=1, burst=1)
    for given in ([], ["--tokens", str(tokens)], ["--behind-proxy"]):
        line = ["serve", str(bundle.path), "--listen", f"{host}:8000", *given]
        result = CliRunner().invoke(build_cli(), line)
        assert (result.exit_code, "would answer anybody" in result.output) == (2, True)


def test_health_metrics_and_the_description(service, marked):
    health = service.get("/readyz")
    assert health.status_code == 200
    assert health.json()["watermark"] == "additive"
    assert service.get("/livez").json() == {"status": "ok"}
    assert service.get("/metrics").status_code == 401
    before = counters(service)
    ask(service, marked, id="alice")
    ask(service, b"", id="alice")
    ask(service, marked, token="guess", id="alice")
    after = counters(service)
    counted = ['coverlock_verdicts_total{caller="shop",outcome="accepted"}']
    for caller, status in (("shop", 200), ("shop", 422), ("", 401)):
        labels = f'caller="{caller}",route="/verify",status="{status}"'
        counted.append(f"coverlock_requests_total{{{labels}}}")
    for name in counted:
        assert after[name] == before.get(name, 0) + 1, name
    for name in ("batch_pictures_count", "decoding_wait_seconds_count"):
        assert after[f"coverlock_{name}"] > before[f"coverlock_{name}"]
    assert 'coverlock_work_seconds_total{caller="shop"}' in after  # coarse clocks count none
    assert after["coverlock_in_flight"] == 0
    description = service.get("/openapi.json").json()
    operation = description["paths"]["/verify"]["post"]
    assert set(operation["requestBody"]["content"]) == {"image/*", "multipart/form-data"}
    assert {"200", "401", "413", "422", "429", "503"} <= set(operation["responses"])
    assert operation["security"]
    shapes = {
        name: set(of["properties"]) for name, of in description["components"]["schemas"].items()
    }
    assert shapes["Answer"] == set(toy_lock().verify(marked, "alice").to_dict())
    assert shapes["Problem"] == {"error"}


def test_a_line_of_the_log_says_who_asked_for_what_of_which_file(bundle, marked, tmp_path, key):
    log = tmp_path / "verdicts.jsonl"
    with served(Verifier.open(bundle, "cpu", key=key, settings=Settings(audit=log))) as client:
        ask(client, marked, id="alice")
        ask(client, marked, token=DETAILED, id="carol")
    with served(Verifier.open(bundle, "cpu", settings=Settings(audit=log)), callers=None) as client:
        ask(client, marked, token=None, id="bob")
    digest = hashlib.sha256(marked).hexdigest()
    sources = [json.loads(line)["source"] for line in log.read_text().splitlines()]
    assert len({source.pop("request") for source in sources}) == 3
    assert sources == [
        {"caller": "shop", "id": "alice", "sha256": digest},
        {"caller": "lab", "id": "carol", "sha256": digest},
        {"caller": None, "id": "bob", "sha256": digest},
    ]
    for secret in (PLAIN, DETAILED, bytes(range(32)).hex()):
        assert secret not in log.read_text()


def test_a_form_as_curl_sends_it_works_too(service, marked):
    def posted(kind=None, **body):
        headers = {"Authorization": f"Bearer {PLAIN}"} | ({"Content-Type": kind} if kind else {})
        return service.post("/verify?id=alice", headers=headers, **body)

    file = ("x.png", marked, "image/png")
    assert posted(files={"file": file}).json() == {"accepted": True}
    unnamed = posted("application/x-www-form-urlencoded", content=marked)
    assert unnamed.json() == {"accepted": True}  # as curl --data-binary sends it
    for wrong in (
        posted(files={"a": file, "b": file}),
        posted(files={"a": (None, "text")}),
        posted(files={"a": file}, data={"b": "text"}),
        posted("multipart/form-data", content=marked),
        posted("Multipart/form-data; boundary=a", content=marked),
        posted("multipart/mixed; boundary=a", content=marked),
    ):
        assert (wrong.status_code, "curl -F" in wrong.json()["error"]) == (400, True)


def test_every_refusal_has_the_same_shape(service, marked):
    headers = {"Authorization": f"Bearer {DETAILED}"}
    answers = [
        service.get("/nothing"),
        service.get("/verify"),
        service.post("/verify", content=marked),
        service.post("/embed?id=a&quality=high", content=marked, headers=headers),
        ask(service, b"hello", id="alice"),
    ]
    assert [answer.status_code for answer in answers] == [404, 405, 401, 400, 422]
    for answer in answers:
        assert list(answer.json()) == ["error"]
        assert isinstance(answer.json()["error"], str)


def test_what_a_service_does_not_do_it_says(service, marked):
    headers = {"Authorization": f"Bearer {DETAILED}"}
    identify = service.post("/identify", content=marked, headers=headers)
    assert (identify.status_code, "--ids" in identify.json()["error"]) == (404, True)
    embed = service.post("/embed?id=a", content=marked, headers=headers)
    assert (embed.status_code, "--embed" in embed.json()["error"]) == (404, True)


def test_a_failure_is_answered_and_counted_and_says_nothing_about_the_machine(
    bundle, marked, tmp_path
):
    audit = tmp_path / "log" / "audit.jsonl"
    audit.parent.mkdir()
    verifier = Verifier.open(bundle, "cpu", settings=Settings(threads=1, audit=audit))
    with served(verifier) as client:
        audit.unlink()
        audit.mkdir()
        unwritable = ask(client, marked, id="alice")
        put_runtime(verifier, BrokenRuntime())
        broken = ask(client, marked, id="alice")
        for answer in (unwritable, broken):
            labels = f'caller="shop",route="/verify",status="{answer.status_code}"'
            assert counters(client)[f"coverlock_requests_total{{{labels}}}"] == 1
        assert counters(client)["coverlock_in_flight"] == 0
    assert (unwritable.status_code, broken.status_code) == (503, 500)
    assert str(tmp_path) not in unwritable.text
    assert broken.json() == {"error": "the service failed: its log says why"}
