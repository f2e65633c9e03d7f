"""``/identify`` and ``/embed``."""

import concurrent.futures
import hashlib
import io
import json
import threading
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from coverlock_plugins.service.access import Caller, Callers, Limits, digest
from coverlock_sdk import Embedder, Verifier
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier.verifier import Settings
from tests.served import DETAILED, PLAIN, ask, counters, png, served, until
from tests.toy_bundle import write_toy_bundle

BOOK = ["alice", "bob", "carol"]


@pytest.fixture(scope="module")
def service(bundle, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    verifier = Verifier.open(
        bundle, "cpu", settings=Settings(threads=1, audit=folder / "verdicts.jsonl")
    )
    embedder = Embedder.open(bundle, threads=1)
    with served(verifier, names=BOOK, embedder=embedder) as client:
        client.audit = folder / "verdicts.jsonl"
        yield client


def post(client, path, content, token=DETAILED, key=None, **query):
    headers = {"Authorization": f"Bearer {token}"} | ({"Idempotency-Key": key} if key else {})
    return client.post(path, params=query, content=content, headers=headers)


def last_line(client) -> dict:
    return json.loads(client.audit.read_text().splitlines()[-1])


def test_who_a_picture_is_from(service, marked, photos):
    answer = post(service, "/identify", marked).json()
    assert (answer["accepted"], answer["id"]) == (True, "alice")
    assert answer["p_value"] < 1e-6
    source = last_line(service)["source"]
    assert (source["caller"], source["id"]) == ("lab", "alice")
    assert source["sha256"] == hashlib.sha256(marked).hexdigest()
    nobody = post(service, "/identify", png(photos[3])).json()
    assert (nobody["accepted"], nobody["id"]) == (False, None)
    assert last_line(service)["source"]["id"] is None


def test_without_detail_only_the_decision_is_told(bundle, marked):
    with served(
        Verifier.open(bundle, "cpu", settings=Settings(threads=1)), callers=None, names=BOOK
    ) as client:
        assert client.post("/identify", content=marked).json() == {"accepted": True, "id": "alice"}


@pytest.mark.parametrize("path", ["/identify", "/embed"])
def test_a_token_needs_the_scope(service, marked, path):
    assert post(service, path, marked, token=PLAIN, id="alice").status_code == 403
    assert post(service, path, marked, token="guess", id="alice").status_code == 401


def test_a_marked_picture_comes_back_and_verifies(service, photos):
    answer = post(service, "/embed", png(photos[1]), id="bob")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "image/png"
    assert 25 < float(answer.headers["X-CoverLock-PSNR"]) < 60
    assert len(answer.headers["X-Request-ID"]) == 32
    assert Image.open(io.BytesIO(answer.content)).size == photos[1].shape[1::-1]
    source = last_line(service)["source"]
    assert source["id"] == "bob"
    assert source["sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert source["original"] == hashlib.sha256(png(photos[1])).hexdigest()
    assert ask(service, answer.content, id="bob").json() == {"accepted": True}
    assert post(service, "/identify", answer.content).json()["id"] == "bob"


def test_the_format_may_be_chosen_or_kept(service, photos):
    jpeg = io.BytesIO()
    Image.fromarray(photos[1]).save(jpeg, format="JPEG", quality=95)
    content = jpeg.getvalue()
    kept = post(service, "/embed", content, id="bob", format="keep", quality=98)
    assert (kept.status_code, kept.headers["Content-Type"]) == (200, "image/jpeg")
    assert Image.open(io.BytesIO(kept.content)).format == "JPEG"
    webp = post(service, "/embed", content, id="bob", format="webp")
    assert webp.headers["Content-Type"] == "image/webp"


@pytest.mark.parametrize(
    ("query", "status", "complaint"),
    [
        ({}, 400, "id: Field required"),
        ({"id": "a", "format": "gif"}, 400, "format: Input should be 'png'"),
        ({"id": "a", "quality": 0}, 400, "greater than or equal to 1"),
        ({"id": "a", "quality": "high"}, 400, "quality"),
        ({"id": "a", "quality": 50}, 422, "lossless"),
    ],
)
def test_what_cannot_be_marked_is_refused(service, photos, query, status, complaint):
    answer = post(service, "/embed", png(photos[1]), **query)
    assert answer.status_code == status
    assert complaint in answer.json()["error"]


@pytest.mark.parametrize(
    ("pixels", "reason"),
    [
        (np.zeros((160, 160, 3), np.uint8), "nearly empty"),
        (np.zeros((160, 160, 4), np.uint8), "mostly transparent"),
        (np.full((8, 8, 3), 128, np.uint8), "8 x 8"),
    ],
)
def test_a_picture_that_cannot_carry_a_mark_is_refused_with_the_reason(service, pixels, reason):
    answer = post(service, "/embed", png(pixels), id="bob")
    assert (answer.status_code, list(answer.json())) == (422, ["error"])
    assert reason in answer.json()["error"]


def test_forms_work_everywhere(service, marked):
    headers = {"Authorization": f"Bearer {DETAILED}"}
    found, made = (
        service.post(path, files={"file": marked}, headers=headers)
        for path in ("/identify", "/embed?id=alice")
    )
    assert found.json()["id"] == "alice"
    assert (made.status_code, made.headers["Content-Type"]) == (200, "image/png")


@pytest.fixture(scope="module")
def registering(tmp_path_factory):
    """A bundle whose hash is the one that ships."""
    folder = tmp_path_factory.mktemp("registering")
    return write_toy_bundle(folder / "bundle", embedding=True, image_hash=OctaveCode())


def test_a_registry_numbers_and_remembers_pictures(registering, photos, key, tmp_path):
    registry = Registry(tmp_path / "pictures.registry")
    opening = {"key": key, "registry": registry}
    verifier = Verifier.open(registering, "cpu", **opening, settings=Settings(threads=1))
    embedder = Embedder.open(registering, **opening, threads=1)
    alike = photos[0].copy()
    alike[:8, :8] //= 2
    with served(verifier, embedder=embedder, registry=registry) as client:
        pictures = (photos[0], photos[1], alike)
        answers = [post(client, "/embed", png(picture), id="ördner") for picture in pictures]
        serials = [unquote(answer.headers["X-CoverLock-Serial"]) for answer in answers]
        told = post(client, "/verify", answers[1].content, id=serials[1]).json()
        other = post(client, "/verify", answers[1].content, id=serials[0]).json()
        missing = post(client, "/verify", answers[1].content, id="nobody").json()
        assert post(client, "/identify", answers[0].content).status_code == 503  # until a reload
    assert serials == [f"ördner/{n:06}" for n in (1, 2, 3)]
    assert (told["accepted"], told["reason"]) == (True, None)
    assert told["likeness"] > 0.98  # a verifier rounds pictures of other sizes
    assert told["frame"] == {"side": 1, "x": 0.5, "y": 0.5, "turn": 0, "aspect": 1}
    assert (other["accepted"], other["frame"]) == (False, None)
    assert missing["reason"] == "the registry has no such picture"
    warned = [answer.headers.get("X-CoverLock-Warning", "") for answer in answers]
    assert warned[:2] == ["", ""]
    assert "much like a picture that was marked before" in warned[2]


@pytest.fixture
def numbering(registering, key, tmp_path):
    """A service that marks and numbers pictures, one at a time and while its gate is open."""
    registry, gate = Registry(tmp_path / "pictures.registry"), threading.Event()
    opening = {"key": key, "registry": registry}
    verifier = Verifier.open(
        registering,
        "cpu",
        **opening,
        settings=Settings(threads=1, audit=tmp_path / "verdicts.jsonl"),
    )
    embedder = Embedder.open(registering, **opening, threads=1)
    mark = embedder.mark_content

    def held(*given):
        assert gate.wait(60)
        return mark(*given)

    embedder.mark_content = held
    gate.set()
    limits = Limits(seconds=3.0, pixels=160 * 192)
    with served(verifier, limits=limits, embedder=embedder, registry=registry) as client:
        yield client, registry, tmp_path / "verdicts.jsonl", gate


def test_whoever_asks_again_with_the_same_key_gets_the_same_picture(numbering, photos):
    client, registry, log, _ = numbering
    first, again = (post(client, "/embed", png(photos[0]), key="k1", id="order") for _ in range(2))
    assert first.status_code == 200
    assert again.content == first.content
    assert again.headers["X-CoverLock-Serial"] == first.headers["X-CoverLock-Serial"]
    for photo, identifier in ((photos[1], "order"), (photos[0], "other")):
        other = post(client, "/embed", png(photo), key="k1", id=identifier)
        assert other.status_code == 409
    other = post(client, "/embed", png(photos[1]), key="k2", id="order")
    assert unquote(other.headers["X-CoverLock-Serial"]) == "order/000002"
    assert registry.issue("order") == "order/000003"
    assert len(log.read_text().splitlines()) == 2


def test_nothing_is_issued_or_recorded_after_a_deadline(numbering, photos):
    """After a 504 there were serials and lines for pictures that nobody received."""
    client, registry, log, gate = numbering
    post(client, "/embed", png(photos[0]), id="order")
    gate.clear()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(post, client, "/embed", png(p), id="order") for p in photos[:4]]
        for _, late in zip(range(3), concurrent.futures.as_completed(asked), strict=False):
            assert late.result().status_code in (503, 504)
        gate.set()
    statuses = [answer.result().status_code for answer in asked]
    assert statuses.count(200) == 1  # it had begun, and its caller got it, although late
    until(lambda: counters(client)["coverlock_in_flight"] == 0)
    assert registry.issue("order") == "order/000003"
    assert len(log.read_text().splitlines()) == 2


def test_a_token_marks_only_identifiers_that_it_may(bundle, photos):
    """A token for /embed could mark any customer's identifier."""
    callers = Callers((Caller("studio", digest(DETAILED), ("embed",), prefixes=("order-",)),))
    verifier, embedder = Verifier.open(bundle, "cpu"), Embedder.open(bundle, threads=1)
    with served(verifier, callers, embedder=embedder) as client:
        assert post(client, "/embed", png(photos[1]), id="order-1").status_code == 200
        for identifier in ("bob", "xorder-1"):
            answer = post(client, "/embed", png(photos[1]), id=identifier)
            assert answer.status_code == 403
            assert "marks only 'order-...'" in answer.json()["error"]
