"""The routes of the service: ``/verify``, ``/identify``, ``/embed``, and those that watch it."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from coverlock_sdk.serving.embedding import HEADERS, Embedding
from coverlock_sdk.serving.gate import Gate
from coverlock_sdk.serving.identification import Found, Identifying
from coverlock_sdk.serving.reference import reference_page
from coverlock_sdk.serving.refusals import MEANINGS, RefusalError, refuse_query
from coverlock_sdk.serving.request_log import RequestLog
from coverlock_sdk.serving.resolution import Resolution
from coverlock_sdk.serving.service import Service


class Answer(BaseModel):
    """What every caller is told."""

    accepted: bool


class FrameAnswer(BaseModel):
    """Which part of the original frame, a unit square, a picture shows."""

    side: float
    x: float
    y: float
    turn: float


class DetailedAnswer(Answer):
    """What callers with the scope ``detail`` are told: all of the verdict."""

    p_value: float
    matches: int
    bits: int
    fpr: float
    rule: str
    agreement: float
    floor: float
    likeness: float | None
    frame: FrameAnswer | None
    key_id: str | None
    reason: str | None


class Problem(BaseModel):
    """Any other answer: one sentence."""

    error: str


MARKED = {
    "description": "The marked picture",
    "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    "headers": {
        name: {"description": meaning, "schema": {"type": "string"}}
        for name, meaning in HEADERS.items()
    },
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": meaning} for status, meaning in MEANINGS.items()
}


PICTURE = {
    "requestBody": {
        "required": True,
        "description": "The picture file: PNG, JPEG, WebP, TIFF, ...",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def create_app(service: Service) -> FastAPI:
    """The service over HTTP; it closes its deployment at shutdown.

    Without callers everybody may ask, and nobody is told more than accepted or rejected. What the
    deployment has decides which routes there are besides ``/verify``.
    """
    deployment = service.deployment
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
    app.exception_handler(RequestValidationError)(refuse_query)
    app.exception_handler(Exception)(service.fail)
    _add_watching(app, service)
    app.post(
        "/verify",
        summary="Whether a picture carries a message",
        response_model=DetailedAnswer | Answer,
        dependencies=[Depends(service.allow("verify"))],
        responses=REFUSALS,
        openapi_extra=PICTURE,
    )(service.answer)
    if deployment.books or deployment.registry:
        app.post(
            "/identify",
            summary="Which of the registered identifiers a picture carries, if any",
            response_model=Found,
            dependencies=[Depends(service.allow("identify"))],
            responses=REFUSALS,
            openapi_extra=PICTURE,
        )(Identifying(service).answer)
    if deployment.embedder is not None:
        app.post(
            "/embed",
            summary="The picture with a message in it",
            response_class=Response,
            dependencies=[Depends(service.allow("embed"))],
            responses={**REFUSALS, 200: MARKED},
            openapi_extra=PICTURE,
        )(Embedding(service).answer)
    if deployment.resolver is not None:
        Resolution(service).add_to(app, REFUSALS)
    return app


def _add_watching(app: FastAPI, service: Service) -> None:
    """The routes for those who run the service."""
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
