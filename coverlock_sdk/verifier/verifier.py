"""The production verifier: a bundle, a key and a runtime, and no PyTorch.

It has the methods of what ``wrap`` returns, and both turn logits into verdicts by the same code.
8-bit pictures of the graph's size get the same logits up to float rounding. Other sizes are
resampled on the host, by the operation that the graph itself uses, and rounded to 8 bits; an
export measures on photos what that changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_sdk.arrays import Descriptions, Logits
from coverlock_sdk.bundles.bundle import Bundle, PathLike
from coverlock_sdk.bundles.bundle_lock import bundle_lock
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.locking.picture_verifier import PictureVerifier
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier.audit_log import AuditLog
from coverlock_sdk.verifier.graph_runner import GraphRunner
from coverlock_sdk.verifier.runtimes import AUTO, Runtime, choose

if TYPE_CHECKING:
    from coverlock_sdk.contract import Watermark


class Verifier(PictureVerifier):
    """Verifies pictures with a deployed bundle. Safe to share between threads.

    One picture is run together with those of other threads, and ``OverloadedError`` is raised when
    too many are waiting; many pictures are run as batches of their own. Open it with
    ``Verifier.open`` and close it when done, or use it in a ``with``.
    """

    bundle: Bundle
    precision: str
    passed_over: dict[str, str]
    """Why "auto" did not choose each runtime that it prefers to this one."""
    _audit: AuditLog | None
    _runner: GraphRunner

    @classmethod
    def open(
        cls,
        bundle: PathLike | Bundle,
        runtime: str = AUTO,
        *,
        precision: str = "fp32",
        key: Any = None,
        trust: Any = None,
        fpr: float | None = None,
        registry: str | Path | Registry | None = None,
        threads: int | None = None,
        max_batch: int = 32,
        max_delay_ms: float = 2.0,
        max_queue: int = 256,
        audit: PathLike | None = None,
        warm_up: bool = True,
        max_pixels: int = PictureVerifier.max_pixels,
        watermark: Watermark | None = None,
    ) -> Verifier:
        """Open the bundle in a folder.

        ``runtime`` is "tensorrt", "cuda", "openvino", "cpu", or "auto" for the first of these
        that works here. ``key`` is a ``Key``, a ``Keyring`` or a key file, and never comes from
        the bundle; ``trust`` names the public keys or trust files of which one must have signed
        it, or "any" for a bundle that needs no check. ``fpr`` replaces that of the bundle.
        ``registry`` is that of ``wrap``: a picture must also be one that it remembers. ``threads``
        limits the runtime (OMP_NUM_THREADS does too). Single pictures wait for up to ``max_batch``
        others for at most ``max_delay_ms``; one more than ``max_queue`` waiting ones is refused.
        ``audit`` names a file that gets a line for every verdict. Picture files of more than
        ``max_pixels`` are refused. A bundle whose watermark is not a network decodes with the
        installed plugin; ``watermark`` is that plugin with options, which a bundle does not hold.
        """
        if max_batch < 1 or max_queue < 1 or max_delay_ms < 0:
            raise CoverLockError(
                f"max_batch {max_batch} and max_queue {max_queue} must be at least 1, "
                f"and max_delay_ms {max_delay_ms} not negative"
            )
        bundle = Bundle.given(bundle, trust)
        lock = bundle_lock(bundle, key, fpr, registry)
        log = AuditLog(audit, bundle.manifest.version) if audit is not None else None
        choice = choose(bundle, runtime, precision, threads)
        verifier = cls(lock, bundle.manifest.watermark, [log] if log else [])
        verifier.bundle, verifier.precision, verifier._audit = bundle, precision, log
        verifier.passed_over, verifier.max_pixels = choice.passed_over, max_pixels
        verifier._runner = GraphRunner(
            bundle, choice.runtime, max_batch, max_delay_ms, max_queue, watermark
        )
        if warm_up:
            try:
                verifier.warm_up()
            except BaseException:
                verifier.close()
                raise
        return verifier

    def __repr__(self) -> str:
        return (
            f"Verifier({str(self.bundle.path)!r}, watermark={self.watermark_name!r}, "
            f"hash={self.hash_name!r}, runtime={self.runtime.name!r}, "
            f"precision={self.precision!r}, keyring={self.keyring!r})"
        )

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def runtime(self) -> Runtime:
        """What runs the graph."""
        return self._runner.runtime

    def warm_up(self, batch: int = 1) -> None:
        """Run a blank batch, so that the first caller does not wait for the set-up.

        ``open`` does it with one picture. On a GPU do it with ``max_batch`` too.
        """
        self._runner.warm_up(batch)

    def require_audit(self) -> None:
        """Raise unless the audit log, where there is one, could be written now."""
        if self._audit is not None:
            self._audit.require_writable()

    def close(self) -> None:
        """Wait for calls in progress, refuse new ones, and close the runtime."""
        self._runner.close()

    @property
    def _seen_at(self) -> tuple[int, int] | None:
        return self.bundle.manifest.size

    def _decode_placed(self, given: Given, row: int, frame: Frame) -> Logits:
        return self._runner.decoded_in(given.picture(row), frame)

    def _logits(self, given: Given) -> tuple[Logits, Descriptions]:
        return self._runner.logits(given)
