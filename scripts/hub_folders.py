"""Write a folder for each network that ships, ready for a model hub: card, weights, settings.

python scripts/hub_folders.py OUT     (then: huggingface-cli upload ORGANISATION/NAME OUT/NAME)
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "https://github.com/coverlock/coverlock-sdk"

HASH_USE = """from coverlock_sdk import load_hash, wrap

image_hash = load_hash("{name}")  # ships with coverlock-sdk; this folder is for those who look here
locked = wrap("your-watermark", hash="{name}")"""

WATERMARK_USE = """from coverlock_sdk import wrap

locked = wrap("{name}")  # the weights ship with coverlock-sdk[torch]
marked = locked.embed("photo.png", "order-4711")"""


@dataclass(frozen=True)
class Kind:
    """What hashes, or watermarks, have in common on a hub."""

    tags: tuple[str, ...]
    summary: str
    limits: str
    use: str


HASH = Kind(
    tags=("perceptual-hash", "image-hashing"),
    summary="A perceptual image hash: logits whose signs survive distortion.",
    limits=f"What it can and cannot tell apart: {SOURCE}/blob/main/docs/research/hashes.md.",
    use=HASH_USE,
)
WATERMARK = Kind(
    tags=("image-watermarking",),
    summary="A reference image watermark, narrower than the published network of that name.",
    limits="A reference for comparisons, not a product: unlocked, its marks can be forged. "
    f"Figures: {SOURCE}/blob/main/docs/research/watermarks.md.",
    use=WATERMARK_USE,
)


def card(name: str, kind: Kind, facts: dict[str, object]) -> str:
    """A model card: front matter that hubs read, then text that people do."""
    tags = "\n".join(f"- {tag}" for tag in ("coverlock", *kind.tags))
    commands = facts.get("commands") or [facts.get("command", "see the repository")]
    made = "\n".join(map(str, commands)) if isinstance(commands, list) else str(commands)
    data = facts.get("data", "MS-COCO train2017, 8,000 photos (research use), a tenth held out")
    return f"""---
license: apache-2.0
library_name: coverlock-sdk
tags:
{tags}
---
# {name}

{kind.summary} Part of [CoverLock SDK]({SOURCE}).

## Use
```python
{kind.use.format(name=name)}
```

## Training
{data}.

```
{made}
```

## Limits
{kind.limits}
"""


HASHES = ("hashing", "dinov2")
"""The packages whose weights are those of hashes."""


def write(name: str, weights: Path, kind: Kind, out: Path) -> Path:
    """The folder of one network."""
    folder = out / f"coverlock-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    facts = json.loads(weights.with_suffix(".json").read_text())
    shutil.copy(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(facts, indent=2) + "\n")
    (folder / "README.md").write_text(card(name, kind, facts))
    return folder


def main(out: Path) -> None:
    """Write every folder and name it."""
    for package in ("coverlock_sdk", "plugins/coverlock_plugins"):
        for weights in sorted((ROOT / package).glob("*/weights/*.safetensors")):
            kind = HASH if weights.parts[-3] in HASHES else WATERMARK
            print(write(weights.stem, weights, kind, out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
