"""C2PA's Soft Binding Resolution API, as clients and strangers use it."""

import base64

import pytest
from hypothesis import HealthCheck, given, settings

from coverlock_plugins.content_credentials.routes import ResolutionRoutes
from coverlock_plugins.service.access import Caller, Callers, Limits, digest
from coverlock_plugins.service.deployment import Routes
from coverlock_sdk import Verifier
from coverlock_sdk.verifier.verifier import Settings
from tests.coverlock_plugins.content_credentials.certificates import make_certificates
from tests.coverlock_plugins.content_credentials.conftest import KEY, pixels, transplant
from tests.served import QUICK, png, served
from tests.toy_bundle import write_toy_bundle

LOCK = "io.github.coverlock.lock.1"
LOOKS = "io.github.coverlock.fingerprint.projection"
EXAMPLES = 8


def routes(studio) -> Routes:
    return ResolutionRoutes(studio.repository.folder, studio.root).add_to


def stripped(studio, number: int) -> bytes:
    """A signed picture without its manifest."""
    return png(pixels(studio.signed[number].path))


def opened(folder) -> Verifier:
    bundle = write_toy_bundle(folder / "bundle", KEY.fingerprint)
    return Verifier.open(bundle.path, "cpu", key=KEY, settings=Settings(threads=1))


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def client(verifier, studio):
    with served(verifier, callers=None, routes=(routes(studio),)) as client:
        yield client


def base64_of(value: bytes | str) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()


@pytest.mark.parametrize("number", [0, 1])
def test_a_picture_leads_to_its_manifest(client, studio, number):
    entry = studio.entry(number)
    image = {"content-type": "image/png"}
    answer = client.post(
        "/matches/byContent", content=stripped(studio, number), headers=image
    ).json()
    [match] = answer["matches"]
    assert match["manifestId"] == entry.manifest
    assert 90 < match["similarityScore"] <= 100
    store = client.get(f"/manifests/{entry.manifest}")
    assert store.headers["content-type"] == "application/c2pa"
    assert store.content == studio.repository.content(entry)


def test_a_transplant_and_an_unmarked_picture_lead_nowhere(client, studio, photos):
    for picture in (transplant(studio, photos[2]), photos[3]):
        answer = client.post("/matches/byContent", content=png(picture))
        assert (answer.status_code, answer.json()) == (200, {"matches": []})


def test_looking_up_pictures_has_a_budget_of_rejections(verifier, studio, photos):
    """It had none, so a search for a forgery went on here after /verify had refused it."""
    callers = Callers((Caller("shop", digest("token"), ("resolve",), **QUICK),))
    serving = {"limits": Limits(rejections=8), "routes": (routes(studio),)}
    with served(verifier, callers, **serving) as client:
        ask = {"content": png(photos[3]), "headers": {"Authorization": "Bearer token"}}
        statuses = [client.post("/matches/byContent", **ask).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


def test_soft_bindings_are_looked_up_either_way(client, studio):
    first = studio.entry(0)
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


def test_only_callers_with_the_scope_may_ask(studio, tmp_path):
    callers = Callers(
        [
            Caller("browser", digest("resolving"), ("resolve",)),
            Caller("shop", digest("verifying"), ("verify",)),
        ]
    )
    with served(opened(tmp_path), callers, routes=(routes(studio),)) as client:
        entry = studio.entry(0)

        def status(token: str | None) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return client.get(f"/manifests/{entry.manifest}", headers=headers).status_code

        assert (status("resolving"), status("verifying"), status(None)) == (200, 403, 401)
        assert client.get("/services/supportedAlgorithms").status_code == 200


def test_manifests_of_unknown_signers_are_not_found(studio, tmp_path):
    stranger = ResolutionRoutes(studio.repository.folder, make_certificates(tmp_path) / "root.pem")
    with served(opened(tmp_path), None, routes=(stranger.add_to,)) as client:
        entry = studio.entry(0)
        assert client.post("/matches/byContent", content=stripped(studio, 0)).json() == {
            "matches": []
        }
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
