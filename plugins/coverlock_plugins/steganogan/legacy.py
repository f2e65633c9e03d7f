"""Reads the one legacy checkpoint SteganoGAN is published as, without trusting it.

Before version 1.6 ``torch.save`` wrote a row of pickles (magic number, protocol, system facts,
the object, the names of its storages) followed by the raw storages. Unpickling runs whatever
callables a file names, so here every name must be on an allow-list, and each one that is maps to
a stand-in that holds data and does nothing. Neither torch nor steganogan is imported.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CorruptModelError

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001

Tensors = dict[str, npt.NDArray[np.float32]]


class _RefusedError(Exception):
    """The file asks for something that is not on the allow-list."""


class _Inert:
    """Stands for any class of torch or steganogan: takes arguments and state, does nothing."""

    def __init__(self, *args: Any) -> None:
        self.state: Mapping[str, Any] = {}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.state = state


class _Tensor(NamedTuple):
    """Where the values of a tensor will be found once the storages have been read."""

    storage: str
    offset: int
    shape: tuple[int, ...]


def _rebuild_tensor(
    storage: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> _Tensor:
    if strides != tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))):
        raise _RefusedError(f"a tensor with strides {strides}")
    return _Tensor(storage, offset, shape)


def _rebuild_parameter(data: _Tensor, *_: Any) -> _Tensor:
    return data


def _empty_dict(*_: Any) -> dict[Any, Any]:
    return {}


ALLOWED: Mapping[str, Any] = {
    "collections.OrderedDict": _empty_dict,
    "collections.defaultdict": _empty_dict,
    "__builtin__.dict": _empty_dict,
    "torch.FloatStorage": "<f4",
    "torch.LongStorage": "<i8",
    "torch.device": _Inert,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
    "torch.nn.backends.thnn._get_thnn_function_backend": _Inert,
    "torch.nn.modules.activation.LeakyReLU": _Inert,
    "torch.nn.modules.batchnorm.BatchNorm2d": _Inert,
    "torch.nn.modules.container.Sequential": _Inert,
    "torch.nn.modules.conv.Conv2d": _Inert,
    "torch.optim.adam.Adam": _Inert,
    "steganogan.critics.BasicCritic": _Inert,
    "steganogan.decoders.DenseDecoder": _Inert,
    "steganogan.encoders.DenseEncoder": _Inert,
    "steganogan.models.SteganoGAN": _Inert,
}
"""Every name the checkpoint may use, and what stands in for it."""


class _Unpickler(pickle.Unpickler):
    """Knows the names that are ``allowed`` and nothing else."""

    def __init__(self, file: BinaryIO, allowed: Mapping[str, Any]) -> None:
        super().__init__(file)
        self.allowed, self.dtypes = allowed, dict[str, str]()

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for ``module.name``."""
        if f"{module}.{name}" not in self.allowed:
            raise _RefusedError(f"{module}.{name}")
        return self.allowed[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Any:
        """A class that comes with its source text (which is ignored), or the key of a storage."""
        kind, *details = pid
        if kind == "module":
            return details[0]
        if kind == "storage":
            dtype, key, _location, _length, view = details
            if view is None:
                self.dtypes[key] = dtype
                return key
        raise _RefusedError(f"a {kind!r} entry of an unknown form")


def read_checkpoint(path: Path) -> Tensors:
    """The tensors of the encoder and the decoder in ``path``, by names like "encoder.conv1.0.bias".

    The rest of the file (critic, optimisers, training log) is left behind.
    """
    try:
        with path.open("rb") as file:
            model, storages = _read(file)
        return {
            f"{part}.{block}.{layer}.{name}": _values(tensor, storages)
            for part in ("encoder", "decoder")
            for block, blocks in model.state[part].state["_modules"].items()
            for layer, layers in blocks.state["_modules"].items()
            for group in ("_parameters", "_buffers")
            for name, tensor in layers.state.get(group, {}).items()
            if name != "num_batches_tracked"
        }
    except _RefusedError as refused:
        raise CorruptModelError(
            f"the checkpoint {path.name} asks for {refused}, which no SteganoGAN model needs: "
            "it was not loaded"
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way, and none of them matters
        raise CorruptModelError(
            f"the checkpoint {path.name} is damaged or not a SteganoGAN model ({error})"
        ) from error


def _read(file: BinaryIO) -> tuple[_Inert, dict[str, npt.NDArray[Any]]]:
    magic, protocol, system = (_Unpickler(file, {}).load() for _ in range(3))
    if (magic, protocol, system["little_endian"]) != (MAGIC, PROTOCOL, True):
        raise ValueError("its header is not that of a torch checkpoint")
    unpickler = _Unpickler(file, ALLOWED)
    model, storages = unpickler.load(), {}
    for key in _Unpickler(file, {}).load():
        dtype = np.dtype(unpickler.dtypes[key])
        length = int.from_bytes(file.read(8), "little")
        storages[key] = np.frombuffer(file.read(length * dtype.itemsize), dtype, count=length)
    return model, storages


def _values(tensor: _Tensor, storages: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
    end = tensor.offset + math.prod(tensor.shape)
    values = storages[tensor.storage][tensor.offset : end].reshape(tensor.shape)
    return values.astype(np.float32)
