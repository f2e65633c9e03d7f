"""Compiled engines of a bundle: what each was built for, and whether this machine may run it.

A TensorRT-RTX engine is executable code for RTX GPUs and one version of TensorRT-RTX. It is
loaded only from a bundle whose signature was checked, and only where it belongs. The driver itself
says which GPU there is: ONNX Runtime lists CUDA wherever it was compiled in, and merely
constructing a TensorRT runtime crashes the process where there is no driver.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

_COMPUTE_CAPABILITY = (75, 76)  # CUdevice_attribute: major and minor


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    name: str
    compute_capability: tuple[int, int]

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
    major, minor = ctypes.c_int(), ctypes.c_int()
    for value, attribute in zip((major, minor), _COMPUTE_CAPABILITY, strict=True):
        _check(driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device))
    return Gpu(name.value.decode(errors="replace"), (major.value, minor.value))


def _driver() -> ctypes.CDLL:
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise NoGpuError(f"there is no NVIDIA driver on this machine ({library})") from None
    _check(driver.cuInit(0))
    return driver


def _check(code: int) -> None:
    if code != 0:
        raise NoGpuError(f"the NVIDIA driver answers with error {code}")


@dataclass(frozen=True)
class Engine:
    """An engine as the manifest describes it; the fields are what it is cached under."""

    graph: str
    precision: str
    source: str
    """SHA-256 of the ONNX file it was built from."""
    version: str
    """Of the TensorRT-RTX that built it."""
    batches: tuple[int, int, int]
    """Smallest, usual and largest batch."""

    @property
    def file(self) -> str:
        """Where the engine lies in its bundle: a change of any field is another file."""
        batches = "-".join(map(str, self.batches))
        built = f"{self.source[:12]}.rtx-{self.version}.{batches}"
        return f"engines/{self.graph}.{self.precision}.{built}.plan"

    def misfit(self, gpu: Gpu, version: str) -> str | None:
        """Why this engine cannot run on ``gpu`` with ``version`` of TensorRT-RTX, if so."""
        if not gpu.is_rtx:
            return f"TensorRT-RTX serves RTX GPUs from Ampere on, and this is {gpu.name}"
        if version != self.version:
            return f"it was built by TensorRT-RTX {self.version}, and {version} is installed"
        return None
