"""Requests that schemathesis makes up from the resolution API's own description.

Half of them keep to the description and half break it. Whatever they are, the service must answer
as it says, and never with an error of its own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from coverlock_sdk.errors import needs
from coverlock_sdk.progress import progress
from coverlock_sdk.provenance.resolving import Resolver
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
        # Without parameters there is little to ask; the other routes make up for it.
        operations.sort(key=lambda each: "supportedAlgorithms" not in each.path)
        routes: dict[str, Any] = {}
        left = requests
        for number, operation in enumerate(progress(operations, "routes")):
            routes[operation.label] = _asked(
                operation, -(-left // (len(operations) - number)), seed
            )
            left -= sum(routes[operation.label]["statuses"].values())
    return {
        "requests": requests - left,
        "server_errors": sum(each["server_errors"] for each in routes.values()),
        "undescribed": sum(each["undescribed"] for each in routes.values()),
        "routes": routes,
    }


def _asked(operation: Any, requests: int, seed: int) -> dict[str, Any]:
    """Ask one route, half of the time with what its description forbids."""
    import hypothesis
    from schemathesis import GenerationMode

    statuses: Counter[str] = Counter()
    undescribed: list[str] = []
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        cases = operation.as_strategy(generation_mode=mode)

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=max(1, requests // 2),
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=cases)
        def ask(case: Any) -> None:
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
    import uvicorn

    from coverlock_sdk.serving.admission import Limits
    from coverlock_sdk.serving.app import create_app
    from coverlock_sdk.serving.connections import server_config

    limits = Limits()
    app = create_app(verifier, None, limits, resolver)
    server = uvicorn.Server(server_config(app, limits, port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
