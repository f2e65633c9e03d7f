"""The arrays that pass between the parts of the SDK, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[np.float32]
"""Pictures as networks see them: (N, 3, H, W), or (3, H, W) for one, RGB in [0, 1]."""

Pixels = npt.NDArray[np.uint8]
"""Pictures as they are saved: (N, H, W, 3), or (H, W, 3) for one, 8-bit RGB."""

Bits = npt.NDArray[np.uint8]
"""Payloads, messages and codes: (N, L), or (L,) for one, of 0 and 1."""

Logits = npt.NDArray[np.float32]
"""What decoders and hashes answer: (N, L); a bit is 1 where its logit is above 0."""

Descriptions = npt.NDArray[np.float32]
"""What a hash keeps of pictures: (N, dimensions), or (N, 3, H, W) for one that registers."""

Floats = npt.NDArray[np.float64]
"""Probabilities, weights and scores."""

AnyArray = npt.NDArray[Any]
"""An array whose number type the caller decides."""
