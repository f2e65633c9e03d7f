"""Traces for OpenTelemetry, where it is installed: a span for each request and each of its steps.

With the API alone, or without it, all this does nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from coverlock_sdk.errors import needs
from coverlock_sdk.serving.request_log import Send

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables, of which one says where traces go."""

_NAME = "coverlock_sdk"


def _part(name: str) -> Any:
    """A part of OpenTelemetry's API, or None where it is not installed."""
    try:
        return importlib.import_module(f"opentelemetry.{name}")
    except ImportError:
        return None


trace, propagate = _part("trace"), _part("propagate")


@contextlib.contextmanager
def span(name: str) -> Iterator[None]:
    """A step of what is being done now; an error in it is recorded."""
    if trace is None:
        yield
        return
    with trace.get_tracer(_NAME).start_as_current_span(name):
        yield


@contextlib.contextmanager
def request_span(scope: Mapping[str, Any], send: Send, **attributes: Any) -> Iterator[Send]:
    """A request, as a part of what its sender traces; what is sent by it says how it ended."""
    if trace is None:
        yield send
        return
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    about = {"http.request.method": scope["method"], "url.path": scope["path"], **attributes}
    with trace.get_tracer(_NAME).start_as_current_span(
        f"{scope['method']} {scope['path']}",
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        attributes={name: value for name, value in about.items() if value is not None},
    ) as current:

        async def observed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                current.set_attribute("http.response.status_code", message["status"])
            await send(message)

        yield observed


def start_tracing() -> None:
    """Send traces where OpenTelemetry's variables say, if they say so."""
    if not any(os.environ.get(name) for name in SWITCHES):
        return
    with needs("sending traces", "OpenTelemetry", "otel"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
