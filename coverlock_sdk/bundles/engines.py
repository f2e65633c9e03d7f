"""Compiled engines of a bundle: what each was built for, and whether this machine may run it.

NVIDIA has two compilers. ``tensorrt-rtx`` builds for all RTX GPUs from Ampere on and needs none
itself; ``tensorrt`` builds for the kind of GPU that it runs on, such as an A100 or H100. An engine
is executable code for one version of its compiler's library. It is loaded only from a bundle whose
signature was checked, and only where it belongs. The driver itself
says which GPU there is: ONNX Runtime lists CUDA wherever it was compiled in, and merely
constructing a TensorRT runtime crashes the process where there is no driver.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Literal, get_args

_COMPUTE_CAPABILITY = (75, 76)  # CUdevice_attribute: major and minor


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    name: str
    compute_capability: tuple[int, int]

    @property
    def architecture(self) -> str:
        """What compiled code is built for, such as ``sm90``."""
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


Target = Literal["tensorrt-rtx", "tensorrt"]
TARGETS: tuple[Target, ...] = get_args(Target)

PACKAGES: dict[Target, tuple[str, str]] = {
    "tensorrt-rtx": ("tensorrt_rtx", "rtx"),
    "tensorrt": ("tensorrt", "tensorrt"),
}
"""NVIDIA's Python module for each target, and our extra that installs it."""


@dataclass(frozen=True)
class Engine:
    """An engine as the manifest describes it; the fields are what it is cached under."""

    graph: str
    precision: str
    source: str
    """SHA-256 of the ONNX file it was built from."""
    target: Target
    version: str
    """Of the library that built it."""
    batches: tuple[int, int, int]
    """Smallest, usual and largest batch."""
    architecture: str | None = None
    """Of the GPU that it was built on; None where it runs on every RTX GPU."""

    @property
    def file(self) -> str:
        """Where the engine lies in its bundle: a change of any field is another file."""
        batches = "-".join(map(str, self.batches))
        built = f"{self.target}-{self.version}.{self.architecture or 'rtx'}.{batches}"
        return f"engines/{self.graph}.{self.precision}.{self.source[:12]}.{built}.plan"

    def misfit(self, gpu: Gpu, version: str) -> str | None:
        """Why this engine cannot run on ``gpu`` with ``version`` of its library, if so."""
        if self.architecture is None and not gpu.is_rtx:
            return (
                f"{self.target} serves RTX GPUs from Ampere on, and this is {gpu.name}: "
                "compile the bundle here with '--target tensorrt'"
            )
        if self.architecture not in (None, gpu.architecture):
            return f"it was built for {self.architecture}, and {gpu.name} is {gpu.architecture}"
        if version != self.version:
            return f"it was built by {self.target} {self.version}, and {version} is installed"
        return None
