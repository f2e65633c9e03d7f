"""How many bits a runtime reads as ONNX Runtime does in fp32, on a folder of pictures.

python scripts/bit_agreement.py BUNDLE PICTURES RUNTIME PRECISION [PUBLIC_KEY]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from coverlock_sdk import Settings, Verifier
from coverlock_sdk.cli.options import chosen_keyring
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.images.folders import find_pictures

LEAST = {"fp32": 0.9999}
"""The share of bits that must agree, as for an export; 0.99 in other precisions."""


def bits(
    bundle: str, pictures: list[Path], runtime: str, precision: str, trust: str | None
) -> np.ndarray[Any, Any]:
    """What decoder and hash show of every picture."""
    settings = Settings(precision)
    key = chosen_keyring(None)
    with Verifier.open(bundle, runtime, key=key, trust=trust, settings=settings) as verifier:
        decoded, described = verifier.logits(pictures)
        image_hash = verifier.lock.hash
        assert image_hash is not None
        codes = [image_hash.code(each)[0] for each in described]
        return np.hstack([decoded, codes]) > 0


def main() -> int:
    """Compare, print one line, and say by the exit code whether enough bits agree."""
    bundle, folder, runtime, precision, *trust = sys.argv[1:]
    signer = trust[0] if trust else None
    pictures = [found.path for found in find_pictures([folder])]
    try:
        asked = bits(bundle, pictures, runtime, precision, signer)
        share = float((asked == bits(bundle, pictures, "cpu", "fp32", signer)).mean())
    except CoverLockError as error:
        print(f"error: {error}")
        return 2
    print(f"{share:.4%} of bits agree with cpu fp32 on {len(pictures)} pictures")
    return 0 if share >= LEAST.get(precision, 0.99) else 1


if __name__ == "__main__":
    sys.exit(main())
