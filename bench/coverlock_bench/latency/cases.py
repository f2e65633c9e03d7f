"""The things to time, each as a function without arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coverlock_bench.latency.subjects import MESSAGE, Subject
from coverlock_sdk import Embedder, Settings, Verifier
from coverlock_sdk.arrays import Pixels
from coverlock_sdk.bundles.signing import ANYONE
from coverlock_sdk.errors import RuntimeUnavailableError
from coverlock_sdk.images.codecs import load_image
from coverlock_sdk.images.conversion import read
from coverlock_sdk.verifier.runtimes import RUNTIMES

REFERENCE = ("torch", "fp32")
"""The baseline of every comparison."""
HOST = ("host", "-")


@dataclass(frozen=True)
class Case:
    """One stage of verification, by one runtime in one precision, for one batch size."""

    subject: Subject
    stage: str
    runtime: str
    precision: str
    batch: int
    work: Callable[[], Any]

    def __str__(self) -> str:
        """The case's name in pytest."""
        runner = f"{self.runtime}-{self.precision}"
        return f"{self.subject.name}-{self.stage}-{runner}-b{self.batch}"


class Cases:
    """All cases of some subjects, and why some runtimes have none."""

    def __init__(self, batches: tuple[int, ...], precisions: tuple[str, ...], threads: int) -> None:
        self.batches = batches
        self.precisions = precisions
        self.threads = threads
        self.all: list[Case] = []
        self.left_out: dict[str, str] = {}
        self.runtimes: dict[str, dict[str, Any]] = {}
        """What ran each subject, by the names of the subject, the runtime and the precision."""
        self._verifiers: list[Verifier] = []

    def close(self) -> None:
        """Close the runtimes."""
        for verifier in self._verifiers:
            verifier.close()

    def add(self, subject: Subject) -> None:
        """Everything there is to time about ``subject``."""
        import torch

        torch.set_num_threads(self.threads)
        self.runtimes[subject.name] = {}
        for batch in self.batches:
            self._add_torch(subject, batch)
        for runtime in RUNTIMES:
            for precision in self.precisions:
                if precision in subject.bundle.manifest.graphs["verify"]:
                    self._add_runtime(subject, runtime, precision)
        if "embed" in subject.bundle.manifest.graphs:
            key = subject.lock.keyring
            embedder = Embedder.open(subject.bundle, key=key, trust=ANYONE, threads=self.threads)
            work = partial(embedder.mark_content, subject.jpegs[0], MESSAGE, ".png")
            self.all.append(Case(subject, "embed", "cpu", "fp32", 1, work))

    def _add_torch(self, subject: Subject, batch: int) -> None:
        """The stages of verification one by one on the host, and all together with PyTorch."""
        lock, size = subject.lock.lock, subject.bundle.manifest.graph_size
        files = list(subject.jpegs[:batch])
        decoded = [load_image(file) for file in files]
        images = _at_size(decoded, size)
        logits = subject.run(images)
        stages: dict[str, tuple[tuple[str, str], Callable[[], Any]]] = {
            "decode": (HOST, lambda: [load_image(file) for file in files]),
            "resize": (HOST, lambda: _at_size(decoded, size)),
            "statistics": (HOST, lambda: lock.verify(*logits, MESSAGE)),
            "network": (REFERENCE, lambda: subject.run(images)),
            "end to end": (
                REFERENCE,
                lambda: lock.verify(*subject.run(_at_size(files, size)), MESSAGE),
            ),
        }
        for stage, (runner, work) in stages.items():
            self.all.append(Case(subject, stage, *runner, batch, work))

    def _add_runtime(self, subject: Subject, runtime: str, precision: str) -> None:
        try:
            # All are open at once, which may exceed the memory.
            settings = Settings(precision, threads=self.threads, max_batch=max(self.batches))
            key = subject.lock.keyring
            verifier = Verifier.open(subject.bundle, runtime, key=key, settings=settings)
        except RuntimeUnavailableError as error:
            # Result files are read on other machines, where this folder means nothing.
            reason = str(error).replace(str(subject.bundle.path), "the bundle")
            self.left_out[f"{subject.name} on {runtime} in {precision}"] = reason
            return
        self._verifiers.append(verifier)
        name = subject.bundle.file("verify", precision)
        self.runtimes[subject.name][f"{runtime} {precision}"] = {
            "providers": list(verifier.runtime.providers),
            "graph": {name: subject.bundle.manifest.files[name]},
        }
        for batch in self.batches:
            files = list(subject.jpegs[:batch])
            images = _at_size(files, subject.bundle.manifest.graph_size)
            network = partial(verifier.runtime.run, images)
            whole = partial(verifier.verify, files, MESSAGE)
            self.all += [
                Case(subject, "network", runtime, precision, batch, network),
                Case(subject, "end to end", runtime, precision, batch, whole),
            ]


def _at_size(pictures: list[Any], size: tuple[int, int]) -> Pixels:
    return np.stack([read(picture).to_bytes(size) for picture in pictures])
