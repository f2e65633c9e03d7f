"""Micro-batching: pictures that arrive one by one are run together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coverlock_sdk.arrays import Descriptions, Logits, Pixels
from coverlock_sdk.errors import CoverLockError, OverloadedError
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
        self._runtime = runtime
        self._max_batch = max_batch
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
                _answer(self._runtime, images, answers)
            if last:
                return

    def _collect(
        self, first: tuple[Pixels, Future[Row]]
    ) -> tuple[list[tuple[Pixels, Future[Row]]], bool]:
        """A batch that begins with ``first``, and whether it is the last one."""
        batch = [first]
        deadline = time.monotonic() + self._max_delay
        while len(batch) < self._max_batch:
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
