"""The graph of a bundle at work: pictures in, logits out, from any number of threads.

Pictures that arrive one by one are run together.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle, Manifest
from coverlock_sdk.bundles.bundle_lock import open_plugin
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import BundleError, CoverLockError, OverloadedError
from coverlock_sdk.frames import Frame
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.picture import Picture, put_back
from coverlock_sdk.plugin_calls import Networks
from coverlock_sdk.verifier.runtimes import Runtime


class Row(NamedTuple):
    """What a graph answers for one picture."""

    decoded: Logits
    description: Descriptions


class Batcher:
    """One thread that collects waiting pictures and runs them as a batch.

    The first picture waits at most ``max_delay_ms`` for company. At most ``max_queue`` pictures
    wait; one more is refused at once, so that an overloaded service says so while it can.
    """

    def __init__(
        self, runtime: Runtime, max_batch: int, max_delay_ms: float, max_queue: int
    ) -> None:
        self.runtime = runtime
        self.max_batch = max_batch
        self._max_delay = max_delay_ms / 1000
        self._waiting: queue.Queue[tuple[Pixels, Future[Row]] | None] = queue.Queue(max_queue)
        self._closed = threading.Event()
        self._entrance = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="coverlock-batcher", daemon=True)
        self._thread.start()

    def submit(self, image: Pixels) -> Future[Row]:
        """Queue one picture uint8 (H, W, 3)."""
        answer: Future[Row] = Future()
        with self._entrance:
            if self._closed.is_set():
                raise CoverLockError("the verifier is closed: open the bundle again")
            try:
                self._waiting.put_nowait((image, answer))
            except queue.Full:
                raise OverloadedError(
                    f"{self._waiting.maxsize} pictures are waiting already: try again later, "
                    "or open the verifier with a larger max_queue"
                ) from None
        return answer

    def close(self) -> None:
        """Answer what is waiting, accept nothing more, and end the thread."""
        with self._entrance:
            if self._closed.is_set():
                return
            self._closed.set()
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, last = self._collect(first)
            answers = [answer for _, answer in batch if answer.set_running_or_notify_cancel()]
            images = [image for image, answer in batch if answer in answers]
            if images:
                _answer(self.runtime, images, answers)
            if last:
                return

    def _collect(
        self, first: tuple[Pixels, Future[Row]]
    ) -> tuple[list[tuple[Pixels, Future[Row]]], bool]:
        """A batch that begins with ``first``, and whether it is the last one."""
        batch = [first]
        deadline = time.monotonic() + self._max_delay
        while len(batch) < self.max_batch:
            try:
                item = self._waiting.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                return batch, True
            batch.append(item)
        return batch, False


def _answer(runtime: Runtime, images: list[Pixels], answers: Sequence[Future[Row]]) -> None:
    try:
        decoded, described = _answers(runtime, np.stack(images), len(images))
    except BaseException as error:  # whoever waits must hear of it, whatever it is
        for answer in answers:
            answer.set_exception(error)
        return
    numbers = _are_numbers(decoded, described)
    for row, answer in enumerate(answers):
        if numbers[row]:
            answer.set_result(Row(decoded[row], described[row]))
        else:  # an overflow in one picture must not fail the others
            answer.set_exception(_no_numbers(runtime))


def run_in_parts(runtime: Runtime, images: Pixels, max_batch: int) -> tuple[Logits, Descriptions]:
    """Run any number of pictures, at most ``max_batch`` at once, and fewer if memory is short.

    Answers that are not numbers are an error: no verdict can be made of them.
    """
    decoded, described = _answers(runtime, images, max_batch)
    if not _are_numbers(decoded, described).all():
        raise _no_numbers(runtime)
    return decoded, described


def _answers(runtime: Runtime, images: Pixels, max_batch: int) -> tuple[Logits, Descriptions]:
    parts = []
    start = 0
    while start < len(images):
        part = images[start : start + max_batch]
        try:
            parts.append(runtime.run(part))
        except MemoryError as error:
            if len(part) == 1:
                raise CoverLockError(
                    f"a single picture does not fit into the memory of '{runtime.name}' ({error})"
                ) from error
            max_batch = len(part) // 2
            continue
        start += len(part)
    decoded, described = (np.concatenate(part) for part in zip(*parts, strict=True))
    return decoded, described


def _are_numbers(decoded: Logits, described: Descriptions) -> npt.NDArray[np.bool_]:
    """Which rows are finite: half precision overflows on some pictures and not on others."""
    values = np.hstack([part.reshape(len(part), -1) for part in (decoded, described)])
    return np.asarray(np.isfinite(values).all(axis=1))


def _no_numbers(runtime: Runtime) -> CoverLockError:
    return CoverLockError(
        f"the graph answers with NaN or infinite values on '{runtime.name}': use fp32"
    )


class HostDecoder:
    """Decodes 8-bit pictures with a plugin, one call at a time: nothing promises more of it."""

    def __init__(self, watermark: Watermark) -> None:
        self.watermark = watermark
        self._networks = Networks(watermark, None)
        self._turn = threading.Lock()

    def decode(self, pictures: Sequence[Picture]) -> Logits:
        """Logits (N, bits) of pictures at the watermark's size, or at their own."""
        with self._turn:
            return self._networks.decoded(self._networks.views(pictures))


