"""The things to time, each as a function without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.utils import Extractor

from coverlock_bench.deployment.latency.subjects import MESSAGE, Subject
from coverlock_sdk import Verifier
from coverlock_sdk.arrays import Logits, Pixels
from coverlock_sdk.bundles.bundle import INPUT, OUTPUTS
from coverlock_sdk.errors import RuntimeUnavailableError
from coverlock_sdk.images.codecs import decode_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.locking.lock import Lock
from coverlock_sdk.verifier.onnx_runtime import cpu_session
from coverlock_sdk.verifier.runtimes import RUNTIMES

REFERENCE = ("torch", "fp32")
"""What everything is compared with."""

Run = Callable[[Pixels], tuple[Logits, Any]]


@dataclass(frozen=True)
class Case:
    """One stage of verification, by one runtime in one precision, for one batch size."""

    subject: str
    stage: str
    runtime: str
    precision: str
    batch: int
    work: Callable[[], Any]
    info: dict[str, Any]

    @property
    def id(self) -> str:
        """A name that is the same in every run."""
        return f"{self.subject}-{self.stage}-{self.runtime}-{self.precision}-b{self.batch}"


class Cases:
    """All cases of some subjects, and why a runtime has none."""

    def __init__(self, batches: tuple[int, ...], precisions: tuple[str, ...], threads: int) -> None:
        self.batches = batches
        self.precisions = precisions
        self.threads = threads
        self.all: list[Case] = []
        self.left_out: dict[str, str] = {}
        self._verifiers: list[Verifier] = []

    def close(self) -> None:
        """Give the runtimes back."""
        for verifier in self._verifiers:
            verifier.close()

    def add(self, subject: Subject) -> None:
        """Everything there is to time about ``subject``."""
        import torch

        torch.set_num_threads(self.threads)
        manifest = subject.bundle.manifest
        lock = subject.lock.lock
        for batch in self.batches:
            files = subject.jpegs[:batch]
            decoded = [decode_image(file) for file in files]
            images = _at_size(decoded, manifest.graph_size)
            self._add_host(subject, batch, files, decoded, images, lock)
            for name, info, run in self._networks(subject):
                stage, runtime, precision = name
                self._put(subject, stage, runtime, precision, batch, _bound(run, images), info)
            self._add_torch_end_to_end(subject, batch, files, lock)
        for runtime in RUNTIMES:
            for precision in self.precisions:
                if precision in manifest.graphs["verify"]:
                    self._add_runtime(subject, runtime, precision)

    def _put(
        self,
        subject: Subject,
        stage: str,
        runtime: str,
        precision: str,
        batch: int,
        work: Callable[[], Any],
        info: dict[str, Any],
    ) -> None:
        self.all.append(Case(subject.name, stage, runtime, precision, batch, work, info))

    def _add_host(
        self,
        subject: Subject,
        batch: int,
        files: tuple[bytes, ...],
        decoded: list[Any],
        images: Pixels,
        lock: Lock,
    ) -> None:
        size = subject.bundle.manifest.graph_size
        logits = _torch_run(subject)(images)
        for stage, work in {
            "decode": lambda: [decode_image(file) for file in files],
            "resize": lambda: _at_size(decoded, size),
            "statistics": lambda: lock.verify(*logits, MESSAGE),
        }.items():
            self._put(subject, stage, "host", "-", batch, work, {})

    def _networks(self, subject: Subject) -> Iterator[tuple[tuple[str, str, str], Any, Any]]:
        """The two networks together and apart, before export and after it."""
        content = subject.bundle.read(subject.bundle.file("verify", "fp32"))
        yield ("network", *REFERENCE), {}, _torch_run(subject)
        for stage, output in zip(("decoder", "hash"), OUTPUTS, strict=True):
            yield (stage, *REFERENCE), {}, _torch_run(subject, stage)
            session = cpu_session(_only(content, output), self.threads)
            yield (stage, "cpu", "fp32"), {}, _session_run(session)

    def _add_torch_end_to_end(
        self, subject: Subject, batch: int, files: tuple[bytes, ...], lock: Lock
    ) -> None:
        size, run = subject.bundle.manifest.graph_size, _torch_run(subject)

        def work() -> Any:
            return lock.verify(*run(_at_size(list(files), size)), MESSAGE)

        self._put(subject, "end to end", *REFERENCE, batch, work, {})

    def _add_runtime(self, subject: Subject, runtime: str, precision: str) -> None:
        try:
            verifier = Verifier.open(
                subject.bundle,
                runtime,
                precision=precision,
                threads=self.threads,
                max_batch=max(self.batches),  # all are open at once, and memory is finite
            )
        except RuntimeUnavailableError as error:
            # A result file is read elsewhere, where this folder means nothing.
            reason = str(error).replace(str(subject.bundle.path), "the bundle")
            self.left_out[f"{subject.name} on {runtime} in {precision}"] = reason
            return
        self._verifiers.append(verifier)
        name = subject.bundle.file("verify", precision)
        info = {
            "providers": list(verifier.runtime.providers),
            "graph": {name: subject.bundle.manifest.files[name]},
        }
        for batch in self.batches:
            files = subject.jpegs[:batch]
            images = _at_size(list(files), subject.bundle.manifest.graph_size)
            network = _bound(verifier.runtime.run, images)
            self._put(subject, "network", runtime, precision, batch, network, info)
            self._put(
                subject, "end to end", runtime, precision, batch, _whole(verifier, files), info
            )


def _whole(verifier: Verifier, files: tuple[bytes, ...]) -> Callable[[], Any]:
    return lambda: verifier.verify(list(files), MESSAGE)


def _bound(run: Run, images: Pixels) -> Callable[[], Any]:
    return lambda: run(images)


def _at_size(pictures: list[Any], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    return np.stack([read(picture).to_bytes(size) for picture in pictures])


def _torch_run(subject: Subject, stage: str = "network") -> Run:
    """PyTorch in eager mode: both networks, or one of them behind its own preprocessing."""
    import torch

    network = subject.network

    def run(images: Pixels) -> Any:
        with torch.inference_mode():
            pixels = torch.from_numpy(images)
            if stage == "network":
                return tuple(logits.numpy() for logits in network(pixels))
            pictures = network.preprocessing(pixels)
            if stage == "decoder":
                return network.decoder(pictures).numpy()
            return network.hash(network.resampling(pictures)).numpy()

    return run


def _session_run(session: Any) -> Any:
    return lambda images: session.run(None, {INPUT: images})


def _only(content: bytes, output: str) -> bytes:
    """The part of a graph that one output needs."""
    part = Extractor(onnx.load_from_string(content)).extract_model([INPUT], [output])
    serialised: bytes = part.SerializeToString()
    return serialised
