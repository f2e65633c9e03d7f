"""``/embed``: marks a picture and gives it back."""

from __future__ import annotations

import hashlib
import io
import os
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Query, Request, Response

from coverlock_sdk.errors import PictureError
from coverlock_sdk.images.codecs import open_image
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.outputs import FORMATS, KEEP
from coverlock_sdk.images.turns import Turns
from coverlock_sdk.locking.embedding import Marked
from coverlock_sdk.serving.deployment import Deployment
from coverlock_sdk.serving.refusals import RefusalError
from coverlock_sdk.serving.tracing import span

if TYPE_CHECKING:
    from coverlock_sdk.serving.service import Service

KEPT = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp", "TIFF": "tiff", "AVIF": "avif"}
"""Formats of pictures that are marked in the same one; all others become PNG."""
TYPES = {"jpg": "image/jpeg"}
PSNR, WARNING, SERIAL = (f"X-CoverLock-{name}" for name in ("PSNR", "Warning", "Serial"))
HEADERS = {
    PSNR: "Quality of the marked picture in decibels",
    WARNING: "Given if the registry remembers a picture that is much like it",
    SERIAL: "Its serial, percent-encoded, if pictures are numbered",
}
ALIKE = "it is much like a picture that was marked before: a forgery between the two might pass"
"""Without the name of the other picture, which may be another caller's."""


class Embedding:
    """The handler of ``/embed``."""

    def __init__(self, service: Service) -> None:
        self.service = service
        # Marking takes seconds of a core and many times the memory of a picture.
        self._turns = Turns(max(2, os.cpu_count() or 1))

    async def answer(
        self,
        request: Request,
        id: Annotated[str | None, Query(description="Identifier to carry.")] = None,
        bits: Annotated[str | None, Query(description="The message itself, as 0 and 1.")] = None,
        format: Annotated[
            str, Query(description=f"{', '.join(FORMATS)}, or {KEEP} for the picture's own.")
        ] = "png",
        quality: Annotated[int | None, Query(description="Of jpg and avif, 1 to 100.")] = None,
    ) -> Response:
        """Mark a picture."""
        service = self.service
        message = service.message(request, id, bits)
        if format not in (*FORMATS, KEEP):
            raise RefusalError(400, f"the format is one of {', '.join(FORMATS)} and {KEEP}")
        if quality is not None and not 1 <= quality <= 100:
            raise RefusalError(400, "the quality is a number from 1 to 100")
        source = service.source(request, id, bits)

        def work(deployment: Deployment, content: bytes) -> Response:
            # Whoever crashes a decoder does so there; here the rest of the file is needed too.
            service.decoding(content, source["caller"])(
                deployment.first.bundle.manifest.size, False
            )
            kind = _format_of(content) if format == KEEP else format
            with self._turns.turn(source["caller"], service.limits.seconds):
                return self._marked(deployment, content, message, kind, quality, source)

        answer = await service.process(request, work)
        service.count(request, "embedded")
        return answer

    def _marked(
        self,
        deployment: Deployment,
        content: bytes,
        message: Any,
        kind: str,
        quality: int | None,
        source: dict[str, Any],
    ) -> Response:
        assert deployment.embedder is not None
        headers: dict[str, str] = {}
        if deployment.registry is not None and isinstance(message, str):
            message = deployment.registry.issue(message, source["request"])
            source = {**source, "id": message}
            headers[SERIAL] = quote(message)
        with span("embed"):
            file, marked = deployment.embedder.mark_content(
                content, message, FORMATS[kind], quality
            )
        _require_strength(marked)
        digests = {"original": content, "sha256": file}
        made = {name: hashlib.sha256(value).hexdigest() for name, value in digests.items()}
        deployment.first.announce([marked.verdict], Given(file), {**source, **made})
        headers[PSNR] = f"{marked.psnr:.2f}"
        if marked.alike:
            headers[WARNING] = ALIKE
        return Response(file, media_type=TYPES.get(kind, f"image/{kind}"), headers=headers)


def _require_strength(marked: Marked) -> None:
    if marked.is_faint:
        raise PictureError(
            "the picture is nearly empty, so anything could pass for it: use one with more to see"
        )
    if not marked.verdict.accepted:
        raise PictureError(
            "the marked picture would not be accepted: use one with more texture or a larger "
            "size, or a format without loss"
        )


def _format_of(content: bytes) -> str:
    from PIL import UnidentifiedImageError

    try:
        with open_image(io.BytesIO(content)) as image:
            return KEPT.get(image.format or "", "png")
    except UnidentifiedImageError:  # HEIC, which is not written
        return "png"
