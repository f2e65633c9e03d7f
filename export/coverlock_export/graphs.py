"""The networks of a bundle as PyTorch modules, and as ONNX graphs that every runtime accepts.

All of them take 8-bit pictures as files hold them, and begin with a cast, because NVIDIA's parser
accepts no other operation on bytes. Resampling is the SDK's own, as two constant matrix products.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence

import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from coverlock_sdk import CoverLockError
from coverlock_sdk.images.resampling import resample_matrix

ORT_WARNINGS, ORT_ERRORS = 2, 3
"""What ONNX Runtime prints: warnings by default, or only errors."""


class Preprocessing(nn.Module):
    """Pictures uint8 (N, H, W, 3) to what networks see: (N, 3, H, W) in [0, 1]."""

    def forward(self, images: Tensor) -> Tensor:
        """Cast first, then channels first."""
        return images.to(torch.float32).permute(0, 3, 1, 2) / 255


class Resampling(nn.Module):
    """The SDK's resampling from one size to another: ``rows @ picture @ columns.T``."""

    rows: Tensor
    columns: Tensor

    def __init__(self, source: tuple[int, int], target: tuple[int, int]) -> None:
        super().__init__()
        self.unchanged = source == target
        self.register_buffer("rows", torch.tensor(resample_matrix(source[0], target[0])))
        self.register_buffer("columns", torch.tensor(resample_matrix(source[1], target[1])).T)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 3, *source) -> (N, 3, *target)."""
        return images if self.unchanged else self.rows @ images @ self.columns


class Verification(nn.Module):
    """The hash and, unless a plugin decodes on the host, the decoder behind one preprocessing."""

    def __init__(
        self,
        decoder: nn.Module | None,
        image_hash: nn.Module,
        size: tuple[int, int],
        hash_size: tuple[int, int],
    ) -> None:
        super().__init__()
        self.preprocessing = Preprocessing()
        self.resampling = Resampling(size, hash_size)
        self.decoder = decoder
        self.hash = image_hash

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """uint8 (N, H, W, 3) -> decoder logits (N, bits) if any, descriptions (N, ...)."""
        pictures = self.preprocessing(images)
        decoded = () if self.decoder is None else (self.decoder(pictures),)
        return *decoded, self.hash(self.resampling(pictures))


class Embedding(nn.Module):
    """The encoder for 8-bit pictures: what it would add to each, for the host to carry over."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.preprocessing = Preprocessing()
        self.encoder = encoder

    def forward(self, images: Tensor, payloads: Tensor) -> Tensor:
        """uint8 (N, H, W, 3) and uint8 payloads (N, bits) -> residuals (N, 3, H, W)."""
        bits = payloads.to(torch.float32)
        pictures = self.preprocessing(images)
        return self.encoder(pictures, bits) - pictures


OPSET = 20
"""The newest that has Gelu and builds in every precision; 23 brings an Attention operation that
NVIDIA's builder has no fp32 kernel for."""

_TRACED = 2  # batch size while tracing; one would be taken for a constant

LARGEST = 2**31
"""Bytes of weights that fit into one ONNX file."""

REFUSED = {"BitwiseXor", "DynamicQuantizeLinear", "MatMulInteger"}
"""Operations that NVIDIA's parser refuses; it also refuses antialiased resizing."""


def export_graph(
    module: nn.Module,
    inputs: Sequence[Tensor],
    input_names: Sequence[str],
    output_names: Sequence[str],
    what: str,
) -> onnx.ModelProto:
    """``module`` as an ONNX graph whose batch size is free. ``inputs`` hold one example each."""
    weights = sum(tensor.nbytes for tensor in module.state_dict().values())
    if weights >= LARGEST:
        raise CoverLockError(
            f"{what} has {weights / 2**30:.1f} GB of weights, and an ONNX file holds less than 2: "
            "use a smaller network"
        )
    examples = tuple(example.expand(_TRACED, *example.shape[1:]).contiguous() for example in inputs)
    batch = torch.export.Dim("batch", min=1, max=4096)
    try:
        with quiet(), torch.no_grad():
            program = torch.onnx.export(
                module.eval(),
                examples,
                input_names=list(input_names),
                output_names=list(output_names),
                dynamic_shapes=tuple({0: batch} for _ in examples),
                opset_version=OPSET,
                dynamo=True,
                optimize=True,
            )
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise CoverLockError(
            f"{what} cannot be exported to ONNX ({type(error).__name__}: "
            f"{reason[0] if reason else 'no reason given'}); a module exports when it has no "
            "Python branches on values and treats the batch size as free (shape[0], not len)"
        ) from error
    assert program is not None
    model = program.model_proto
    # Tools that change the graph later trip over the shapes that the exporter noted down.
    del model.graph.value_info[:]
    _check(model, what)
    return model


def serialise(model: onnx.ModelProto) -> bytes:
    """The bytes of a graph, without the traces of the machine that made it."""
    clean = onnx.ModelProto()
    clean.CopyFrom(model)
    for node in clean.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for function in clean.functions:
        del function.metadata_props[:]
    del clean.metadata_props[:]
    del clean.graph.metadata_props[:]
    for value in (*clean.graph.input, *clean.graph.output, *clean.graph.initializer):
        del value.metadata_props[:]
    return clean.SerializeToString()


def scope_of(node: onnx.NodeProto) -> str:
    """Where in the module tree a node comes from, such as "hash.head.output"."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            names = [name.strip(" '\"") for name in entry.value.strip("[]").split(",")]
            modules = [name for name in names if name]
            return modules[-2] if len(modules) > 1 else ""
    return ""


def _check(model: onnx.ModelProto, what: str) -> None:
    onnx.checker.check_model(model, full_check=True)
    refused = {node.op_type for node in model.graph.node if _is_refused(node)}
    if refused:
        raise CoverLockError(
            f"{what} uses {', '.join(sorted(refused))}, which TensorRT's parser refuses: "
            "compute it once outside the module, or with other operations"
        )
    for value in (*model.graph.input, *model.graph.output):
        first = value.type.tensor_type.shape.dim[0]
        if not first.dim_param:
            raise CoverLockError(
                f"{what} has a fixed batch of {first.dim_value} in '{value.name}': "
                "use images.shape[0] instead of len(images) in its module"
            )


def _is_refused(node: onnx.NodeProto) -> bool:
    antialiased = any(entry.name == "antialias" and entry.i for entry in node.attribute)
    return node.op_type in REFUSED or (node.op_type == "Resize" and antialiased)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence progress and advice of exporter and quantiser; what matters is checked afterwards."""
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(ORT_ERRORS)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        onnxruntime.set_default_logger_severity(ORT_WARNINGS)
