"""Whether the service could answer now: a picture decoded, a verdict reached, the log written."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from concurrent.futures import ThreadPoolExecutor

from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.serving.deployment import Current

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long an answer holds: strangers may ask, and must not keep the service busy with it."""
PATIENCE_SECONDS = 3.0


class Readiness:
    """Rehearses a request; one at a time, and not more often than once a second."""

    def __init__(self, pool: DecodingPool) -> None:
        self._pool = pool
        self._picture = _picture()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="coverlock-ready")
        self._lock = asyncio.Lock()
        self._known: tuple[float, str | None] = (-FRESH_SECONDS, None)

    async def problem(self, current: Current) -> str | None:
        """What does not work, if anything: nothing that a stranger should not know."""
        async with self._lock:
            since, problem = self._known
            if time.monotonic() - since >= FRESH_SECONDS:
                problem = await self._rehearsed(current)
                self._known = time.monotonic(), problem
            return problem

    async def _rehearsed(self, current: Current) -> str | None:
        loop = asyncio.get_running_loop()
        attempt = loop.run_in_executor(self._thread, self._rehearse, current)
        try:
            return await asyncio.wait_for(attempt, PATIENCE_SECONDS)
        except asyncio.TimeoutError:
            return "an answer takes too long"

    def _rehearse(self, current: Current) -> str | None:
        step = "pictures cannot be decoded"
        try:
            with current.use() as deployment:
                for verifier in deployment.verifiers:
                    step = "pictures cannot be decoded"
                    size = verifier.bundle.manifest.size
                    pixels = self._pool.pixels(self._picture, size, "readiness")
                    step = "pictures cannot be verified"
                    verifier.logits(pixels)
                step = "the audit log cannot be written"
                deployment.first.require_audit()
        except Exception:
            logger.exception("not ready: %s", step)
            return step
        return None

    def close(self) -> None:
        """Give the thread back."""
        self._thread.shutdown(wait=False)


def _picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.effect_noise((64, 64), 40).save(file, format="PNG")
    return file.getvalue()
