"""The service itself: ``/verify``, ``/healthz``, ``/metrics``.

A request is a picture file as the body and a message in the query. Each step that could hold the
service up has a limit: size of the body, time to send it, pixels, pictures in flight, time to
answer, requests a second. What is beyond a limit is answered at once and clearly.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.errors import CoverLockError, MessageError, OverloadedError, PictureError
from coverlock_sdk.images.codecs import decode_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.images.picture import MAX_PIXELS
from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.serving.access import Caller, Callers, RateLimit, Scope
from coverlock_sdk.serving.metrics import Metrics
from coverlock_sdk.verifier.verifier import Verifier

logger = logging.getLogger(__name__)

_BEARER = HTTPBearer(auto_error=False)

HANG_UP = 499  # the convention for a client that left; nobody reads this answer

DECODERS = min(4, os.cpu_count() or 1)
"""Pictures decoded at a time: each takes a dozen bytes a pixel until it has the graph's size."""


@dataclass(frozen=True)
class Limits:
    """The limits of the service."""

    bytes: int = 20_000_000
    """Of a request's body."""
    pixels: int = MAX_PIXELS
    """Of a picture: a small file may decode to a very large one."""
    in_flight: int = 64
    """Pictures being verified or waiting; one more is answered 503."""
    seconds: float = 10.0
    """For receiving a picture, and again for answering."""
    rejections: int = 100
    """An hour that one caller may have for one message: whoever searches for a forgery by asking
    needs hundreds of them, and whoever checks real pictures hardly any."""


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


