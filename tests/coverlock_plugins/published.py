"""The published checkpoints: a digest of the names, order and shapes of their tensors.

The digests were made of layouts written out from the authors' files, not from our networks.
"""

import hashlib
from collections.abc import Iterable

DIGESTS = {
    "hidden": "2f9977c65c22063b",  # ando-khachatryan/HiDDeN
    "mbrs": "06ee6432a08089b6",  # MBRS_256_m256
    "mbrs at 128 pixels": "3b396c2dcbb1fe4e",
    "mbrs diffusion": "da507dd87573a469",  # MBRS_Diffusion_128_m30
    "cin": "98bfd645aa53c3c0",
    "rivagan encoder": "94c724a67e59d46b",  # DAI-Lab/RivaGAN, 32 bits
    "rivagan decoder": "630cca6449f11ca7",
    "convnext": "2e6c6ac0deb04c9b",  # torchvision's ConvNeXt-Base
    "convnext v2": "47a19bee76a05241",  # its authors' ConvNeXt V2-Tiny
}


def layout_digest(tensors: Iterable[tuple[str, Iterable[int]]]) -> str:
    """A digest of names and shapes in their order."""
    layout = [(name, tuple(shape)) for name, shape in tensors]
    return hashlib.sha256(repr(layout).encode()).hexdigest()[:16]
