"""What a reload replaces together: bundle, callers and registry."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from PIL import Image

from coverlock_plugins.service.access import Callers
from coverlock_sdk import Embedder, Registry, Verdict, Verifier
from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.identification import MessageBook

if TYPE_CHECKING:
    from fastapi import FastAPI

    from coverlock_plugins.service.service import Service

logger = logging.getLogger(__name__)

Routes = Callable[["FastAPI", "Service"], None]
"""Adds routes to a service, once per process; raises ``CoverLockError`` if it cannot.

A route guards itself with ``Depends(service.allow(scope))``, passes work on a picture to
``service.process``, and raises ``RefusalError`` for every answer other than 200.
"""


class Finding(NamedTuple):
    """What a deployment found in a picture, not yet reported."""

    verdict: Verdict
    identifier: Any
    """The identifier that was asked about, or the registered one that was found."""


@dataclass(frozen=True)
class Deployment:
    """The bundle of a service and its callers."""

    verifier: Verifier
    callers: Callers | None = None
    book: MessageBook | None = None
    """The identifiers that ``/identify`` chooses from."""
    embedder: Embedder | None = None
    registry: Registry | None = None
    """Gives marked pictures their serials and remembers them."""
    routes: tuple[Routes, ...] = ()
    """Routes that plugins add to the service when it starts."""

    def judge(self, picture: Picture, identifier: str | None) -> Finding:
        """Whether a picture carries ``identifier``; for None, which registered one it carries."""
        if identifier is not None:
            return Finding(self.verifier.judge(picture, identifier), identifier)
        assert self.book is not None
        found = self.verifier.recognise(picture, self.book)
        return Finding(found.verdict, found.label)


FRESH, PATIENCE = 1.0, 3.0
"""Seconds that an answer stays valid, because strangers may ask; and seconds to wait for one."""


class Readiness:
    """Rehearses requests, one at a time and at most once per second."""

    def __init__(self, decoders: DecodingPool) -> None:
        self._decoders = decoders
        file = io.BytesIO()
        Image.effect_noise((64, 64), 40).save(file, format="PNG")
        self._picture = file.getvalue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coverlock-ready")
        self._lock = asyncio.Lock()
        self._since = -FRESH
        self._problem: str | None = None

    async def problem(self, deployment: Deployment) -> str | None:
        """What does not work, if anything, in words that strangers may read."""
        async with self._lock:
            if time.monotonic() - self._since >= FRESH:
                loop = asyncio.get_running_loop()
                attempt = loop.run_in_executor(self._thread, self._rehearse, deployment)
                try:
                    self._problem = await asyncio.wait_for(attempt, PATIENCE)
                except asyncio.TimeoutError:
                    self._problem = "an answer takes too long"
                self._since = time.monotonic()
            return self._problem

    def _rehearse(self, deployment: Deployment) -> str | None:
        step = "pictures cannot be decoded"
        try:
            picture = self._decoders.picture(self._picture, caller="readiness", patience=PATIENCE)
            step = "pictures cannot be verified"
            deployment.verifier.logits(picture)
            step = "the audit log cannot be written"
            deployment.verifier.require_audit()
        except Exception:
            logger.exception("not ready: %s", step)
            return step
        return None