def open_decoder(manifest: Manifest, watermark: Watermark | None) -> HostDecoder | None:
    """The plugin that a manifest names, or ``watermark``, which is that plugin with options."""
    if manifest.plugin is None:
        return None
    return HostDecoder(open_plugin(manifest, watermark))


class GraphRunner:
    """Runs one picture together with those of other threads, and many as batches of their own."""

    def __init__(self, bundle: Bundle, batcher: Batcher, decoder: HostDecoder | None) -> None:
        self.bundle = bundle
        self.batcher = batcher
        self.decoder = decoder
        self._closing = threading.Lock()
        self._calls = threading.Condition()
        self._running = 0
        self._closed = False
        self._process = os.getpid()

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the graph should answer for one picture: logits and a description."""
        manifest = self.bundle.manifest
        in_graph = manifest.payload_bits if self.decoder is None else 0
        return (in_graph,), manifest.description_shape

    def logits(self, given: Given) -> tuple[Logits, Descriptions]:
        """Decoder logits (N, bits) and descriptions (N, ...) of pictures of any kind and size."""
        size = self.bundle.manifest.graph_size
        with self._call():
            if given.single:
                [picture] = given
                row = self.batcher.submit(picture.to_bytes(size)).result()
                return self._decoded([picture], row.decoded[None]), row.description[None]
            parts = []
            for part in given.parts(self.batcher.max_batch):
                images = np.stack([picture.to_bytes(size) for picture in part])
                decoded, described = run_in_parts(self.batcher.runtime, images, len(part))
                parts.append((self._decoded(part, decoded), described))
        if not parts:
            manifest = self.bundle.manifest
            nothing = ((manifest.payload_bits,), manifest.description_shape)
            decoded, described = (np.empty((0, *shape), np.float32) for shape in nothing)
            return decoded, described
        decoders, descriptions = zip(*parts, strict=True)
        return np.concatenate(decoders), np.concatenate(descriptions)

    def decoded_in(self, picture: Picture, frame: Frame) -> Logits:
        """The decoder logits (bits,) of a picture put back in its place in a frame."""
        manifest = self.bundle.manifest
        there = put_back(picture, manifest.size if self.decoder else manifest.graph_size, frame)
        with self._call():
            if self.decoder is not None:
                return self.decoder.decode([there])[0]
            return self.batcher.submit(there.pixels).result().decoded

    def _decoded(self, pictures: Sequence[Picture], decoded: Logits) -> Logits:
        """What the graph decoded, or the plugin that decodes instead of it."""
        return decoded if self.decoder is None else self.decoder.decode(pictures)

    def warm_up(self, batch: int) -> None:
        """Run a blank batch, and check that the graph answers as the manifest says."""
        images = np.zeros((batch, *self.bundle.manifest.graph_size, 3), dtype=np.uint8)
        with self._call():
            decoded, described = run_in_parts(self.batcher.runtime, images, self.batcher.max_batch)
        if (decoded.shape[1:], described.shape[1:]) != self.shapes:
            raise BundleError(
                f"the graph of {self.bundle.path} answers with arrays of {decoded.shape[1:]} and "
                f"{described.shape[1:]}, but its manifest says {self.shapes[0]} and "
                f"{self.shapes[1]}: export it again"
            )

    def close(self) -> None:
        """Wait for calls in progress, refuse new ones, and close the runtime.

        Whoever closes while another thread does waits for it; closing twice does no harm.
        """
        if self._process != os.getpid():
            return  # nothing of it works in a fork, and the parent closes its own
        with self._closing:
            if self._closed:
                return
            with self._calls:
                self._closed = True
                self._calls.wait_for(lambda: self._running == 0)
            self.batcher.close()
            self.batcher.runtime.close()

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """A use of the runtime, which is not closed until it is over."""
        if self._process != os.getpid():
            raise CoverLockError(
                "a verifier does not survive a fork, because its threads do not: open the bundle "
                "in each process, after the fork (with gunicorn, in post_fork or without --preload)"
            )
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
