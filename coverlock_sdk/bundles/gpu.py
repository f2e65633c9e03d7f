"""Which NVIDIA GPU this machine has, asked of the driver itself.

Frameworks are a poor witness: ONNX Runtime lists CUDA wherever it was compiled in, and merely
constructing a TensorRT runtime crashes the process where there is no driver.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    name: str
    compute_capability: tuple[int, int]

    @property
    def architecture(self) -> str:
        """The name compiled code is filed under, such as ``sm89``."""
        major, minor = self.compute_capability
        return f"sm{major}{minor}"

    @property
    def is_rtx(self) -> bool:
        """Whether it is of the RTX line from Ampere on; A100, H100, B200 and Jetson are not."""
        return self.compute_capability in ((8, 6), (8, 9)) or self.compute_capability >= (12, 0)


class NoGpuError(Exception):
    """There is no GPU to work with; the user made no mistake, so it is no ``CoverLockError``."""


def first_gpu() -> Gpu:
    """The GPU that CUDA calls device 0, or ``NoGpuError`` with the reason there is none."""
    driver = _driver()
    count = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise NoGpuError("the NVIDIA driver sees no GPU")
    device = ctypes.c_int()
    _check(driver.cuDeviceGet(ctypes.byref(device), 0))
    name = ctypes.create_string_buffer(256)
    _check(driver.cuDeviceGetName(name, len(name), device))
    capability = tuple(
        _attribute(driver, attribute, device)
        for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR)
    )
    return Gpu(name.value.decode(errors="replace"), (capability[0], capability[1]))


def _driver() -> ctypes.CDLL:
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise NoGpuError(f"there is no NVIDIA driver on this machine ({library})") from None
    _check(driver.cuInit(0))
    return driver


def _attribute(driver: ctypes.CDLL, attribute: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _check(driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device))
    return value.value


def _check(code: int) -> None:
    if code != 0:
        raise NoGpuError(f"the NVIDIA driver answers with error {code}")
