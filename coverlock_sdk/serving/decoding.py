"""How the service decodes pictures of strangers: in processes of their own, within its limits."""

from __future__ import annotations

from coverlock_sdk.arrays import Pixels
from coverlock_sdk.images.isolation import PROCESSES, DecodingPool
from coverlock_sdk.serving.admission import Limits
from coverlock_sdk.serving.deployment import Decode
from coverlock_sdk.serving.tracing import span


def decoding_pool(limits: Limits, services: int) -> DecodingPool:
    """The decoding processes of one process of ``services``."""
    return DecodingPool(
        max(2, PROCESSES // services),
        seconds=limits.decode_seconds,
        max_pixels=limits.pixels,
        patience=limits.seconds,
    )


def decoding(pool: DecodingPool, content: bytes, caller: str | None) -> Decode:
    """How a picture file of a caller is decoded."""

    def decode(size: tuple[int, int] | None, at_a_fraction: bool) -> Pixels:
        with span("decode"):
            return pool.pixels(content, size, caller, at_a_fraction)

    return decode