class RefusalError(Exception):
    """An answer other than 200, raised as soon as it is certain."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Connection": "close"} if status in (408, 413) else {}
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))


def create_app(
    verifier: Verifier, callers: Callers | None, limits: Limits | None = None
) -> FastAPI:
    """The service around ``verifier``, which it closes at shutdown.

    Without ``callers`` everybody may ask, and nobody is told more than accepted or rejected.
    """
    service = _Service(verifier, callers, limits or Limits())
    app = FastAPI(
        title="CoverLock verification",
        description="Does a picture carry a message?",
        lifespan=service.lifespan,
    )
    app.exception_handler(RefusalError)(service.refuse)
    app.exception_handler(Exception)(service.fail)
    app.get("/healthz", summary="Whether the service is up, and what it runs on")(service.health)
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
        responses={
            status: {"model": Problem, "description": meaning}
            for status, meaning in _MEANINGS.items()
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "description": "The picture file: PNG, JPEG, WebP, TIFF, ...",
                "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )(service.answer)
    return app


_MEANINGS: dict[int | str, str] = {
    400: "The message is missing or malformed",
    401: "No token, or an unknown one",
    403: "The token does not allow this",
    408: "The picture did not arrive in time",
    413: "The picture file is too large",
    422: "The body is not a picture that can be verified",
    429: "More requests than the token allows; see Retry-After",
    500: "A bug of the service; its log has more",
    503: "Too busy; see Retry-After",
    504: "The verdict took too long",
}


class _Service:
    def __init__(self, verifier: Verifier, callers: Callers | None, limits: Limits) -> None:
        self.verifier = verifier
        self.callers = callers
        self.limits = limits
        self.metrics = Metrics()
        self.rate_limit = RateLimit()
        self.rejections = RateLimit()
        self.in_flight = 0
        # A thread waits for the batch of its picture, so that there is one for each. It does not
        # decode it too: threads keep memory that they once had, and a few keep less than many.
        self.threads = ThreadPoolExecutor(limits.in_flight, thread_name_prefix="coverlock-verify")
        self.decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="coverlock-decode")

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Serve; then let what is under way finish, and give everything back."""
        yield
        for pool in (self.threads, self.decoders):
            await asyncio.to_thread(pool.shutdown, wait=True)
        await asyncio.to_thread(self.verifier.close)

    def allow(self, scope: Scope) -> Callable[..., Awaitable[None]]:
        """A dependency that lets through callers with ``scope``, within their rate."""

        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> None:
            request.state.caller = None
            if self.callers is None:
                return
            caller = self.callers.holder(credentials.credentials) if credentials else None
            if caller is None:
                raise RefusalError(401, "send a known token: 'Authorization: Bearer ...'")
            if scope not in caller.scopes:
                raise RefusalError(403, f"the token of '{caller.name}' does not allow '{scope}'")
            wait = self.rate_limit.wait(caller.name, caller.rate, caller.burst)
            if wait:
                raise RefusalError(429, f"'{caller.name}' asks too often", retry_after=wait)
            request.state.caller = caller

        return check

    async def health(self) -> Response:
        """For load balancers; nothing here that a stranger should not know."""
        manifest = self.verifier.bundle.manifest
        content = {
            "status": "ok",
            "watermark": manifest.watermark,
            "hash": manifest.hash,
            "runtime": self.verifier.runtime.name,
            "precision": self.verifier.precision,
        }
        return JSONResponse(content)

    async def metrics_text(self) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def answer(
        self,
        request: Request,
        id: Annotated[
            str | None, Query(description="Identifier; its codeword is the message.")
        ] = None,
        bits: Annotated[str | None, Query(description="The message itself, as 0 and 1.")] = None,
    ) -> Response:
        """The handler of ``/verify``."""
        asked = (getattr(request.state.caller, "name", None), id, bits)
        self._budget(asked, taken=0)
        verdict = await self.verify(request, id, bits)
        if not verdict:
            self._budget(asked, taken=1)
        self.metrics.answers.labels("accepted" if verdict else "rejected").inc()
        caller: Caller | None = request.state.caller
        detailed = caller is not None and "detail" in caller.scopes
        return JSONResponse(verdict.to_dict() if detailed else {"accepted": verdict.accepted})

    async def verify(self, request: Request, identifier: str | None, bits: str | None) -> Verdict:
        """Read one request and answer it, or raise a ``RefusalError``."""
        message = self._message(identifier, bits)
        if self.in_flight >= self.limits.in_flight:
            raise RefusalError(503, "too many pictures are waiting: try again later", retry_after=1)
        self.in_flight += 1
        self.metrics.in_flight.set(self.in_flight)
        job: asyncio.Future[Verdict] | None = None
        try:
            content = await self._body(request)
            start = time.perf_counter()
            loop = asyncio.get_running_loop()
            source = _source(request.state.caller, identifier, bits)
            job = loop.run_in_executor(self.threads, self._verify, content, message, source)
            # A thread cannot be stopped: one that is too late keeps its place until it is done.
            job.add_done_callback(self._leave)
            verdict = await asyncio.wait_for(asyncio.shield(job), self.limits.seconds)
        except asyncio.TimeoutError:
            raise RefusalError(504, "the verdict took too long: try again later") from None
        finally:
            if job is None:
                self._leave(None)
        self.metrics.seconds.observe(time.perf_counter() - start)
        return verdict

    def _budget(self, asked: tuple[str | None, ...], taken: int) -> None:
        """Refuse a caller who had too many pictures rejected for the same message."""
        allowed = self.limits.rejections
        wait = self.rejections.wait(asked, allowed / 3600, allowed, taken)
        if wait and not taken:
            raise RefusalError(
                429, "too many pictures were rejected for this message", retry_after=wait
            )

    def _leave(self, job: asyncio.Future[Verdict] | None) -> None:
        self.in_flight -= 1
        self.metrics.in_flight.set(self.in_flight)
        if job is not None and not job.cancelled():
            job.exception()  # looked at, so that a late failure is not reported as forgotten

    def _verify(self, content: bytes, message: Any, source: dict[str, Any]) -> Verdict:
        try:
            pixels = self.decoders.submit(self._decoded, content).result()
            source = {**source, "sha256": hashlib.sha256(content).hexdigest()}
            return self.verifier.verify(pixels, message, source=source)
        except PictureError as error:
            raise RefusalError(422, str(error)) from None
        except OverloadedError as error:
            raise RefusalError(503, str(error), retry_after=1) from None
        except MessageError as error:
            raise RefusalError(400, str(error)) from None
        except CoverLockError:
            logger.exception("a request failed")  # the caller is told nothing about this machine
            raise RefusalError(503, "verification failed: try again later", 5) from None

    def _decoded(self, content: bytes) -> Pixels:
        """A picture at the graph's size, which is all that is kept of it while it waits."""
        picture = read(decode_image(content, self.limits.pixels))
        return picture.to_bytes(self.verifier.bundle.manifest.size)

    async def _body(self, request: Request, keep: bool = True) -> bytes:
        limit = self.limits.bytes
        too_large = RefusalError(413, f"a picture file has at most {limit:,} bytes here")
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > limit:
            raise too_large
        content = bytearray()

        async def receive() -> None:
            received = 0
            async for chunk in request.stream():
                received += len(chunk)
                if received > limit:
                    raise too_large
                if keep:
                    content.extend(chunk)

        try:
            await asyncio.wait_for(receive(), self.limits.seconds)
        except asyncio.TimeoutError:
            raise RefusalError(408, "the picture did not arrive in time") from None
        except ClientDisconnect:
            raise RefusalError(HANG_UP, "the client hung up") from None
        return bytes(content)

    async def refuse(self, request: Request, refusal: Exception) -> Response:
        """Answer a ``RefusalError`` after reading the rest of the request.

        A client that is still sending would otherwise see a broken connection and no answer.
        """
        assert isinstance(refusal, RefusalError)
        self._count(request, refusal.status)
        if "Connection" not in refusal.headers:
            with contextlib.suppress(RefusalError, RuntimeError):
                await self._body(request, keep=False)
        return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)

    async def fail(self, request: Request, error: Exception) -> Response:
        """Answer an unexpected error; the server logs it, and the caller learns no details."""
        self._count(request, 500)
        problem = {"error": "verification failed: the service's log says why"}
        return JSONResponse(problem, 500, {"Connection": "close"})  # as the server will

    def _count(self, request: Request, status: int) -> None:
        if request.url.path == "/verify":
            self.metrics.answers.labels(str(status)).inc()

    def _message(self, identifier: str | None, bits: str | None) -> Any:
        if (identifier is None) == (bits is None):
            raise RefusalError(400, "name the message by either ?id= or ?bits=")
        if identifier is not None:
            return identifier
        try:
            return as_bits(bits, 1, self.verifier.bits)[0]
        except MessageError as error:
            raise RefusalError(400, str(error)) from None


def _source(caller: Caller | None, identifier: str | None, bits: str | None) -> dict[str, Any]:
    """Who asks, and for what: with the digest of the picture it ties a line of the log to them."""
    message = {"bits": bits} if identifier is None else {"id": identifier}
    return {"caller": caller.name if caller else None, **message}
