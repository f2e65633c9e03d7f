"""The service: ``/verify``, ``/livez``, ``/readyz``, ``/metrics``, ``/docs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from coverlock_sdk.serving.access import Callers
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.gate import Gate
from coverlock_sdk.serving.reference import reference_page
from coverlock_sdk.serving.refusals import MEANINGS, RefusalError
from coverlock_sdk.serving.request_log import RequestLog
from coverlock_sdk.serving.resolution import Resolution
from coverlock_sdk.serving.service import Service
from coverlock_sdk.verifier.verifier import Verifier

if TYPE_CHECKING:
    from coverlock_sdk.provenance.resolving import Resolver


class Answer(BaseModel):
    """What every caller is told."""

    accepted: bool


class DetailedAnswer(Answer):
    """What callers with the scope ``detail`` are told."""

    p_value: float
    matches: int
    bits: int
    fpr: float
    rule: str
    key_id: str | None
    locked: bool


class Problem(BaseModel):
    """Any other answer: one sentence."""

    error: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning} for status, meaning in MEANINGS.items()
}


def create_app(
    verifier: Verifier,
    callers: Callers | None,
    limits: Limits | None = None,
    resolver: Resolver | None = None,
) -> FastAPI:
    """The service around ``verifier``, which it closes at shutdown.

    Without ``callers`` everybody may ask, and nobody is told more than accepted or rejected. With a
    ``resolver`` it also finds the manifests of pictures.
    """
    service = Service(verifier, callers, limits or Limits())
    app = FastAPI(
        title="CoverLock verification",
        description="Does a picture carry a message?",
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Gate, service=service)
    app.add_middleware(RequestLog)
    app.exception_handler(RefusalError)(service.refuse)
    app.exception_handler(Exception)(service.fail)
    app.get("/livez", summary="Whether the service is up")(service.alive)
    for path in ("/readyz", "/healthz"):
        app.get(
            path,
            summary="Whether the service can decode, verify and record a picture now",
            responses={503: {"description": "Not now; the answer says what does not work"}},
        )(service.ready)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(reference_page(app.openapi()), headers=policy)

    app.get(
        "/metrics",
        summary="Counters and timings for Prometheus",
        response_class=Response,
        dependencies=[Depends(service.allow("metrics"))],
    )(service.metrics_text)
    app.post(
        "/verify",
        summary="Whether a picture carries a message",
        response_model=DetailedAnswer | Answer,
        dependencies=[Depends(service.allow("verify"))],
        responses=REFUSALS,
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "The picture file: PNG, JPEG, WebP, TIFF, ...",
                "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )(service.answer)
    if resolver is not None:
        Resolution(service, resolver).add_to(app, REFUSALS)
    return app
