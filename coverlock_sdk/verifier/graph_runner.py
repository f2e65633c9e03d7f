"""Runs a bundle's graph: pictures in, logits out, from any number of threads.

Pictures that arrive one by one run together in a batch.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.bundles.bundle import Bundle
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


_Waiting = tuple[Pixels, Future[Row]]


class Batcher:
    """One thread that collects waiting pictures and runs them as a batch.

    The first picture waits at most ``max_delay_ms`` for others. At most ``max_queue`` pictures
    wait. The next one is refused at once, so that callers learn early of an overload.
    """

    def __init__(
        self, runtime: Runtime, max_batch: int, max_delay_ms: float, max_queue: int
    ) -> None:
        self.runtime = runtime
        self.max_batch = max_batch
        self._max_delay = max_delay_ms / 1000
        self.observe: Callable[[int], None] = lambda pictures: None
        """Called with the number of pictures in each batch."""
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(max_queue)
        self._thread = threading.Thread(target=self._work, name="coverlock-batcher", daemon=True)
        self._thread.start()

    def submit(self, image: Pixels) -> Future[Row]:
        """Queue one picture uint8 (H, W, 3)."""
        answer: Future[Row] = Future()
        try:
            self._waiting.put_nowait((image, answer))
        except queue.Full:
            raise OverloadedError(
                f"{self._waiting.maxsize} pictures are waiting already: try again later, "
                "or open the verifier with a larger max_queue"
            ) from None
        return answer

    def close(self) -> None:
        """Answer the waiting pictures and end the thread; submit nothing after this."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = self._collect(first)
            self.observe(len(batch))
            _answer(self.runtime, batch)

    def _collect(self, first: _Waiting) -> list[_Waiting]:
        """Collect a batch that begins with ``first``."""
        batch = [first]
        deadline = time.monotonic() + self._max_delay
        while len(batch) < self.max_batch:
            try:
                item = self._waiting.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if item is None:
                self._waiting.put(None)  # for after this batch
                break
            batch.append(item)
        return batch


def _answer(runtime: Runtime, batch: Sequence[_Waiting]) -> None:
    try:
        decoded, described = _in_memory(runtime, np.stack([image for image, _ in batch]))
    except BaseException as error:  # the waiting callers must see every error
        for _, answer in batch:
            answer.set_exception(error)
        return
    numbers = _are_numbers(decoded, described)
    for row, (_, answer) in enumerate(batch):
        if numbers[row]:
            answer.set_result(Row(decoded[row], described[row]))
        else:  # an overflow in one picture must not fail the others
            answer.set_exception(_no_numbers(runtime))


def run_batch(runtime: Runtime, images: Pixels) -> tuple[Logits, Descriptions]:
    """Run pictures together, or in parts if memory is short.

    Raises for answers that are not numbers, because they allow no verdict.
    """
    decoded, described = _in_memory(runtime, images)
    if not _are_numbers(decoded, described).all():
        raise _no_numbers(runtime)
    return decoded, described


def _in_memory(runtime: Runtime, images: Pixels) -> tuple[Logits, Descriptions]:
    try:
        return runtime.run(images)
    except MemoryError as error:
        if len(images) == 1:
            raise CoverLockError(
                f"a single picture does not fit into the memory of '{runtime.name}' ({error})"
            ) from error
    halves = [_in_memory(runtime, half) for half in np.array_split(images, 2)]
    decoded, described = zip(*halves, strict=True)
    return np.concatenate(decoded), np.concatenate(described)


def _are_numbers(decoded: Logits, described: Descriptions) -> npt.NDArray[np.bool_]:
    """Which rows are finite: half precision overflows on some pictures only."""
    values = np.hstack([part.reshape(len(part), -1) for part in (decoded, described)])
    return np.asarray(np.isfinite(values).all(axis=1))


def _no_numbers(runtime: Runtime) -> CoverLockError:
    return CoverLockError(
        f"the graph answers with NaN or infinite values on '{runtime.name}': use fp32"
    )


class GraphRunner:
    """Batches single pictures with those of other threads, and runs lists in separate batches.

    If the bundle names a plugin instead of a decoder, ``watermark`` is that plugin with options.
    """

    def __init__(self, bundle: Bundle, batcher: Batcher, watermark: Watermark | None) -> None:
        self.batcher = batcher
        self._bundle = bundle
        self._plugin: Networks | None = None
        if bundle.manifest.plugin is not None:
            self._plugin = Networks(open_plugin(bundle.manifest, watermark), None)
        self._turn = threading.Lock()
        """Guards the plugin, which may not allow two calls at once."""
        self._closing = threading.Lock()
        self._calls = threading.Condition()
        self._running = 0
        self._closed = False
        self._process = os.getpid()

    def logits(self, given: Given) -> tuple[Logits, Descriptions]:
        """Decoder logits (N, bits) and descriptions (N, ...) for pictures of any kind and size."""
        manifest = self._bundle.manifest
        size = manifest.graph_size
        decoders = [np.empty((0, manifest.payload_bits), np.float32)]
        descriptions = [np.empty((0, *manifest.description_shape), np.float32)]
        with self._call():
            if given.single:
                [picture] = given
                row = self.batcher.submit(picture.to_bytes(size)).result()
                return self._decoded([picture], row.decoded[None]), row.description[None]
            for part in given.parts(self.batcher.max_batch):
                images = np.stack([picture.to_bytes(size) for picture in part])
                decoded, described = run_batch(self.batcher.runtime, images)
                decoders.append(self._decoded(part, decoded))
                descriptions.append(described)
        return np.concatenate(decoders), np.concatenate(descriptions)

    def decoded_in(self, picture: Picture, frame: Frame) -> Logits:
        """The decoder logits (bits,) of a picture put back in its place in a frame."""
        manifest = self._bundle.manifest
        there = put_back(picture, manifest.size if self._plugin else manifest.graph_size, frame)
        with self._call():
            if self._plugin is not None:
                return self._decoded([there], np.empty(0, np.float32))[0]
            return self.batcher.submit(there.pixels).result().decoded

    def _decoded(self, pictures: Sequence[Picture], decoded: Logits) -> Logits:
        """The logits from the graph, or from the plugin that decodes instead."""
        if self._plugin is None:
            return decoded
        with self._turn:
            return self._plugin.decoded(self._plugin.views(pictures))

    def warm_up(self, batch: int) -> None:
        """Run a blank batch, and check that the answers have the shapes in the manifest."""
        manifest = self._bundle.manifest
        images = np.zeros((batch, *manifest.graph_size, 3), dtype=np.uint8)
        with self._call():
            decoded, described = run_batch(self.batcher.runtime, images)
        in_graph = manifest.payload_bits if self._plugin is None else 0
        expected = (in_graph,), manifest.description_shape
        if (decoded.shape[1:], described.shape[1:]) != expected:
            raise BundleError(
                f"the graph of {self._bundle.path} answers with arrays of {decoded.shape[1:]} and "
                f"{described.shape[1:]}, but its manifest says {expected[0]} and "
                f"{expected[1]}: export it again"
            )

    def close(self) -> None:
        """Wait for calls in progress, refuse new ones, and close the runtime.

        If another thread is closing it already, wait for that. Closing twice does no harm.
        """
        if self._process != os.getpid():
            return  # it does not work in a fork, and the parent closes its own
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
        """Use the runtime; it stays open until the use ends."""
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
