"""What the service does with a request.

A request is a picture file as the body and a message in the query. Each step that could hold the
service up has a limit: size of the body, time to send it, pixels, time and memory to decode them,
pictures in flight, time to answer, requests a second. What is beyond a limit is answered at once
and clearly, and no caller gets so much of the service that others have to wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import ClientDisconnect

from coverlock_sdk.locking.messages import as_bits
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.serving.access import Caller, RateLimit, Scope
from coverlock_sdk.serving.admission import Limits, Shares, Stay
from coverlock_sdk.serving.decoding import decoding, decoding_pool
from coverlock_sdk.serving.deployment import Current, Decode, Deployment
from coverlock_sdk.serving.ledger import Ledger, SharedRates, SharedShares
from coverlock_sdk.serving.metrics import Metrics
from coverlock_sdk.serving.readiness import Readiness
from coverlock_sdk.serving.refusals import HANG_UP, RefusalError, explained

Result = TypeVar("Result")

_BEARER = HTTPBearer(auto_error=False)

MESSAGES = ("id", "bits")
LONGEST_MESSAGE = 1024


class Service:
    """What answers requests, and what guards it."""

    def __init__(
        self,
        deployment: Deployment,
        limits: Limits,
        reopen: Callable[[], Deployment] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.current = Current(deployment)
        self.limits = limits
        self._reopen = reopen
        self.metrics = Metrics()
        # Of what holds for all processes together the ledger keeps account.
        self.rate_limit = SharedRates(ledger, "rate") if ledger else RateLimit()
        self.rejections = SharedRates(ledger, "rejections") if ledger else RateLimit()
        in_flight = limits.in_flight
        self.places = SharedShares(ledger, "places", in_flight) if ledger else Shares(in_flight)
        processes = ledger.processes if ledger else 1
        self.requests = Shares(limits.connections, 2 * in_flight)
        self.buffered = Shares(limits.buffered // processes)
        self._share_out()
        # A thread waits for the batch of its picture, so that there is one for each.
        self.threads = ThreadPoolExecutor(limits.in_flight, thread_name_prefix="coverlock-verify")
        self.decoders = decoding_pool(limits, processes)
        self.readiness = Readiness(self.decoders)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Serve; then let what is under way finish, and give everything back."""
        await self.readiness.problem(self.current)  # the first caller need not wait for a process
        yield
        await asyncio.to_thread(self.threads.shutdown, wait=True)
        self.readiness.close()
        await asyncio.to_thread(self.decoders.close)
        await asyncio.to_thread(self.deployment.close)

    def reload(self) -> None:
        """Answer from now on with what files say now; raises if that cannot be used."""
        if self._reopen is not None:
            self.current.replace(self._reopen())
            self._share_out()

    def _share_out(self) -> None:
        callers = self.deployment.callers
        several = callers is not None and len(callers.all) > 1
        for shares in (self.places, self.buffered):
            shares.each = max(1, shares.total // 2) if several else shares.total

    @property
    def deployment(self) -> Deployment:
        """What answers now."""
        return self.current.deployment

    def admitted(self, request: Request) -> Caller | None:
        """Who sends a request, within their rate; None where nobody needs a token."""
        callers = self.deployment.callers
        if callers is None:
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        caller = callers.holder(token.strip()) if kind.lower() == "bearer" else None
        if caller is None:
            raise RefusalError(401, "send a known token: 'Authorization: Bearer ...'")
        request.state.caller = caller  # so that a refusal is counted as theirs
        wait = self.rate_limit.wait(caller.name, caller.rate, caller.burst)
        if wait:
            raise RefusalError(429, f"'{caller.name}' asks too often", retry_after=wait)
        return caller

    def allow(self, scope: Scope) -> Callable[..., Awaitable[None]]:
        """A dependency that lets through callers with ``scope``."""

        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> None:
            if not hasattr(request.state, "caller"):  # it came without a body, past the gate
                request.state.caller = self.admitted(request)
            caller: Caller | None = request.state.caller
            if caller is not None and scope not in caller.scopes:
                raise RefusalError(403, f"the token of '{caller.name}' does not allow '{scope}'")

        return check

    async def alive(self) -> Response:
        """For whoever restarts the service when it hangs."""
        return JSONResponse({"status": "ok"})

    async def ready(self) -> Response:
        """For load balancers; nothing here that a stranger should not know."""
        if problem := await self.readiness.problem(self.current):
            return JSONResponse({"status": "not ready", "error": problem}, 503)
        verifier = self.deployment.first
        manifest = verifier.bundle.manifest
        content = {
            "status": "ok",
            "watermark": manifest.watermark,
            "hash": manifest.hash,
            "runtime": verifier.runtime.name,
            "precision": verifier.precision,
        }
        return JSONResponse(content)

    async def metrics_text(self) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def answer(
        self,
        request: Request,
        id: Annotated[
            str | None, Query(description="Identifier that the picture should carry.")
        ] = None,
        bits: Annotated[str | None, Query(description="The message itself, as 0 and 1.")] = None,
    ) -> Response:
        """The handler of ``/verify``."""
        caller: Caller | None = request.state.caller
        message = self.message(request, id, bits)
        asked = (caller.name if caller else None, id, bits)
        self.budget(asked, taken=0)
        source = self.source(request, id, bits)

        def work(deployment: Deployment, content: bytes) -> Verdict:
            digest = hashlib.sha256(content).hexdigest()
            decode = self.decoding(content, source["caller"])
            return deployment.verify(decode, message, {**source, "sha256": digest})

        verdict = await self.process(request, work)
        if not verdict:
            self.budget(asked, taken=1)
        self.count(request, "accepted" if verdict else "rejected")
        detailed = caller is not None and "detail" in caller.scopes
        return JSONResponse(verdict.to_dict() if detailed else {"accepted": verdict.accepted})

    def decoding(self, content: bytes, caller: str | None) -> Decode:
        """How a picture file of a caller is decoded, in a process of its own."""
        return decoding(self.decoders, content, caller)

    async def process(
        self, request: Request, work: Callable[[Deployment, bytes], Result]
    ) -> Result:
        """Receive a picture file and let a thread work on it, or raise a ``RefusalError``."""
        caller: Caller | None = request.state.caller
        stay = Stay(caller.name if caller else None)
        job: asyncio.Future[Result] | None = None
        try:
            content = await self._body(request, stay)
            if not stay.take(self.places):  # only now: a slow sender keeps nobody waiting
                raise RefusalError(503, "too many pictures are waiting: try again later", 1)
            self.metrics.in_flight.inc()
            start = time.perf_counter()
            loop = asyncio.get_running_loop()
            in_thread = partial(copy_context().run, explained, partial(self._work, work, content))
            job = loop.run_in_executor(self.threads, in_thread)
            # A thread cannot be stopped: one that is too late keeps its place until it is done.
            job.add_done_callback(lambda done: self._leave(stay, done))
            result = await asyncio.wait_for(asyncio.shield(job), self.limits.seconds)
        except asyncio.TimeoutError:
            raise RefusalError(504, "the verdict took too long: try again later") from None
        finally:
            if job is None:
                stay.leave()
        self.metrics.seconds.observe(time.perf_counter() - start)
        return result

    def _work(self, work: Callable[[Deployment, bytes], Result], content: bytes) -> Result:
        with self.current.use() as deployment:
            return work(deployment, content)

    def budget(self, asked: tuple[str | None, ...], taken: int) -> None:
        """Refuse a caller who had too many pictures rejected for the same message."""
        allowed = self.limits.rejections
        wait = self.rejections.wait(asked, allowed / 3600, allowed, taken)
        if wait and not taken:
            raise RefusalError(
                429, "too many pictures were rejected for this message", retry_after=wait
            )

    def _leave(self, stay: Stay, job: asyncio.Future[Any]) -> None:
        stay.leave()
        self.metrics.in_flight.dec()
        if not job.cancelled():
            job.exception()  # looked at, so that a late failure is not reported as forgotten

    async def _body(self, request: Request, stay: Stay) -> bytes:
        limit = self.limits.bytes
        too_large = RefusalError(413, f"a picture file has at most {limit:,} bytes here")
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > limit:
            raise too_large
        content = bytearray()

        async def receive() -> None:
            async for chunk in request.stream():
                if len(content) + len(chunk) > limit:
                    raise too_large
                if not stay.take(self.buffered, len(chunk)):
                    raise RefusalError(503, "too many pictures are being received", retry_after=1)
                content.extend(chunk)

        try:
            await asyncio.wait_for(receive(), self.limits.seconds)
        except asyncio.TimeoutError:
            raise RefusalError(408, "the picture did not arrive in time") from None
        except ClientDisconnect:
            raise RefusalError(HANG_UP, "the client hung up") from None
        return bytes(content)

    async def refuse(self, request: Request, refusal: Exception) -> Response:
        """Answer a ``RefusalError``; whoever is still sending can finish, and then sees it."""
        assert isinstance(refusal, RefusalError)
        self.count(request, str(refusal.status))
        return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)

    async def fail(self, request: Request, error: Exception) -> Response:
        """Answer an unexpected error; the server logs it, and the caller learns no details."""
        self.count(request, "500")
        problem = {"error": "verification failed: the service's log says why"}
        return JSONResponse(problem, 500, {"Connection": "close"})  # as the server will

    def count(self, request: Request, outcome: str) -> None:
        """Count an answer."""
        caller = getattr(request.state, "caller", None)
        if request.method == "POST":
            self.metrics.answers.labels(outcome, caller.name if caller else "").inc()

    def message(self, request: Request, identifier: str | None, bits: str | None) -> Any:
        """The message that a request names: an identifier, or bits."""
        given = [value for name, value in request.query_params.multi_items() if name in MESSAGES]
        if len(given) != 1:
            raise RefusalError(400, "name the message once, by either ?id= or ?bits=")
        if not given[0] or len(given[0]) > LONGEST_MESSAGE:
            raise RefusalError(400, f"a message has 1 to {LONGEST_MESSAGE:,} characters")
        if identifier is not None:
            return identifier
        lengths = [verifier.bits for verifier in self.deployment.verifiers]
        length = len(given[0]) if len(given[0]) in lengths else lengths[0]
        return explained(lambda: as_bits(bits, 1, length)[0])

    def source(
        self, request: Request, identifier: str | None = None, bits: str | None = None
    ) -> dict[str, Any]:
        """Who asks, and for what: with the digest of the picture it ties an audit line to them."""
        caller: Caller | None = request.state.caller
        named = {"caller": caller.name if caller else None, "request": request.state.request_id}
        message = {"id": identifier, "bits": bits}
        return {**named, **{name: value for name, value in message.items() if value is not None}}
