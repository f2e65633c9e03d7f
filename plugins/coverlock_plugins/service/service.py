"""What the service does with a request, and what guards it.

A request is a picture file as the body and an identifier in the query. Each step that could hold
the service up has a limit: size of the body, time to send it, pixels, time and memory to decode
them, pictures in flight, time to answer, requests a second. What is beyond a limit is answered at
once and clearly, and no caller gets so much of the service that others have to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from coverlock_plugins.service.access import Caller, Deadline, Limits, Scope
from coverlock_plugins.service.budgets import Budgets, Rejected
from coverlock_plugins.service.deployment import Current, Deployment, Readiness
from coverlock_plugins.service.observing import Message, Metrics
from coverlock_plugins.service.refusals import HANG_UP, RefusalError, explained
from coverlock_sdk.images.isolation import PROCESSES, DecodingPool, Turns
from coverlock_sdk.images.picture import Picture

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


_ENVELOPE = 8192
"""Bytes of a multipart body besides the file in it."""

BODY = {
    "requestBody": {
        "required": True,
        "description": "The picture file (PNG, JPEG, WebP, TIFF, ...), as it is or in a form.",
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"file": {"type": "string", "format": "binary"}},
                    "required": ["file"],
                }
            },
        },
    }
}
"""How OpenAPI describes what ``received`` takes."""


@dataclass(frozen=True)
class Upload:
    """The body of a request, and until when it must be answered."""

    content: bytes
    caller: str | None
    deadline: Deadline
    decoders: DecodingPool

    @property
    def sha256(self) -> str:
        """The digest of the file."""
        return hashlib.sha256(self.content).hexdigest()

    def picture(self, size: tuple[int, int] | None) -> Picture:
        """The picture at ``size``, decoded entirely, so that every picture takes the same steps."""
        return self.decoders.picture(self.content, size, self.caller, patience=self.deadline.left)

    def image(self) -> tuple[PilImage, str]:
        """All of the picture, and the format of its file."""
        return self.decoders.image(self.content, self.caller, patience=self.deadline.left)


async def received(request: Request, limits: Limits, take: Callable[[int], None]) -> bytes:
    """The picture file that a request carries; ``take`` makes room for some bytes of it."""
    try:
        body = await asyncio.wait_for(_body(request, limits.bytes, take), limits.seconds)
    except asyncio.TimeoutError:
        raise RefusalError(408, "the picture did not arrive in time") from None
    except ClientDisconnect:
        raise RefusalError(HANG_UP, "the client hung up") from None
    if request.headers.get("content-type", "").startswith("multipart/"):
        return await _file_in_form(request, body)
    return body


async def _body(request: Request, limit: int, take: Callable[[int], None]) -> bytes:
    too_large = RefusalError(413, f"a picture file has at most {limit:,} bytes here")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit + _ENVELOPE:
        raise too_large
    content = bytearray()
    async for chunk in request.stream():
        if len(content) + len(chunk) > limit + _ENVELOPE:
            raise too_large
        explained(partial(take, len(chunk)))
        content.extend(chunk)
    return bytes(content)


async def _file_in_form(request: Request, body: bytes) -> bytes:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    problem = RefusalError(400, "a form must have one file, as in curl -F file=@photo.jpg")
    try:
        async with Request(request.scope, receive).form(max_files=1, max_fields=0) as form:
            files = [part for part in form.values() if isinstance(part, UploadFile)]
            if len(files) != 1:
                raise problem
            return await files[0].read()
    except (HTTPException, MultipartParseError, ValueError, KeyError):
        raise problem from None


Result = TypeVar("Result")

_BEARER = HTTPBearer(auto_error=False)

LONGEST_IDENTIFIER = 1024


class Service:
    """What answers requests, and what guards it."""

    def __init__(
        self,
        deployment: Deployment,
        limits: Limits,
        reopen: Callable[[], Deployment] | None = None,
    ) -> None:
        self.current = Current(deployment)
        self.limits = limits
        self.draining = False
        """Whether the service is about to end, and sends its callers elsewhere."""
        self._reopen = reopen
        self.metrics = Metrics()
        self.budgets = Budgets(limits.rejections, limits.counted_in)
        self.places = Turns(limits.in_flight)
        self.buffered = Turns(limits.buffered)
        self._take_in()
        # A thread waits for the batch of its picture, so that there is one for each.
        self.threads = ThreadPoolExecutor(limits.in_flight, thread_name_prefix="coverlock")
        self.decoders = DecodingPool(
            PROCESSES, limits.decode_seconds, limits.pixels, limits.seconds, self.metrics.decoded
        )
        self.readiness = Readiness(self.decoders)

    @contextlib.asynccontextmanager
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
            self._take_in()

    def _take_in(self) -> None:
        """Adapt to a new deployment."""
        callers = self.deployment.callers
        for turns in (self.places, self.buffered):
            turns.shared = callers is not None and len(callers.all) > 1
        for verifier in self.deployment.verifiers:
            verifier.observe_batches(self.metrics.batches.observe)

    @property
    def deployment(self) -> Deployment:
        """What answers now."""
        return self.current.deployment

    def allow(self, scope: Scope) -> Callable[..., Awaitable[None]]:
        """A dependency that lets through callers with ``scope``, as often as they may ask."""

        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> None:
            request.state.caller = None
            callers = self.deployment.callers
            if callers is None:
                return
            caller = callers.holder(credentials.credentials) if credentials else None
            if caller is None:
                raise RefusalError(401, "send a known token: 'Authorization: Bearer ...'")
            request.state.caller = caller  # so that a refusal is counted as theirs
            await self.budgets.admit(caller)
            if scope not in caller.scopes:
                raise RefusalError(403, f"the token of '{caller.name}' does not allow '{scope}'")

        return check

    @contextlib.asynccontextmanager
    async def asking(self, request: Request, identifier: str | None) -> AsyncIterator[Rejected]:
        """Ask about an identifier, or None for any, while its budget of rejections lasts.

        Call what is yielded when a picture was rejected (see ``Budgets.asking``).
        Callers who see p-values have no budget: with those they need no rejections to search.
        """
        caller: Caller | None = request.state.caller
        if caller is not None and "detail" in caller.scopes:

            async def rejected() -> None:
                pass

            yield rejected
            return
        name = caller.name if caller else ""
        async with self.budgets.asking(name, canonical(identifier)) as spend:
            yield spend

    async def process(
        self, request: Request, work: Callable[[Deployment, Upload], Result]
    ) -> Result:
        """Receive a picture file and let a thread work on it, or raise a ``RefusalError``."""
        caller: Caller | None = request.state.caller
        name = caller.name if caller else None
        stay = contextlib.ExitStack()  # what the picture holds until it is done
        job: asyncio.Future[Result] | None = None
        try:
            room = partial(self.buffered.turn, name, 0)
            content = await received(
                request, self.limits, lambda size: stay.enter_context(room(size))
            )
            # Only now: a slow sender keeps nobody waiting.
            explained(lambda: stay.enter_context(self.places.turn(name, 0)))
            deadline = Deadline(self.limits.seconds)
            upload = Upload(content, name, deadline, self.decoders)
            self.metrics.in_flight.inc()
            in_thread = partial(copy_context().run, explained, partial(self._work, work, upload))
            job = asyncio.get_running_loop().run_in_executor(self.threads, in_thread)
            job.add_done_callback(lambda done: self._leave(stay, done))
            try:
                return await asyncio.wait_for(asyncio.shield(job), self.limits.seconds)
            except (asyncio.TimeoutError, TimeoutError):
                if not deadline.give_up():
                    return await job
                raise RefusalError(504, "the answer took too long: try again later") from None
        finally:
            if job is None:
                stay.close()

    def _work(self, work: Callable[[Deployment, Upload], Result], upload: Upload) -> Result:
        with self.current.use() as deployment:
            return work(deployment, upload)

    def _leave(self, stay: contextlib.ExitStack, job: asyncio.Future[Any]) -> None:
        """Give back what a picture held: it may be done long after its caller was answered."""
        stay.close()
        self.metrics.in_flight.dec()
        if not job.cancelled():
            job.exception()  # looked at, so that a late failure is not reported as forgotten

    def source(self, request: Request, identifier: str | None = None) -> dict[str, Any]:
        """Who asks, and for what: with the digest of the picture it ties an audit line to them."""
        caller: Caller | None = request.state.caller
        source = {"caller": caller.name if caller else None, "request": request.state.request_id}
        return source if identifier is None else {**source, "id": identifier}


def named_once(request: Request) -> str:
    """The identifier that a request names."""
    named = request.query_params.getlist("id")
    if len(named) != 1:
        raise RefusalError(400, "name the identifier once, by ?id=")
    [identifier] = named
    if not 1 <= len(identifier) <= LONGEST_IDENTIFIER:
        raise RefusalError(400, f"an identifier has 1 to {LONGEST_IDENTIFIER:,} characters")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in identifier):
        raise RefusalError(400, "an identifier has no control characters")
    return identifier


def canonical(identifier: str | None) -> str:
    """One text for all spellings of an identifier, as which its rejections are counted.

    None stands for whichever one a picture carries.
    """
    if identifier is None:
        return "any"
    return "id:" + unicodedata.normalize("NFKC", identifier).casefold().strip()
