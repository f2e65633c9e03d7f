"""The fixed orthogonal projection that turns an embedding into hash logits (appendix B.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CODE_BITS = 256
"""The logits of the paper's head (L0 in the paper)."""

SEED = 20270


def orthogonal_projection(dimensions: int) -> npt.NDArray[np.float32]:
    """The matrix R (dimensions, 256) with orthonormal columns, from a fixed seed.

    Gaussian, then QR with the diagonal of the triangular factor made positive, which makes
    the factorisation unique. ``RandomState`` is used because NumPy promises never to change
    its stream. A trained hash stores its R and never recomputes it.
    """
    gaussian = np.random.RandomState(SEED).standard_normal((dimensions, CODE_BITS))
    basis, triangle = np.linalg.qr(gaussian)
    projection: npt.NDArray[np.float32] = (basis * np.sign(np.diag(triangle))).astype(np.float32)
    return projection
