"""The conformance kit: what a watermark plugin promises, each promise as a test.

Run it on an installed plugin::

    pytest --pyargs coverlock_sdk.testing --watermark NAME [--images FOLDER]

pytest is needed to run the kit, and not to import ``natural_pictures`` from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverlock_sdk.testing.pictures import natural_pictures

__all__ = ["natural_pictures"]


def __getattr__(name: str) -> Any:
    # On first use, since pytest imports this package in every session of an environment.
    if name != "natural_pictures":
        raise AttributeError(f"module 'coverlock_sdk.testing' has no attribute '{name}'")
    from coverlock_sdk.testing import pictures

    return pictures.natural_pictures
