"""Writes the page: sources, runtime, graph and samples in one file that needs no server."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from importlib import metadata
from pathlib import Path
from typing import Any

from coverlock_sdk.bundles.bundle import MANIFEST, Bundle
from coverlock_sdk.bundles.bundle_judge import bundle_judge
from coverlock_sdk.errors import BundleError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.locking.calibration import MAX_CONFIDENCE
from coverlock_sdk.locking.keys import PUBLIC_SECRET, bit_selection
from coverlock_sdk.locking.locked_watermark import LockedWatermark
from coverlock_sdk.locking.statistics import MAX_WEIGHT
from coverlock_sdk.models.assets import locate
from coverlock_web.inlining import inlined, source
from coverlock_web.runtime import BINARY, MODULE, RUNTIME, VERSION
from coverlock_web.samples import CREDITS, IDENTIFIER, sample_pairs

MODULES = (
    "sha256.js",
    "messages.js",
    "statistics.js",
    "lock.js",
    "resampling.js",
    "picture.js",
    "residual.js",
    "bundle.js",
    "verifier.js",
    "elements.js",
    "verdict_view.js",
    "viewer.js",
    "story.js",
    "desk.js",
    "page.js",
)
"""Each after those that it imports."""


def write_site(bundle: Bundle, lock: LockedWatermark, out: Path) -> Path:
    """Write ``out/index.html``, which verifies what ``lock`` marks by the graph of ``bundle``."""
    if bundle.manifest.key_fingerprint is not None or lock.keyring is not None:
        raise _keyed(f"the pictures of {bundle.path} are marked")
    if lock.format != bundle.manifest.format:
        raise BundleError(
            f"{bundle.path} was exported from another version of '{lock.watermark_name}' or of "
            f"'{lock.hash_name}': export it again"
        )
    bundle.file()  # there is none where the watermark is decoded by a plugin
    page = _page(bundle, lock)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "index.html", page.encode())
    except OSError as error:
        raise BundleError(f"{out} cannot be written ({error.strerror or error})") from None
    return out / "index.html"


def require_page(lock: LockedWatermark) -> None:
    """Say what stands in the way of a page for ``lock`` before it is exported."""
    if lock.keyring is not None:
        raise _keyed("these pictures are marked")
    if lock.watermark.native_size is None or lock.watermark.decoder_module() is None:
        raise BundleError(
            f"'{lock.watermark_name}' is not a network, so no page can decode it: verify its "
            "pictures with 'coverlock serve'"
        )
    locate(RUNTIME)


def _keyed(what: str) -> BundleError:
    return BundleError(
        f"{what} with a key, and a page never holds one: verify them with 'coverlock serve', "
        "or export a bundle without a key for the page"
    )


def _page(bundle: Bundle, lock: LockedWatermark) -> str:
    style, boot = source("style.css") + source("viewer.css"), source("boot.js")
    manifest, layout = bundle.manifest, bundle.manifest.format
    texts = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "identifier": IDENTIFIER,
        "bits": str(layout.bits),
        "height": str(manifest.graph_size[0]),
        "width": str(manifest.graph_size[1]),
        "rule": manifest.rule,
        "rule_text": ", bits weighed by confidence" if manifest.rule == "soft" else "",
        "fpr": rate_text(manifest.fpr),
        "one_in": f"{round(1 / manifest.fpr):,}",
        "floor": f"{100 * bundle_judge(bundle, None).floor:g} %",
        "runtime": f"ONNX Runtime Web {VERSION} (MIT, Microsoft), WebAssembly on one thread",
        "credits": CREDITS,
        "version": metadata.version("coverlock-sdk"),
        "policy": _policy(style, boot),
    }
    page = source("index.html")
    for name, text in texts.items():
        page = page.replace(f"{{{{{name}}}}}", html.escape(text))
    parts = {"style": style, "boot": boot, "data": _data(bundle, lock)}
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    return page


def _data(bundle: Bundle, lock: LockedWatermark) -> str:
    """The elements that hold modules, settings, runtime and graph."""
    runtime = locate(RUNTIME)
    settings = json.dumps(_settings(bundle, lock)).replace("<", "\\u003c")
    binaries = {
        "graph": bundle.read(bundle.file()),
        "wasm": (runtime / BINARY).read_bytes(),
        "runtime": (runtime / MODULE).read_bytes(),
    }
    return "\n".join(
        [
            inlined({name: source(name) for name in MODULES}),
            f'<script type="application/json" id="settings">{settings}</script>',
            *(
                f'<script type="text/plain" id="{name}">{packed(content)}</script>'
                for name, content in binaries.items()
            ),
        ]
    )


def _settings(bundle: Bundle, lock: LockedWatermark) -> dict[str, Any]:
    """What the modules need to know; the Python side is the only one that defines it."""
    manifest, layout = bundle.manifest, bundle.manifest.format
    assert layout.hash is not None
    return {
        "manifest": (bundle.path / MANIFEST).read_text(),
        "identifier": IDENTIFIER,
        "format": {
            "size": manifest.graph_size,
            "bits": layout.bits,
            "payloadBits": layout.payload_bits,
            "decoder": vars(layout.decoder),
            "hash": vars(layout.hash),
            "selection": bit_selection(None, CODE_BITS, layout.bits).tolist(),
            "publicKey": PUBLIC_SECRET.decode(),
            "maxConfidence": MAX_CONFIDENCE,
            "maxWeight": MAX_WEIGHT,
            "floor": bundle_judge(bundle, None).floor,
            "fpr": manifest.fpr,
            "fprText": rate_text(manifest.fpr),
            "rule": manifest.rule,
        },
        "pairs": [pair.inlined() for pair in sample_pairs(lock)],
    }


def rate_text(rate: float) -> str:
    """A rate as people write it: 10⁻⁶."""
    power = math.log10(rate)
    if abs(power - round(power)) > 1e-9:
        return f"{rate:g}"
    return "10⁻" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(-round(power)))


def _policy(style: str, boot: str) -> str:
    """What the page may do: run its own code, and connect to nothing."""
    return (
        f"default-src 'none'; script-src {_source_hash(boot)} blob: 'wasm-unsafe-eval'; "
        f"style-src {_source_hash(style)}; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def packed(content: bytes) -> str:
    """Bytes as the page holds them: base 64 of gzip."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
