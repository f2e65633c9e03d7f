"""The graph of a bundle at work: pictures in, logits out, from any number of threads."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from coverlock_sdk.arrays import Descriptions, Logits
from coverlock_sdk.bundles.bundle import Bundle
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import BundleError, CoverLockError
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.images.conversion import Given, read
from coverlock_sdk.images.picture import Picture
from coverlock_sdk.images.placing import placed
from coverlock_sdk.verifier.batching import Batcher, run_in_parts
from coverlock_sdk.verifier.host_decoder import open_decoder
from coverlock_sdk.verifier.runtimes import Runtime


class GraphRunner:
    """Runs one picture together with those of other threads, and many as batches of their own."""

    def __init__(
        self,
        bundle: Bundle,
        runtime: Runtime,
        max_batch: int,
        max_delay_ms: float,
        max_queue: int,
        watermark: Watermark | None = None,
    ) -> None:
        self.bundle = bundle
        self.runtime = runtime
        self.decoder = open_decoder(bundle.manifest, watermark)
        self.max_batch = max_batch
        self._batcher = Batcher(runtime, max_batch, max_delay_ms, max_queue)
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
                row = self._batcher.submit(picture.to_bytes(size)).result()
                return self._decoded([picture], row.decoded[None]), row.description[None]
            parts = []
            for part in given.parts(self.max_batch):
                images = np.stack([picture.to_bytes(size) for picture in part])
                decoded, described = run_in_parts(self.runtime, images, len(part))
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
        size = picture.size if self.decoder is not None else self.bundle.manifest.graph_size
        pixels = np.moveaxis(placed(picture.view(size), frame), 0, -1)
        image = np.rint(pixels * np.float32(255)).astype(np.uint8)
        with self._call():
            if self.decoder is not None:
                return self.decoder.decode([read(image)])[0]
            return self._batcher.submit(np.ascontiguousarray(image)).result().decoded

    def _decoded(self, pictures: Sequence[Picture], decoded: Logits) -> Logits:
        """What the graph decoded, or the plugin that decodes instead of it."""
        return decoded if self.decoder is None else self.decoder.decode(pictures)

    def warm_up(self, batch: int) -> None:
        """Run a blank batch, and check that the graph answers as the manifest says."""
        images = np.zeros((batch, *self.bundle.manifest.graph_size, 3), dtype=np.uint8)
        with self._call():
            decoded, described = run_in_parts(self.runtime, images, self.max_batch)
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
            self._batcher.close()
            self.runtime.close()

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
