"""Handles requests and guards the service.

Each step that could hold up the service has a limit: size of the body, time to send it, pixels,
time and memory to decode them, pictures in progress, time to answer, requests per second. Requests
beyond a limit are refused at once, and no caller can make the others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
import unicodedata
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from PIL.Image import Image as PilImage
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

from coverlock_plugins.service.access import ANYBODY, Deadline, Limits, Scope
from coverlock_plugins.service.budgets import Budgets
from coverlock_plugins.service.deployment import Deployment, Readiness
from coverlock_plugins.service.observing import Metrics
from coverlock_plugins.service.refusals import RefusalError
from coverlock_sdk import CoverLockError
from coverlock_sdk.errors import MessageError, OverloadedError, PictureError
from coverlock_sdk.images.isolation import PROCESSES, DecodingPool, Turns
from coverlock_sdk.images.picture import Picture

logger = logging.getLogger(__name__)

ENVELOPE = 8192  # bytes that a form adds to the file in it
JUDGED = 4
"""Pictures that are judged at once: more would gain little, and keep light callers waiting."""

_FILE = {"type": "string", "format": "binary"}
_FORM = {"type": "object", "properties": {"file": _FILE}, "required": ["file"]}
BODY = {
    "requestBody": {
        "required": True,
        "description": "The picture file (PNG, JPEG, WebP, TIFF, ...), as it is or in a form.",
        "content": {"image/*": {"schema": _FILE}, "multipart/form-data": {"schema": _FORM}},
    }
}
"""How OpenAPI describes what ``received`` takes."""


@dataclass(frozen=True)
class Upload:
    """The body of a request, and its deadline."""

    content: bytes
    caller: str
    request: str
    deadline: Deadline
    decoders: DecodingPool

    @cached_property
    def source(self) -> dict[str, Any]:
        """Names the caller and the file in the audit log."""
        sha256 = hashlib.sha256(self.content).hexdigest()
        return {"caller": self.caller or None, "request": self.request, "sha256": sha256}

    def picture(self, size: tuple[int, int] | None) -> Picture:
        """The picture at ``size``, fully decoded, so that every picture takes the same steps."""
        return self.decoders.picture(self.content, size, self.caller, patience=self.deadline.left)

    def image(self) -> tuple[PilImage, str]:
        """The whole picture, and the format of its file."""
        return self.decoders.image(self.content, self.caller, patience=self.deadline.left)


async def received(request: Request, limits: Limits, take: Callable[[int], object]) -> bytes:
    """The picture file in a request; ``take`` reserves memory as its bytes arrive."""
    too_large = RefusalError(413, f"a picture file has at most {limits.bytes:,} bytes here")
    announced = request.headers.get("content-length", "")
    is_form = request.headers.get("content-type", "").lower().startswith("multipart/")
    most = limits.bytes + (ENVELOPE if is_form else 0)
    if announced.isdigit() and int(announced) > most:
        raise too_large
    content = bytearray()

    async def receive() -> None:
        async for chunk in request.stream():
            if len(content) + len(chunk) > most:
                raise too_large
            take(len(chunk))
            content.extend(chunk)

    try:
        await asyncio.wait_for(receive(), limits.seconds)
    except asyncio.TimeoutError:
        raise RefusalError(408, "the picture did not arrive in time") from None
    except ClientDisconnect:
        raise RefusalError(499, "the client hung up") from None  # nobody reads this answer
    return await _file_in_form(request, bytes(content)) if is_form else bytes(content)


async def _file_in_form(request: Request, body: bytes) -> bytes:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        async with Request(request.scope, receive).form(max_files=1, max_fields=0) as form:
            [file] = form.values()
            assert isinstance(file, UploadFile)  # there are no fields
            return await file.read()
    except (HTTPException, ValueError):  # also of text in a strange encoding
        raise RefusalError(400, "a form must have one file: curl -F file=@photo.jpg") from None


Result = TypeVar("Result")

_BEARER = HTTPBearer(auto_error=False)


class Service:
    """Answers requests and enforces limits; ``open`` opens the current files."""

    deployment: Deployment

    def __init__(self, open: Callable[[], Deployment], limits: Limits) -> None:
        self.limits = limits
        self.draining = False
        """Whether the service is about to stop and sends callers elsewhere."""
        self.metrics = Metrics()
        self.budgets = Budgets(limits.rejections, limits.counted_in)
        self.places = Turns(limits.in_flight, spared=4)
        self.buffered = Turns(4 * limits.bytes)
        self.judging = Turns(JUDGED)
        self._open = open
        self._take_in(open())
        # A thread waits for the batch of its picture, so every picture needs one.
        self.threads = ThreadPoolExecutor(limits.in_flight, thread_name_prefix="coverlock")
        self.decoders = DecodingPool(PROCESSES, limits.decode_seconds, limits.pixels, self._decoded)
        self.readiness = Readiness(self.decoders)

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Serve; at the end, finish requests in progress and release everything."""
        await self.readiness.problem(self.deployment)  # decoders start before the first caller
        yield
        for close in (self.threads.shutdown, self.decoders.close, self._close):
            await asyncio.to_thread(close)

    def reload(self) -> None:
        """Switch to the current files; if any of them cannot be used, change nothing."""
        try:
            self._take_in(self._open())
            logger.warning("reloaded")
        except Exception as error:
            bug = not isinstance(error, CoverLockError)
            logger.warning("not reloaded, the service continues as before: %s", error, exc_info=bug)

    def _take_in(self, deployment: Deployment) -> None:
        """Use a deployment; close the previous one once nobody uses it."""
        self.deployment = deployment
        self._close = weakref.finalize(deployment, deployment.verifier.close)
        deployment.verifier.observe_batches(self.metrics.batches.observe)
        callers = deployment.callers
        for turns in (self.places, self.buffered, self.judging):
            turns.shared = callers is not None and len(callers.callers) > 1

    def allow(self, scope: Scope) -> Callable[..., Awaitable[None]]:
        """A dependency that admits callers with ``scope``, within their rate."""

        async def check(
            request: Request,
            credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)],
        ) -> None:
            request.state.caller = ANYBODY
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

    async def process(
        self, request: Request, work: Callable[[Deployment, Upload], Result]
    ) -> Result:
        """Receive a picture file and have a thread work on it, or raise a ``RefusalError``."""
        name = request.state.caller.name
        with contextlib.ExitStack() as held:  # memory held until the picture is done
            content = await received(
                request,
                self.limits,
                lambda size: held.enter_context(self.buffered.turn(name, 0, size)),
            )
            # Only now, so that slow senders keep nobody waiting.
            held.enter_context(self.places.turn(name, 0))
            held.enter_context(self.metrics.in_flight.track_inprogress())
            deadline = Deadline(self.limits.seconds)
            upload = Upload(content, name, request.state.request_id, deadline, self.decoders)
            loop = asyncio.get_running_loop()
            job = loop.run_in_executor(self.threads, work, self.deployment, upload)
            kept = held.pop_all()  # until the work ends, even after an answer
            job.add_done_callback(lambda _: kept.close())
        with contextlib.suppress(TimeoutError):  # the worker may notice the timeout first
            done, _ = await asyncio.wait([job], timeout=self.limits.seconds)
            if done or not deadline.give_up():
                return await job
            job.add_done_callback(_log_failure)
        raise RefusalError(504, "the answer took too long: try again later")

    @contextlib.contextmanager
    def turn(self, upload: Upload, turns: Turns | None = None, size: int = 1) -> Iterator[None]:
        """Wait for the turn of a caller to be worked for, and charge them for that work."""
        turns = turns or self.judging
        with turns.turn(upload.caller, upload.deadline.left, size):
            start = time.thread_time()
            try:
                yield
            finally:
                worked = time.thread_time() - start
                turns.charge(upload.caller, worked)
                self._charge(upload.caller, worked)

    def _decoded(self, caller: Hashable, waited: float, worked: float) -> None:
        self.metrics.decoding_wait.observe(waited)
        self._charge(caller, worked)

    def _charge(self, caller: Hashable, worked: float) -> None:
        """Count work against a caller's places, whatever it was."""
        self.places.charge(caller, worked)
        self.metrics.work.labels(caller).inc(worked)


def _log_failure(job: asyncio.Future[Any]) -> None:
    """Log what went wrong with a picture after its caller was answered."""
    expected = (TimeoutError, RefusalError, PictureError, MessageError, OverloadedError)
    error = None if job.cancelled() else job.exception()
    if error is not None and not isinstance(error, expected):
        logger.error("a request failed after it was answered 504", exc_info=error)


def named_once(
    request: Request,
    id: Annotated[str, Query(min_length=1, max_length=1024, description="The identifier.")],
) -> str:
    """The identifier that a request names."""
    if len(request.query_params.getlist("id")) != 1:
        raise RefusalError(400, "name the identifier once, by ?id=")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in id):
        raise RefusalError(400, "an identifier must not contain control characters")
    return id


Identifier = Annotated[str, Depends(named_once)]
