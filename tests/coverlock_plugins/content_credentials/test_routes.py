"""C2PA's Soft Binding Resolution API, as clients and strangers use it."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("c2pa")

from hypothesis import HealthCheck, given, settings

from coverlock_plugins.content_credentials.credentials import Credentials
from coverlock_plugins.content_credentials.repository import ManifestRepository
from coverlock_plugins.content_credentials.routes import Resolution
from coverlock_plugins.content_credentials.signing import PictureSigner
from coverlock_plugins.content_credentials.trial_certificates import make_trial_certificates
from coverlock_plugins.service.access import Caller, Callers, Limits, digest
from coverlock_plugins.service.deployment import Routes
from coverlock_sdk import Key, Verifier
from coverlock_sdk.verifier.verifier import Settings
from tests.served import QUICK, png, served
from tests.toy_bundle import toy_lock, write_toy_bundle

LOCK = "io.github.coverlock.lock.1"


LOOKS = "io.github.coverlock.fingerprint.projection"


KEY = Key(bytes(range(32)), id="test")


EXAMPLES = 8


@pytest.fixture(scope="module")
def repository(tmp_path_factory, photos):
    folder = tmp_path_factory.mktemp("resolution")
    files = make_trial_certificates(folder / "certificates")
    made = ManifestRepository(folder / "repository", create=True)
    lock = toy_lock(KEY, registry=made.registry)
    signer = PictureSigner(lock, made, Credentials.load(files.chain, files.key))
    for number, photo in enumerate(photos[:2]):
        original = folder / f"photo-{number}.png"
        Image.fromarray(photo).save(original)
        signer.sign(original, folder / f"signed-{number}.png", made.registry.issue("order"))
    return made


def trusted(repository: ManifestRepository) -> Path:
    """The certificate that leads to the signer of all its manifests."""
    return Path(repository.folder).parent / "certificates" / "root.pem"


def routes(repository: ManifestRepository) -> Routes:
    return Resolution(repository.folder, trusted(repository)).add_to


@pytest.fixture(scope="module")
def signed(repository):
    """The signed pictures without their manifests."""
    folder = Path(repository.folder).parent
    paths = [folder / f"signed-{number}.png" for number in range(2)]
    return [png(np.asarray(Image.open(path))) for path in paths]


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    bundle = write_toy_bundle(tmp_path_factory.mktemp("served") / "bundle", KEY.fingerprint)
    return Verifier.open(bundle.path, "cpu", key=KEY, settings=Settings(threads=1))


@pytest.fixture(scope="module")
def client(verifier, repository):
    with served(verifier, callers=None, routes=(routes(repository),)) as client:
        yield client


def base64_of(value: bytes | str) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


@pytest.mark.parametrize("number", [0, 1])
def test_a_picture_leads_to_its_manifest(client, repository, signed, number):
    entry = repository.entries()[number]
    image = {"content-type": "image/png"}
    answer = client.post("/matches/byContent", content=signed[number], headers=image).json()
    [match] = answer["matches"]
    assert match["manifestId"] == entry.manifest
    assert 90 < match["similarityScore"] <= 100
    store = client.get(f"/manifests/{entry.manifest}")
    assert store.headers["content-type"] == "application/c2pa"
    assert store.content == repository.content(entry)


def test_a_transplant_and_an_unmarked_picture_lead_nowhere(client, signed, photos):
    marked = np.asarray(Image.open(io.BytesIO(signed[0]))).astype(int)
    forged = np.clip(photos[2] + (marked - photos[0]), 0, 255).astype(np.uint8)
    for picture in (forged, photos[3]):
        answer = client.post("/matches/byContent", content=png(picture))
        assert (answer.status_code, answer.json()) == (200, {"matches": []})


def test_looking_up_pictures_has_a_budget_of_rejections(verifier, repository, photos):
    """It had none, so a search for a forgery went on here after /verify had refused it."""
    callers = Callers((Caller("shop", digest("token"), ("resolve",), **QUICK),))
    serving = {"limits": Limits(rejections=8), "routes": (routes(repository),)}
    with served(verifier, callers, **serving) as client:
        ask = {"content": png(photos[3]), "headers": {"Authorization": "Bearer token"}}
        statuses = [client.post("/matches/byContent", **ask).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


def test_soft_bindings_are_looked_up_either_way(client, repository):
    first = repository.entries()[0]
    serial = {"alg": LOCK, "value": base64_of(first.bindings.serial)}
    looks = {"alg": LOOKS, "value": base64_of(first.bindings.fingerprint)}
    for query in (serial, looks):
        for answer in (
            client.get("/matches/byBinding", params=query),
            client.post("/matches/byBinding", json=query),
        ):
            best = answer.json()["matches"][0]
            assert best == {"manifestId": first.manifest, "similarityScore": 100}
    absent = {"alg": LOCK, "value": base64_of("order/999999")}
    assert client.get("/matches/byBinding", params=absent).json() == {"matches": []}


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"alg": LOCK}, "value: Field required"),
        ({"alg": LOCK, "value": "?"}, "base64"),
        ({"alg": LOOKS, "value": "AAAA"}, "3 bytes instead of 32"),
        ({"alg": "com.example.other", "value": "AAAA"}, "cannot be looked up here"),
        ({"alg": LOCK, "value": "AAAA", "maxResults": 0}, "maxResults"),
        ({"alg": LOCK, "value": "A" * 5000}, "at most 4,096 characters"),
    ],
)
def test_bad_queries_get_a_sentence(client, query, complaint):
    answer = client.get("/matches/byBinding", params=query)
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


def test_bad_bodies_get_a_sentence(client):
    assert client.post("/matches/byBinding", content=b"{").status_code == 400
    assert client.post("/matches/byBinding", json={"alg": LOCK}).status_code == 400
    assert client.post("/matches/byContent", content=b"hello").status_code == 422
    sound = client.post("/matches/byContent", content=b"x", headers={"content-type": "audio/wav"})
    assert sound.status_code == 415
    other = client.post("/matches/byContent?alg=com.example.other", content=b"x")
    assert other.status_code == 400
    assert client.get("/manifests/urn:c2pa:unknown").status_code == 404


def test_only_callers_with_the_scope_may_ask(repository, tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle", KEY.fingerprint)
    callers = Callers(
        [
            Caller("browser", digest("resolving"), ("resolve",)),
            Caller("shop", digest("verifying"), ("verify",)),
        ]
    )
    verifier = Verifier.open(bundle.path, "cpu", key=KEY, settings=Settings(threads=1))
    with served(verifier, callers, routes=(routes(repository),)) as client:
        entry = repository.entries()[0]

        def status(token: str | None) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return client.get(f"/manifests/{entry.manifest}", headers=headers).status_code

        assert (status("resolving"), status("verifying"), status(None)) == (200, 403, 401)
        assert client.get("/services/supportedAlgorithms").status_code == 200


def test_manifests_of_unknown_signers_are_not_found(verifier, repository, signed, tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle", KEY.fingerprint)
    own = Verifier.open(bundle.path, "cpu", key=KEY, settings=Settings(threads=1))
    stranger = make_trial_certificates(tmp_path / "stranger").root
    with served(own, None, routes=(Resolution(repository.folder, stranger).add_to,)) as client:
        entry = repository.entries()[0]
        assert client.post("/matches/byContent", content=signed[0]).json() == {"matches": []}
        query = {"alg": LOCK, "value": base64_of(entry.bindings.serial)}
        assert client.get("/matches/byBinding", params=query).json() == {"matches": []}
        assert client.get(f"/manifests/{entry.manifest}").status_code == 404


def test_the_routes_keep_to_their_own_description(client):
    """A short run of schemathesis; bench/results/resolution-fuzzing.json tells of a long one."""
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as openapi

    checks = [
        not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
    ]
    described = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    found = described.include(tag="resolution").get_all_operations()
    operations = [result.ok() for result in found]
    assert len(operations) == 5
    for operation in operations:

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def keeps_to_it(case):
            case.call_and_validate(checks=checks)

        keeps_to_it()
