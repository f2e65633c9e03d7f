"""Requests that schemathesis makes up from the resolution API's own description.

Half of them keep to the description and half break it; every second one is filled with algorithms,
values, manifests and pictures that the repository knows, whole or damaged. Whatever they are, the
service must answer as it says, and never with an error of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from coverlock_sdk.errors import needs
from coverlock_sdk.progress import progress
from coverlock_sdk.provenance.repository import Entry
from coverlock_sdk.provenance.resolving import Resolver
from coverlock_sdk.provenance.soft_bindings import encoded
from coverlock_sdk.verifier.verifier import Verifier


def fuzz(verifier: Verifier, resolver: Resolver, requests: int, seed: int) -> dict[str, Any]:
    """Answers by route and status, server errors, and answers that the description lacks."""
    with needs("fuzzing", "schemathesis", "dev"):
        import schemathesis
        from schemathesis.core.result import Ok
    with _served(verifier, resolver) as address:
        described = schemathesis.openapi.from_url(f"{address}/openapi.json")
        found = described.include(tag="resolution").get_all_operations()
        operations = [result.ok() for result in found if isinstance(result, Ok)]
        routes: dict[str, Any] = {}
        known = Known.of(resolver)
        left = requests
        for number, operation in enumerate(progress(operations, "routes")):
            routes[operation.label] = _asked(
                operation, -(-left // (len(operations) - number)), known, seed
            )
            left -= sum(routes[operation.label]["statuses"].values())
    return {
        "requests": requests - left,
        "server_errors": sum(each["server_errors"] for each in routes.values()),
        "undescribed": sum(each["undescribed"] for each in routes.values()),
        "routes": routes,
    }


@dataclass(frozen=True)
class Known:
    """What a repository knows, to make requests that get further than the first check."""

    algorithms: list[str]
    values: list[bytes]
    manifests: list[str]
    pictures: list[bytes]

    @classmethod
    def of(cls, resolver: Resolver) -> Known:
        """Serials, fingerprints, labels and thumbnails of a resolver's manifests."""
        entries = resolver.repository.entries()
        thumbnails = [resolver.manifest(entry).thumbnail for entry in entries]
        return cls(
            algorithms=[*resolver.algorithms[0], *resolver.algorithms[1]],
            values=[value for e in entries for value in _values(e)] or [b"nothing"],
            manifests=[entry.manifest for entry in entries] or ["nothing"],
            pictures=[each for each in thumbnails if each] or [b"nothing"],
        )

    def put_into(self, case: Any, draw: random.Random) -> None:
        """Fill in what a request has room for; one in three is damaged by a byte."""
        if isinstance(case.query, dict) and "alg" in case.query:
            case.query["alg"] = draw.choice(self.algorithms)
        value = encoded(_damaged(draw.choice(self.values), draw))
        if isinstance(case.query, dict) and "value" in case.query:
            case.query["value"] = value
        if isinstance(case.body, dict):
            case.body.update(alg=draw.choice(self.algorithms), value=value)
        if isinstance(case.body, bytes) or hasattr(case.body, "data"):
            case.body = _damaged(draw.choice(self.pictures), draw)
        if isinstance(case.path_parameters, dict) and "manifestId" in case.path_parameters:
            case.path_parameters["manifestId"] = draw.choice(self.manifests)


def _values(entry: Entry) -> tuple[bytes, bytes]:
    return str(entry.bindings.serial).encode(), entry.bindings.fingerprint


def _damaged(value: bytes, draw: random.Random) -> bytes:
    if draw.random() < 2 / 3:
        return value
    at = draw.randrange(len(value))
    return value[:at] + bytes([draw.randrange(256)]) + value[at + 1 :]


def _asked(operation: Any, requests: int, known: Known, seed: int) -> dict[str, Any]:
    """Ask one route, half of the time with what its description forbids."""
    import hypothesis
    from hypothesis.strategies import integers
    from schemathesis import GenerationMode

    statuses: Counter[str] = Counter()
    undescribed: list[str] = []
    for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE):
        cases = operation.as_strategy(generation_mode=mode)
        wanted = requests // 2 if mode is GenerationMode.NEGATIVE else requests - statuses.total()

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=max(1, wanted),
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=cases, number=integers(0, 2**32))
        def ask(case: Any, number: int) -> None:
            draw = random.Random(number)
            if draw.random() < 0.5:
                known.put_into(case, draw)
            answer = case.call()
            statuses[str(answer.status_code)] += 1
            if problem := _undescribed(case, answer):
                undescribed.append(problem)

        with suppress(hypothesis.errors.Unsatisfiable):  # nothing to get wrong without parameters
            ask()
    return {
        "statuses": dict(sorted(statuses.items())),
        "server_errors": sum(n for status, n in statuses.items() if status.startswith("5")),
        "undescribed": len(undescribed),
        "examples": undescribed[:3],
    }


def _undescribed(case: Any, answer: Any) -> str | None:
    """How an answer differs from what the description promises, if it does."""
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi import checks

    promised = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    try:
        case.validate_response(answer, checks=promised)
    except FailureGroup as failures:
        return str(failures.exceptions[0])
    return None


@contextmanager
def _served(verifier: Verifier, resolver: Resolver) -> Iterator[str]:
    """The service on a port of its own, in a thread."""
    from coverlock_sdk.serving.admission import Limits
    from coverlock_sdk.serving.deployment import Deployment
    from coverlock_sdk.serving.listening import bind
    from coverlock_sdk.serving.server import ServiceServer
    from coverlock_sdk.serving.service import Service

    [socket] = bind("127.0.0.1", 0)
    port = socket.getsockname()[1]
    server = ServiceServer(Service(Deployment((verifier,), resolver=resolver), Limits()))
    thread = threading.Thread(target=server.run, args=([socket],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
