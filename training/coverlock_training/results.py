"""What a finished training leaves behind: weights, and the card that tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coverlock_sdk.models.checkpoints import write_weights


def write_results(
    weights: Path,
    state: Mapping[str, Tensor],
    card: Mapping[str, Any],
    about: Mapping[str, str] | None = None,
) -> None:
    """Write ``state`` to the file ``weights``, and its card beside it.

    ``about`` goes into the weight file itself.
    """
    write_weights(weights, state, about)
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    text = json.dumps({**card, "versions": versions}, indent=2)
    weights.with_suffix(".json").write_text(text + "\n")
