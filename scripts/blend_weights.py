"""Blend the weights of one network after two trainings.

python scripts/blend_weights.py A.safetensors B.safetensors 0.3 OUT.safetensors

OUT gets 0.7 parts of A and 0.3 parts of B; whole numbers, which count steps, are those of A. A
blend of two stages of one training often reads a little better than either.
"""

from __future__ import annotations

import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def main() -> None:
    """Write the blend."""
    first, second, share, out = sys.argv[1:]
    part, a, b = np.float32(share), load_file(first), load_file(second)
    blend = {n: v + part * (b[n] - v) if v.dtype == np.float32 else v for n, v in a.items()}
    with safe_open(first, "numpy") as file:
        save_file(blend, out, file.metadata())


if __name__ == "__main__":
    main()
