"""Pictures for the watermarks: smooth noise, as quick to make as it is dull to look at."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


def scenes(count: int, seed: int = 0) -> FloatArray:
    """Smooth noise, mostly grey as natural pictures are, of 8-bit values: (N, 3, 256, 256)."""
    rng = np.random.default_rng(seed)
    radius = np.hypot(np.fft.fftfreq(256)[:, None], np.fft.fftfreq(256)) + 1 / 256
    noise = rng.standard_normal((count, 1, 256, 256)) + 0.3 * rng.standard_normal(
        (count, 3, 256, 256)
    )
    values = np.fft.ifft2(np.fft.fft2(noise) / radius**1.5).real
    values /= 6 * values.std(axis=(1, 2, 3), keepdims=True)
    return eight_bit(0.5 + values)


def eight_bit(images: npt.NDArray[np.floating]) -> FloatArray:
    rounded: FloatArray = (np.rint(np.clip(images, 0, 1) * 255) / 255).astype(np.float32)
    return rounded
