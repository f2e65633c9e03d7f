"""The production verifier: a bundle, a key and a runtime, and no PyTorch.

It has the same methods as the object that ``wrap`` returns. Both give their networks the same
8-bit pictures and turn logits into verdicts with the same code.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coverlock_sdk.arrays import Descriptions, Logits
from coverlock_sdk.bundles.bundle import Bundle, PathLike
from coverlock_sdk.bundles.bundle_lock import bundle_lock
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.picture_verifier import Looks, PictureVerifier
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.verifier.audit_log import AuditLog
from coverlock_sdk.verifier.graph_runner import Batcher, GraphRunner
from coverlock_sdk.verifier.runtimes import AUTO, Runtime, choose

if TYPE_CHECKING:
    from coverlock_sdk.contract import Watermark


@dataclass(frozen=True)
class Settings:
    """Settings of a ``Verifier`` that only some deployments need to change."""

    precision: str = "fp32"
    fpr: float | None = None
    """False-positive rate; None for the bundle's own."""
    threads: int | None = None
    """Threads of the runtime; None for OMP_NUM_THREADS if set, otherwise all."""
    max_batch: int = 32
    """Largest number of pictures in a batch."""
    max_delay_ms: float = 2.0
    """How long a single picture waits for others."""
    max_queue: int = 256
    """How many single pictures may wait; more are refused."""
    max_pixels: int = PictureVerifier.max_pixels
    """Larger picture files are refused."""
    audit: PathLike | None = None
    """File to append a line to for every verdict."""
    watermark: Watermark | None = None
    """The plugin with its options, for a bundle that decodes with a plugin."""

    def __post_init__(self) -> None:
        if self.max_batch < 1 or self.max_queue < 1 or self.max_delay_ms < 0:
            raise CoverLockError(
                f"max_batch {self.max_batch} and max_queue {self.max_queue} must be at least 1, "
                f"and max_delay_ms {self.max_delay_ms} not negative"
            )


class Verifier(PictureVerifier):
    """Verifies pictures with a deployed bundle. Safe to share between threads.

    Single pictures run in batches with those of other threads, and ``OverloadedError`` is raised if
    too many are waiting. Lists of pictures run in separate batches. Open it with ``Verifier.open``,
    in a ``with`` statement, or close it when done.
    """

    bundle: Bundle
    precision: str
    _audit: AuditLog | None
    _runner: GraphRunner

    @classmethod
    def open(
        cls,
        bundle: PathLike | Bundle,
        runtime: str = AUTO,
        *,
        key: Any = None,
        trust: Any = None,
        registry: str | Path | Registry | None = None,
        settings: Settings = Settings(),
    ) -> Verifier:
        """Open the bundle in a folder.

        ``runtime`` is "tensorrt", "cuda", "openvino" or "cpu"; "auto" times those that work here
        and takes the fastest for single pictures. ``key`` is a ``Key``, a ``Keyring`` or a key
        file, and never comes from the bundle. ``trust`` names public key files, one of which must
        have signed the bundle, or is "any" to skip that check. ``registry`` works as in ``wrap``:
        only pictures that it remembers are accepted.
        """
        bundle = Bundle.given(bundle, trust)
        lock = bundle_lock(bundle, key, settings.fpr, registry)
        log = AuditLog(settings.audit, bundle.manifest.version) if settings.audit else None
        chosen = choose(bundle, runtime, settings.precision, settings.threads)
        verifier = cls(lock, bundle.manifest.watermark, [log.verdict_reached] if log else [])
        verifier.bundle, verifier.precision, verifier._audit = bundle, settings.precision, log
        verifier.max_pixels = settings.max_pixels
        batcher = Batcher(chosen, settings.max_batch, settings.max_delay_ms, settings.max_queue)
        verifier._runner = GraphRunner(bundle, batcher, settings.watermark)
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
        """The runtime of the graph."""
        return self._runner.batcher.runtime

    def warm_up(self, batch: int = 1) -> None:
        """Run a blank batch and judge a picture, so that the first caller does not wait.

        ``open`` does it with one picture. On a GPU do it with ``max_batch`` too.
        """
        self._runner.warm_up(batch)
        self.judge(_some_picture(), "warm-up")  # loads decoders and what searches need

    def judge(self, picture: Any, message: Any) -> Verdict:
        """The verdict on one picture, not yet reported to listeners.

        Every verdict tries the same keys, salts and frames, so its timing says little about how
        close a rejected picture came.
        """
        given = Given(picture, self.max_pixels)
        [verdict] = self.lock.verify(
            *self._logits(given), message, Looks(self, given), thorough=True
        )
        return verdict

    def recognise(self, picture: Any, book: MessageBook) -> Identification:
        """Which message of a book one picture carries, not yet reported to listeners.

        Every answer takes the same steps, as in ``judge``.
        """
        given = Given(picture, self.max_pixels)
        [answer] = self.lock.identify(*self._logits(given), book, Looks(self, given), thorough=True)
        return answer

    def observe_batches(self, observe: Callable[[int], None]) -> None:
        """Call ``observe`` with the number of pictures in each batch."""
        self._runner.batcher.observe = observe

    def require_audit(self) -> None:
        """Raise if there is an audit log and it cannot be written now."""
        if self._audit is not None:
            self._audit.require_writable()

    def close(self) -> None:
        """Wait for calls in progress, refuse new ones, and close the runtime."""
        self._runner.close()

    @property
    def _seen_at(self) -> tuple[int, int] | None:
        return self.bundle.manifest.size

    def decode_placed(self, picture: Picture, frame: Frame) -> Logits:
        """The decoder logits of one picture, put back in its place in a frame."""
        return self._runner.decoded_in(picture, frame)

    def _logits(self, given: Given) -> tuple[Logits, Descriptions]:
        return self._runner.logits(given)


@cache
def _some_picture() -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.effect_noise((320, 320), 40).convert("RGB").save(file, format="JPEG")
    return file.getvalue()
