"""Compiled engines of a bundle: what each was built for, and whether this machine may run it.

A TensorRT engine is executable code for one kind of GPU and one version of TensorRT. It is
loaded only from a bundle whose signature was checked, and only where it belongs. The driver itself
says which GPU there is: ONNX Runtime lists CUDA wherever it was compiled in, and merely
constructing a TensorRT runtime crashes the process where there is no driver.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from typing import Literal, get_args

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


Target = Literal["tensorrt", "tensorrt-rtx"]
TARGETS: tuple[Target, ...] = get_args(Target)

MODULES: dict[Target, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
"""NVIDIA's Python module for each target."""

PORTABLE = "ampere+"
"""Architecture of an engine that runs on every GPU from Ampere (compute capability 8.0) on."""


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
    architecture: str
    """``sm89`` and the like, or ``PORTABLE``."""
    batches: tuple[int, int, int]
    """Smallest, usual and largest batch."""
    version_compatible: bool

    @property
    def file(self) -> str:
        """Where the engine lies in its bundle: a change of any field is another file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        where = f"{self.target}-{self.version}-{self.architecture}"
        return f"engines/{self.graph}.{self.precision}.{where}.{digest[:12]}.plan"

    def misfit(self, gpu: Gpu, version: str) -> str | None:
        """Why this engine cannot run on ``gpu`` with ``version`` of its library, if so."""
        if self.architecture == PORTABLE:
            if gpu.compute_capability < (8, 0):
                return f"it was built for GPUs from Ampere on, and {gpu.name} is older"
        elif self.architecture != gpu.architecture:
            return f"it was built for {self.architecture}, and {gpu.name} is {gpu.architecture}"
        if self.target == "tensorrt-rtx" and not gpu.is_rtx:
            return f"{self.target} serves RTX GPUs only, and {gpu.name} is {gpu.architecture}"
        if self.version_compatible:
            if _numbers(version) < _numbers(self.version):
                return f"it was built by {self.target} {self.version}, and {version} is older"
        elif version != self.version:
            return f"it was built by {self.target} {self.version}, and {version} is installed"
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
