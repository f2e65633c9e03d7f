"""Runs the service with uvicorn, as it is: reload at SIGHUP, drain at SIGTERM, traces if wanted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import warnings
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Response
from fastapi.responses import JSONResponse

from coverlock_plugins.service.embedding import embedding_routes
from coverlock_plugins.service.judging import judging_routes
from coverlock_plugins.service.observing import Observed
from coverlock_plugins.service.refusals import answer_errors
from coverlock_plugins.service.service import Service
from coverlock_sdk.errors import CoverLockError, LossyFormatWarning, needs


def create_app(service: Service) -> FastAPI:
    """The service over HTTP; it closes its deployment at shutdown.

    Without callers everybody may ask, and nobody is told more than accepted or rejected. There is
    no page of documentation, since FastAPI's loads scripts from another host; ``/openapi.json``
    describes everything.
    """
    app = FastAPI(
        title="CoverLock",
        description="Does a picture carry a message?",
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Observed, service=service)
    answer_errors(app)
    for routes in (watching_routes, judging_routes, embedding_routes):
        app.include_router(routes(service))
    for add_routes in service.deployment.routes:
        add_routes(app, service)
    return app


def watching_routes(service: Service) -> APIRouter:
    """The routes for those who run the service."""
    router = APIRouter()

    @router.get("/livez", summary="Whether the service is up")
    async def alive() -> dict[str, str]:
        return {"status": "ok"}

    @router.get(
        "/readyz",
        summary="Whether the service can decode, verify and record a picture now",
        responses={503: {"description": "Not now, or not any more; the answer says why"}},
    )
    async def ready() -> Response:
        if service.draining:
            return JSONResponse({"status": "draining"}, 503)
        if problem := await service.readiness.problem(service.current):
            return JSONResponse({"status": "not ready", "error": problem}, 503)
        verifier = service.deployment.first
        manifest = verifier.bundle.manifest
        content: dict[str, Any] = {  # nothing here that a stranger should not know
            "status": "ok",
            "watermark": manifest.watermark,
            "hash": manifest.hash,
            "runtime": verifier.runtime.name,
            "precision": verifier.precision,
        }
        return JSONResponse(content)

    @router.get(
        "/metrics",
        summary="Counters and timings for Prometheus",
        response_class=Response,
        dependencies=[Depends(service.allow("metrics"))],
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    return router


logger = logging.getLogger(__name__)

TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable, which says where traces go."""


def make_server(service: Service) -> uvicorn.Server:
    """A server that is not running yet."""
    app = create_app(service)
    if os.environ.get(TRACES):
        trace(app)
    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,  # identifiers are in the query
        server_header=False,
        proxy_headers=False,  # nothing here depends on what they say
        timeout_keep_alive=75,  # longer than proxies keep connections, so that they close first
        timeout_graceful_shutdown=int(2 * service.limits.seconds) + 1,
    )
    return uvicorn.Server(config)


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
    """Serve in this process, which is there for nothing else, until it is told to stop."""
    warnings.simplefilter("ignore", LossyFormatWarning)  # callers of /embed choose formats
    server = make_server(service)
    gc.freeze()  # what is there by now stays, and need not be looked through again and again
    asyncio.run(_serve(server, service, bound))


async def _serve(server: uvicorn.Server, service: Service, bound: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def drain() -> None:
        if service.draining:
            server.should_exit = True  # told twice: at once
        service.draining = True
        loop.call_later(service.limits.drain_seconds, setattr, server, "should_exit", True)

    def reload() -> None:
        loop.run_in_executor(None, reload_files, service)

    def handle(name: str, act: Callable[[], None]) -> None:
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has neither
            loop.add_signal_handler(getattr(signal, name), act)

    handle("SIGHUP", reload)  # before anybody is told that the service is ready
    serving = asyncio.create_task(server.serve([bound]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    handle("SIGTERM", drain)  # uvicorn has set a handler of its own as it started
    await serving


def reload_files(service: Service) -> None:
    """Take in what changed in files; what cannot be used changes nothing."""
    try:
        service.reload()
        logger.warning("reloaded")
    except CoverLockError as error:
        logger.warning("not reloaded, the service goes on as before: %s", error)
    except Exception:
        logger.exception("not reloaded, the service goes on as before")


def trace(app: FastAPI) -> None:
    """Send traces of requests where OpenTelemetry's variables say, without identifiers."""
    with needs("sending traces", "OpenTelemetry", "otel"):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    FastAPIInstrumentor.instrument_app(app, server_request_hook=without_query)


def without_query(span: Any, scope: dict[str, Any]) -> None:
    """Take the query, which names identifiers, out of a span."""
    for name in ("http.url", "http.target", "url.full", "url.query"):
        if name in (span.attributes or {}):
            span.set_attribute(name, "" if name == "url.query" else scope["path"])
