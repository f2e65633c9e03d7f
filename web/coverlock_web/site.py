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

from coverlock_sdk import LockedWatermark
from coverlock_sdk.bundles.bundle import MANIFEST, OUTPUTS, Bundle
from coverlock_sdk.bundles.bundle_lock import bundle_lock
from coverlock_sdk.errors import BundleError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.locking.lock import Lock
from coverlock_web.inlining import inlined, source
from coverlock_web.lock_settings import lock_numbers, lock_settings
from coverlock_web.runtime import BINARY, MODULE, RUNTIME, VERSION
from coverlock_web.samples import CREDITS, IDENTIFIER, sample_pairs

MODULES = (
    "sha256.js",
    "messages.js",
    "frames.js",
    "matrices.js",
    "statistics.js",
    "turning.js",
    "views.js",
    "octave.js",
    "code_map.js",
    "registration.js",
    "readings.js",
    "lock.js",
    "resampling.js",
    "placing.js",
    "picture.js",
    "shown.js",
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

FRAMES_TEXT = (
    " Crops that keep 70 % of each side, and small turns, are found and accounted for in p."
)


def write_site(bundle: Bundle, lock: LockedWatermark, out: Path) -> Path:
    """Write ``out/index.html``, which verifies what ``lock`` marks by the graph of ``bundle``."""
    if bundle.manifest.key_fingerprint is not None or lock.keyring is not None:
        raise BundleError(
            f"the pictures of {bundle.path} are marked with a key, and a page never holds one: "
            "verify them with 'coverlock serve', or export a bundle without a key for the page"
        )
    exported = bundle_lock(bundle, None)
    if _read_by(exported) != _read_by(lock.lock):
        raise BundleError(
            f"{bundle.path} was exported from another version of '{lock.watermark_name}' or of "
            f"'{lock.hash_name}': export it again"
        )
    bundle.file()  # there is none where the watermark is decoded by a plugin
    page = _page(bundle, exported, lock)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "index.html", page.encode())
    except OSError as error:
        raise BundleError(f"{out} cannot be written ({error.strerror or error})") from None
    return out / "index.html"


def _read_by(lock: Lock) -> tuple[Any, ...]:
    """What an exported graph has to share with the lock that marks for it."""
    image_hash = lock.hash and (lock.hash.name, lock.hash.bands, lock.hash.calibration)
    return lock.payload_bits, lock.decoder, image_hash


def _page(bundle: Bundle, exported: Lock, lock: LockedWatermark) -> str:
    style, boot = source("style.css") + source("viewer.css"), source("boot.js")
    manifest = bundle.manifest
    texts = {
        "watermark": manifest.watermark,
        "hash": manifest.hash,
        "identifier": IDENTIFIER,
        "bits": str(lock.bits),
        "height": str(manifest.graph_size[0]),
        "width": str(manifest.graph_size[1]),
        "fpr": rate_text(manifest.fpr),
        "one_in": f"{round(1 / manifest.fpr):,}",
        "frames_text": FRAMES_TEXT if exported.hash and exported.hash.registers else "",
        "runtime": f"ONNX Runtime Web {VERSION} (MIT, Microsoft), WebAssembly on one thread",
        "credits": CREDITS,
        "version": metadata.version("coverlock-sdk"),
        "policy": _policy(style, boot),
    }
    page = source("index.html")
    for name, text in texts.items():
        page = page.replace(f"{{{{{name}}}}}", html.escape(text))
    parts = {"style": style, "boot": boot, "data": _data(bundle, exported, lock)}
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    return page


def _data(bundle: Bundle, exported: Lock, lock: LockedWatermark) -> str:
    """The elements that hold modules, settings, runtime and graph."""
    runtime = RUNTIME.locate()
    settings = json.dumps(_settings(bundle, exported, lock)).replace("<", "\\u003c")
    binaries = {
        "graph": bundle.read(bundle.file()),
        "wasm": (runtime / BINARY).read_bytes(),
        "runtime": (runtime / MODULE).read_bytes(),
        "numbers": lock_numbers(exported),
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


def _settings(bundle: Bundle, exported: Lock, lock: LockedWatermark) -> dict[str, Any]:
    """What the modules need to know; the Python side is the only one that defines it."""
    return {
        "manifest": (bundle.path / MANIFEST).read_text(),
        "identifier": IDENTIFIER,
        "graph": {
            "file": bundle.file(),
            "size": bundle.manifest.graph_size,
            "outputs": OUTPUTS,
        },
        "lock": {**lock_settings(exported), "fprText": rate_text(exported.fpr)},
        "pairs": sample_pairs(lock),
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
