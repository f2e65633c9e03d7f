"""The HTTP service: it reloads on SIGHUP, drains on SIGTERM, and can send traces."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import warnings
from types import FrameType
from typing import Any, get_type_hints

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import generate_latest
from pydantic import create_model

from coverlock_plugins.service.deployment import Deployment, Finding
from coverlock_plugins.service.embedding import embedding_routes
from coverlock_plugins.service.observing import Observed
from coverlock_plugins.service.refusals import REFUSALS, RefusalError, answer_errors
from coverlock_plugins.service.service import BODY, Identifier, Service, Upload
from coverlock_sdk import CoverLockError
from coverlock_sdk.errors import LossyFormatWarning, needs
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.locking.verdict import Verdict

TRACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables, which say where traces go."""


DETAILS = get_type_hints(Verdict) | {"frame": dict[str, float]}
SENT: dict[str, Any] = {name: (kind | None, None) for name, kind in DETAILS.items()}
Answer: Any = create_model("Answer", **SENT | {"accepted": (bool, ...)})
"""Whether a picture carries an identifier; with the scope ``detail``, all of the verdict."""
Found: Any = create_model("Found", __base__=Answer, id=(str | None, ...))
"""Which identifier it carries, besides."""


def create_app(service: Service) -> FastAPI:
    """The service over HTTP; it closes its deployment at shutdown."""
    app = FastAPI(
        title="CoverLock",
        description="Does a picture carry a message?",
        lifespan=service.lifespan,
        docs_url=None,  # the docs page would load scripts from another host
        redoc_url=None,
    )
    answer_errors(app)
    for routes in (watching_routes, judging_routes, embedding_routes):
        app.include_router(routes(service))
    for add_routes in service.deployment.routes:
        add_routes(app, service)
    return app


def watching_routes(service: Service) -> APIRouter:
    """The routes for operators."""
    router = APIRouter()

    @router.get("/livez", summary="Whether the service is up")
    async def alive() -> dict[str, str]:
        return {"status": "ok"}

    @router.get(
        "/readyz",
        summary="Whether the service can decode, verify and record a picture now",
        responses={503: {"description": "Not ready; the answer says why"}},
    )
    async def ready() -> Any:
        if service.draining:
            return JSONResponse({"status": "draining"}, 503)
        if problem := await service.readiness.problem(service.deployment):
            return JSONResponse({"status": "not ready", "error": problem}, 503)
        verifier = service.deployment.verifier
        manifest = verifier.bundle.manifest
        return {  # strangers may read all of this
            "status": "ok",
            "watermark": manifest.watermark,
            "hash": manifest.hash,
            "runtime": verifier.runtime.name,
            "precision": verifier.precision,
        }

    @router.get(
        "/metrics",
        summary="Counters and timings for Prometheus",
        response_class=Response,
        dependencies=[Depends(service.allow("metrics"))],
    )
    async def metrics() -> Response:
        counted = generate_latest(service.metrics.registry)
        return Response(counted, media_type="text/plain; version=0.0.4")

    return router


def judging_routes(service: Service) -> APIRouter:
    """The routes that answer about a picture."""
    router = APIRouter()

    async def judged(request: Request, id: str | None) -> dict[str, Any]:
        """What a caller may learn about a picture and an identifier, or None for any."""
        caller = request.state.caller

        def work(deployment: Deployment, upload: Upload) -> Finding:
            size = deployment.verifier.bundle.manifest.size
            picture = upload.picture(size)
            with service.turn(upload):
                found = deployment.judge(picture, id)
            upload.deadline.commit()
            source = {**upload.source, "id": found.identifier}
            deployment.verifier.announce([found.verdict], Given(b""), source)
            return found

        async with service.budgets.asking(caller, id) as rejected:
            found = await service.process(request, work)
            if not found.verdict:
                await rejected()
        outcome = "accepted" if found.verdict else "rejected"
        service.metrics.verdicts.labels(outcome, caller.name).inc()
        details = found.verdict.to_dict() if "detail" in caller.scopes else {}
        return {"accepted": found.verdict.accepted, "id": found.identifier, **details}

    @router.post(
        "/verify",
        summary="Whether a picture carries an identifier",
        response_model=Answer,
        response_model_exclude_unset=True,
        dependencies=[Depends(service.allow("verify"))],
        responses=REFUSALS,
        openapi_extra=BODY,
    )
    async def verify(request: Request, id: Identifier) -> Any:
        return await judged(request, id)

    @router.post(
        "/identify",
        summary="Which of the registered identifiers a picture carries, if any",
        response_model=Found,
        response_model_exclude_unset=True,
        dependencies=[Depends(service.allow("identify"))],
        responses=REFUSALS,
        openapi_extra=BODY,
    )
    async def identify(request: Request) -> Any:
        if not service.deployment.book:
            if service.deployment.registry is not None:
                raise RefusalError(503, "no serial is registered yet: reload the service", 60)
            raise RefusalError(
                404, "this service knows no identifiers: start it with --ids or --registry"
            )
        return await judged(request, None)

    return router


def trace(app: FastAPI) -> None:
    """Send traces without identifiers, as OpenTelemetry's variables say."""
    with needs("sending traces", "OpenTelemetry", "otel"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    FastAPIInstrumentor.instrument_app(
        app, tracer_provider=provider, server_request_hook=without_query
    )


def without_query(span: Any, scope: dict[str, Any]) -> None:
    """Remove the query, which names identifiers, from a span."""
    for name in ("http.url", "http.target", "url.full", "url.query"):
        if name in getattr(span, "attributes", {}):  # spans that are not recorded have none
            span.set_attribute(name, "" if name == "url.query" else scope["path"])


class Server(uvicorn.Server):
    """After SIGTERM, reports that it is draining for a while, then takes no more requests."""

    def __init__(self, service: Service) -> None:
        self.service = service
        app = create_app(service)
        if any(os.environ.get(name) for name in TRACES):
            trace(app)
        config = uvicorn.Config(
            Observed(app, service),
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,  # identifiers are in the query
            server_header=False,
            proxy_headers=False,  # nothing here depends on them
            timeout_keep_alive=75,  # longer than proxies keep connections, so that they close first
            timeout_graceful_shutdown=int(2 * service.limits.seconds) + 1,
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at a first SIGTERM; at a second one, and at Ctrl-C, stop at once."""
        if sig != signal.SIGTERM:
            super().handle_exit(sig, frame)
            return
        seconds = 0 if self.service.draining else self.service.limits.drain_seconds
        self.service.draining = True
        loop = asyncio.get_running_loop()
        loop.call_soon_threadsafe(loop.call_later, seconds, setattr, self, "should_exit", True)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise CoverLockError(
            f"the service cannot listen on {host}, port {port} ({error.strerror or error}): "
            "choose another address with --listen"
        ) from None


def run(service: Service, bound: socket.socket) -> None:
    """Serve in this process, which does nothing else, until told to stop."""
    warnings.simplefilter("ignore", LossyFormatWarning)  # callers of /embed choose formats
    server = Server(service)
    gc.freeze()  # objects made so far stay, so the collector need not scan them again

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no SIGHUP
            loop.add_signal_handler(signal.SIGHUP, loop.run_in_executor, None, service.reload)
        await server.serve([bound])

    asyncio.run(serve())
