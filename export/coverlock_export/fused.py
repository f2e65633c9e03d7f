"""The networks of a bundle as PyTorch modules: what is exported is what is written here.

All of them take 8-bit pictures as files hold them, and begin with a cast, because NVIDIA's parser
accepts no other operation on bytes. Resampling is the SDK's own, as two constant matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coverlock_sdk.images.resampling import resample_matrix


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
    """Decoder and hash behind one preprocessing: pictures to logits and descriptions."""

    def __init__(
        self,
        decoder: nn.Module,
        image_hash: nn.Module,
        size: tuple[int, int],
        hash_size: tuple[int, int],
    ) -> None:
        super().__init__()
        self.preprocessing = Preprocessing()
        self.resampling = Resampling(size, hash_size)
        self.decoder = decoder
        self.hash = image_hash

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 (N, H, W, 3) -> decoder logits (N, bits), descriptions (N, ...)."""
        pictures = self.preprocessing(images)
        return self.decoder(pictures), self.hash(self.resampling(pictures))


class Hashing(nn.Module):
    """The hash alone, for watermarks that a plugin decodes on the host."""

    def __init__(
        self, image_hash: nn.Module, size: tuple[int, int], hash_size: tuple[int, int]
    ) -> None:
        super().__init__()
        self.preprocessing = Preprocessing()
        self.resampling = Resampling(size, hash_size)
        self.hash = image_hash

    def forward(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, 3) -> descriptions (N, ...)."""
        descriptions: Tensor = self.hash(self.resampling(self.preprocessing(images)))
        return descriptions


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
        residuals: Tensor = self.encoder(pictures, bits) - pictures
        return residuals
