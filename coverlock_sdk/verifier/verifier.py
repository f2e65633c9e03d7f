"""The production verifier: a bundle, a key and a runtime, and no PyTorch.

It answers exactly as ``wrap(...).verify`` does, because both make their verdicts of logits in
``examiner``. A picture that has not the graph's size is resampled on the host, by the operation
the graph itself uses, and rounded to 8 bits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from coverlock_sdk.bundles.bundle import Bundle, Manifest, PathLike
from coverlock_sdk.errors import BundleError, CoverLockError
from coverlock_sdk.hashing.projection import CODE_BITS
from coverlock_sdk.images.picture import read, read_batch
from coverlock_sdk.locking.identification import Identification, MessageBook
from coverlock_sdk.locking.judging import Examiner, paths_of
from coverlock_sdk.locking.keys import Keyring, as_keyring
from coverlock_sdk.locking.lock_format import Logits
from coverlock_sdk.locking.verdict import Rule, Verdict
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.verifier.audit_log import AuditLog
from coverlock_sdk.verifier.batching import Batcher, run_in_parts
from coverlock_sdk.verifier.runtimes import AUTO, Choice, Pixels, choose

__all__ = ["Verifier"]


class Verifier:
    """Verifies pictures with a deployed bundle. Safe to share between threads.

    ``verify`` takes one picture and runs it together with those of other threads; ``verify_batch``
    takes many. Open it with ``Verifier.open`` and close it when done, or use it in a ``with``.
    """

    def __init__(
        self,
        bundle: Bundle,
        choice: Choice,
        examiner: Examiner,
        batcher: Batcher,
        max_batch: int,
        precision: str,
        audit: AuditLog | None,
    ) -> None:
        self.bundle = bundle
        self.runtime = choice.runtime
        self.passed_over = choice.passed_over
        """Why each runtime that "auto" would have preferred was not taken."""
        self.precision = precision
        self._examiner = examiner
        self._batcher = batcher
        self.max_batch = max_batch
        self._audit = audit
        self._closing = threading.Lock()
        self._calls = threading.Condition()
        self._running = 0
        self._closed = False

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
        rule: Rule | None = None,
        threads: int | None = None,
        max_batch: int = 32,
        max_delay_ms: float = 2.0,
        max_queue: int = 256,
        audit: PathLike | None = None,
        warm_up: bool = True,
    ) -> Verifier:
        """Open the bundle in a folder.

        ``runtime`` is "tensorrt", "cuda", "openvino", "cpu", or "auto" for the first of these
        that works here. ``key`` is a ``Key``, a ``Keyring`` or a key file, and never comes from
        the bundle; ``trust`` the public key whose signature the bundle must carry; ``fpr`` and
        ``rule`` replace those of the bundle; ``threads`` limits the runtime (OMP_NUM_THREADS
        does too). ``verify`` collects up to ``max_batch`` pictures for at most ``max_delay_ms``
        and refuses one more than ``max_queue`` waiting ones. ``audit`` names a file that gets a
        line for every verdict.
        """
        if max_batch < 1 or max_queue < 1 or max_delay_ms < 0:
            raise CoverLockError(
                f"max_batch {max_batch} and max_queue {max_queue} must be at least 1, "
                f"and max_delay_ms {max_delay_ms} not negative"
            )
        if not isinstance(bundle, Bundle):
            bundle = Bundle.open(bundle, trust)
        elif trust is not None:
            bundle = Bundle.open(bundle.path, trust)  # it may have been opened with another key
        manifest = bundle.manifest
        keyring = as_keyring(key)
        require_key(manifest, keyring, bundle)
        examiner = Examiner(
            manifest.format,
            keyring,
            manifest.fpr if fpr is None else fpr,
            manifest.rule if rule is None else rule,
        )
        log = AuditLog(audit) if audit is not None else None
        choice = choose(bundle, runtime, precision, threads)
        batcher = Batcher(choice.runtime, max_batch, max_delay_ms, max_queue)
        verifier = cls(bundle, choice, examiner, batcher, max_batch, precision, log)
        if warm_up:
            try:
                verifier.warm_up()
            except BaseException:
                verifier.close()
                raise
        return verifier

    def __repr__(self) -> str:
        manifest = self.bundle.manifest
        return (
            f"Verifier({str(self.bundle.path)!r}, watermark={manifest.watermark!r}, "
            f"hash={manifest.hash!r}, runtime={self.runtime.name!r}, "
            f"precision={self.precision!r}, keyring={self._examiner.keyring!r})"
        )

    def __enter__(self) -> Verifier:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self._examiner.bits

    def verify(
        self, picture: Any, message: Any, accept_unlocked: bool = False, *, source: Any = None
    ) -> Verdict:
        """Say whether one picture carries a message, in a batch with those of other threads.

        ``source`` is what the audit log says of where the picture came from, as JSON; otherwise
        its path, if it has one. Raises ``OverloadedError`` when too many pictures are waiting.
        """
        logits = self._queued(picture)
        verdicts = self._examiner.verify(*logits, message, accept_unlocked)
        self._announce(verdicts, paths_of(picture, 1) if source is None else [source])
        return verdicts[0]

    def verify_batch(
        self, pictures: Any, messages: Any, accept_unlocked: bool = False
    ) -> list[Verdict]:
        """Say of each of many pictures whether it carries its message.

        ``messages`` is one message for all of them or one each.
        """
        logits = self.logits(pictures)
        verdicts = self._examiner.verify(*logits, messages, accept_unlocked)
        self._announce(verdicts, paths_of(pictures, len(verdicts)))
        return verdicts

    def identify(self, picture: Any, messages: Any) -> Identification:
        """Find which of many registered messages one picture carries, if any.

        ``messages`` is a ``MessageBook`` (see ``book``), an array (N, bits), a mapping from
        labels to messages, or a list of identifiers.
        """
        book = self._examiner.checked_book(messages)
        [answer] = self._examiner.identify(*self._queued(picture), book)
        self._announce([answer.verdict], paths_of(picture, 1))
        return answer

    def book(self, messages: Any) -> MessageBook:
        """Pack registered messages, or identifiers, for repeated identification."""
        return self._examiner.book(messages)

    def logits(self, pictures: Any) -> tuple[Logits, Logits]:
        """Decoder logits (N, bits) and hash logits (N, 256) of pictures of any kind and size.

        No more than a batch of them is in memory at a time, besides what the caller holds.
        """
        manifest, batches = self.bundle.manifest, self._batches(pictures)
        with self._call():
            parts = [
                run_in_parts(self.runtime, _pixels(batch, manifest.size), self.max_batch)
                for batch in batches
            ]
        if not parts:
            empty = np.empty((0, manifest.format.payload_bits), np.float32)
            return empty, np.empty((0, CODE_BITS), np.float32)
        decoded, hashed = zip(*parts, strict=True)
        return np.concatenate(decoded), np.concatenate(hashed)

    def warm_up(self, batch: int = 1) -> None:
        """Run a blank batch, so that the first caller does not wait for what is done only once.

        ``open`` does it with one picture. On a GPU do it with ``max_batch`` too.
        """
        height, width = self.bundle.manifest.size
        images = np.zeros((batch, height, width, 3), dtype=np.uint8)
        with self._call():
            decoded, hashed = run_in_parts(self.runtime, images, self.max_batch)
        widths = (self.bundle.manifest.format.payload_bits, CODE_BITS)
        if (decoded.shape[1], hashed.shape[1]) != widths:
            raise BundleError(
                f"the graph of {self.bundle.path} answers with {decoded.shape[1]} and "
                f"{hashed.shape[1]} logits, but its manifest says {widths[0]} and {widths[1]}: "
                "export it again"
            )

    def close(self) -> None:
        """Let the calls under way finish, refuse others, and give back the runtime.

        Whoever closes while another thread does waits for it; closing twice does no harm.
        """
        with self._closing:
            if self._closed:
                return
            with self._calls:
                self._closed = True
                self._calls.wait_for(lambda: self._running == 0)
            self._batcher.close()
            self.runtime.close()

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """A use of the runtime, which is not closed until it is over."""
        with self._calls:
            if self._closed:
                raise CoverLockError("the verifier is closed: open the bundle again")
            self._running += 1
        try:
            yield
        finally:
            with self._calls:
                self._running -= 1
                self._calls.notify_all()

    def _batches(self, pictures: Any) -> list[Any]:
        """Many pictures in slices of ``max_batch``; one picture as it is."""
        if not isinstance(pictures, list | tuple) and getattr(pictures, "ndim", 0) != 4:
            return [pictures]
        starts = range(0, len(pictures), self.max_batch)
        return [pictures[start : start + self.max_batch] for start in starts]

    def _queued(self, picture: Any) -> tuple[Logits, Logits]:
        with self._call():
            row = self._batcher.submit(read(picture).to_bytes(self.bundle.manifest.size)).result()
        return row.decoded[None], row.hashed[None]

    def _announce(self, verdicts: Sequence[Verdict], sources: Sequence[Any]) -> None:
        watermark, image_hash = self.bundle.manifest.watermark, self.bundle.manifest.hash
        for verdict, source in zip(verdicts, sources, strict=True):
            if self._audit is not None:
                self._audit.verdict_reached(verdict, watermark, image_hash, source)
            plugin_manager().announce(verdict, watermark, image_hash, source)


def _pixels(pictures: Any, size: tuple[int, int]) -> Pixels:
    return np.stack([picture.to_bytes(size) for picture in read_batch(pictures).pictures])


def require_key(manifest: Manifest, keyring: Keyring | None, bundle: Bundle) -> None:
    """Refuse keys that cannot be the ones the bundle's pictures are marked with."""
    wanted = manifest.key_fingerprint
    if wanted is None:
        return
    held = [key.fingerprint for key in keyring.keys] if keyring else []
    if wanted not in held:
        given = f"fingerprint {', '.join(held)}" if held else "none"
        raise BundleError(
            f"{bundle.path} was exported for the key with fingerprint {wanted}, but the key "
            f"given is {given}: open it with that key"
        )
