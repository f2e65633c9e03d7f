"""Round the numbers of weight files so that a wheel compresses them better.

python scripts/round_weights.py plugins/coverlock_plugins/cin/weights/cin.safetensors

Of the 23 binary digits after the point 9 are kept: a change of less than one part in 1,000. The
networks learned in bfloat16, which keeps 7. Files that are rounded already stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save_file

DROPPED = 14
"""Binary digits of the 23 that are not kept."""


def rounded(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """``values`` to the nearest number whose last digits are zero."""
    digits = values.view(np.uint32).astype(np.uint64) + (1 << (DROPPED - 1))
    return (digits >> DROPPED << DROPPED).astype(np.uint32).view(np.float32)


def main() -> None:
    """Round every file that is named."""
    for path in map(Path, sys.argv[1:]):
        with safe_open(path, "numpy") as file:
            about = file.metadata()
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        whole = {n: rounded(v) if v.dtype == np.float32 else v for n, v in weights.items()}
        save_file(whole, path, about)


if __name__ == "__main__":
    main()
