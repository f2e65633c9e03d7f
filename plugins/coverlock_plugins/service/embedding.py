"""``/embed``: marks a picture and returns it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import partial
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from coverlock_plugins.service.access import Deadline
from coverlock_plugins.service.deployment import Deployment
from coverlock_plugins.service.refusals import REFUSALS, RefusalError
from coverlock_plugins.service.service import BODY, Identifier, Service, Upload
from coverlock_sdk import Marked
from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.folders import FORMATS, KEEP
from coverlock_sdk.images.isolation import Turns

KEPT = {"JPEG": "jpg", "MPO": "jpg", "WEBP": "webp", "TIFF": "tiff", "AVIF": "avif"}
"""Formats that marked pictures keep; all others become PNG."""
PSNR, WARNING, SERIAL = (f"X-CoverLock-{name}" for name in ("PSNR", "Warning", "Serial"))
ALIKE = "it is much like a picture that was marked before: a forgery between the two might pass"
"""Leaves out the name of the other picture, which may belong to another caller."""
MOST_REMEMBERED = 64_000_000
"""Bytes of marked pictures to keep for repeated requests."""

Format = Literal["png", "jpg", "webp", "tiff", "avif", "keep"]
Made = tuple[bytes, dict[str, str]]
"""A marked picture as it is sent, and its headers."""


class Wanted(NamedTuple):
    """How a picture is to be marked."""

    identifier: str
    format: Format
    quality: int | None
    key: str | None
    """The idempotency key."""


def embedding_routes(service: Service) -> APIRouter:
    """The route that marks pictures."""
    router = APIRouter()
    marking = Marking(service)

    @router.post(
        "/embed",
        summary="The picture with a message in it",
        response_class=Response,
        dependencies=[Depends(service.allow("embed"))],
        responses={**REFUSALS, 200: {"content": {"image/*": {}}}},
        openapi_extra=BODY,
    )
    async def embed(
        request: Request,
        id: Identifier,
        format: Annotated[Format, Query(description="'keep' is the picture's own.")] = "png",
        quality: Annotated[int | None, Query(ge=1, le=100, description="If lossy.")] = None,
        idempotency_key: Annotated[
            str | None, Header(max_length=200, description="A repeat returns the same picture.")
        ] = None,
    ) -> Response:
        if service.deployment.embedder is None:
            raise RefusalError(404, "this service does not mark pictures: start it with --embed")
        caller = request.state.caller
        if not caller.may_mark(id):
            allowed = ", ".join(f"'{prefix}...'" for prefix in caller.prefixes)
            raise RefusalError(403, f"the token of '{caller.name}' marks only {allowed}")
        wanted = Wanted(id, format, quality, idempotency_key)
        file, headers = await service.process(request, partial(marking.made, wanted))
        service.metrics.verdicts.labels("embedded", caller.name).inc()
        return Response(file, headers=headers)

    return router


class Marking:
    """Marks as many pictures at once as fit into memory; callers with the least work go first."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._most_pixels = service.limits.pixels
        self._turns = Turns(self._most_pixels)
        processors = max(2, os.cpu_count() or 1)
        self._least = self._most_pixels // processors
        self._opened = Turns(processors)  # decoded pictures fill the memory
        self._remembered = Remembered()

    def made(self, wanted: Wanted, deployment: Deployment, upload: Upload) -> Made:
        """The marked picture, or the earlier one for the same idempotency key."""

        def make() -> Made:
            with self._opened.turn(upload.caller, upload.deadline.left):
                return self._marked(wanted, deployment, upload)

        if wanted.key is None:
            return make()
        asked = wanted, upload.source["sha256"]
        return self._remembered.once((upload.caller, wanted.key), asked, upload.deadline, make)

    def _marked(self, wanted: Wanted, deployment: Deployment, upload: Upload) -> Made:
        embedder, registry = deployment.embedder, deployment.registry
        assert embedder is not None
        image, own_format = upload.image()
        kind = KEPT.get(own_format, "png") if wanted.format == KEEP else wanted.format
        headers = {"Content-Type": "image/jpeg" if kind == "jpg" else f"image/{kind}"}
        size = min(self._most_pixels, max(self._least, image.width * image.height))
        message = wanted.identifier
        with self._service.turn(upload, self._turns, size):
            upload.deadline.commit()  # issue a serial only if its caller will receive the picture
            if registry is not None:
                note = f"{upload.caller}/{wanted.key}" if wanted.key else upload.request
                earlier = registry.issued(message, note) if wanted.key else None
                message = earlier or registry.issue(message, note)
                headers[SERIAL] = quote(message)
            file, marked = embedder.mark_content(image, message, FORMATS[kind], wanted.quality)
        _require_strength(marked)
        digests = {"original": upload.source["sha256"], "sha256": sha256(file).hexdigest()}
        source = {**upload.source, "id": message, **digests}
        deployment.verifier.announce([marked.verdict], Given(file), source)
        headers[PSNR] = f"{marked.psnr:.2f}"
        if marked.alike:
            headers[WARNING] = ALIKE
        return file, headers


class Remembered:
    """The latest marked pictures, by idempotency key."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: dict[Hashable, Hashable] = {}
        self._made: dict[Hashable, Made] = {}

    def once(
        self, key: Hashable, asked: Hashable, deadline: Deadline, make: Callable[[], Made]
    ) -> Made:
        """What ``make`` returns, or what it returned before for the same ``key``."""
        with self._changed:
            while key in self._asked:
                if self._asked[key] != asked:
                    raise RefusalError(409, "this idempotency key was used for another request")
                if key in self._made:
                    return self._made[key]
                self._changed.wait(deadline.left)
            self._asked[key] = asked
        made = None
        try:
            made = make()
        finally:
            with self._changed:
                if made is None:
                    del self._asked[key]
                else:
                    self._made[key] = made
                while sum(len(file) for file, _ in self._made.values()) > MOST_REMEMBERED:
                    oldest = next(iter(self._made))
                    del self._made[oldest], self._asked[oldest]
                self._changed.notify_all()
        return made


def _require_strength(marked: Marked) -> None:
    if marked.is_faint:
        raise PictureError(
            "the picture is nearly empty, so anything could pass for it: use one with more to see"
        )
    if not marked.verdict.accepted:
        raise PictureError(
            "the marked picture would not be accepted: use one with more texture or a larger "
            "size, or a lossless format"
        )
