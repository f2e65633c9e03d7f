"""WIBE: our watermarks, locked or bare, as one of its algorithms.

Put a file with this line into WIBE's ``user_plugins`` and name ``coverlock`` in its settings::

    from coverlock_bench.bridges.wibe import CoverLockWrapper
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from coverlock_bench.bridges.subject import Subject, bits_of
from coverlock_sdk.errors import MissingModelError

try:
    from wibench.algorithms import BaseAlgorithmWrapper
    from wibench.watermark_data import TorchBitWatermarkData
except ImportError as error:
    raise MissingModelError(
        f"the bridge to WIBE needs WIBE ({error}): install it from https://github.com/ispras/wibe"
    ) from error


class CoverLockWrapper(BaseAlgorithmWrapper):  # type: ignore[misc]
    """Parameters: ``watermark`` (NAME or NAME:OPTION=VALUE), ``locked``, ``hash``."""

    name = "coverlock"

    def __init__(self, params: Mapping[str, Any]) -> None:
        super().__init__(dict(params))
        self._subject = Subject(**params)

    def watermark_data_gen(self) -> Any:
        """A random message."""
        return TorchBitWatermarkData.get_random(self._subject.bits)

    def embed(self, image: Any, watermark_data: Any) -> Any:
        """The picture (3, H, W) in [0, 1] with the message."""
        message = bits_of(watermark_data.watermark, self._subject.bits)
        marked = self._subject.mark(np.asarray(image.cpu(), np.float32), message)
        return image.new_tensor(marked)

    def extract(self, image: Any, watermark_data: Any) -> Any:
        """The bits (bits,) of the message in a picture; what was embedded is not looked at."""
        return (self._subject.read(np.asarray(image.cpu(), np.float32)) > 0).astype(np.int64)
