"""What a process needs to know to take part in verifying many pictures.

A job holds paths and plain values only, so that it can be sent to other processes: a key travels
as the path of its file and never as a secret.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.pictures import read
from coverlock_sdk.verdict import Rule, Verdict
from coverlock_sdk.verifier import Verifier

Row = dict[str, Any]
"""What is reported of one picture: file, status (accepted, rejected or error), and the details."""


@dataclass(frozen=True)
class VerificationJob:
    """A bundle, how to open it, and the message to look for."""

    bundle: str
    message: str | tuple[int, ...] | None = None
    """An identifier, or bits; None where each picture comes with an identifier of its own."""
    key_file: str | None = None
    trust: str | None = None
    runtime: str = "auto"
    precision: str = "fp32"
    fpr: float | None = None
    rule: Rule | None = None
    threads: int | None = None
    max_batch: int = 32
    accept_unlocked: bool = False

    def open(self) -> Verifier:
        """A verifier of one's own."""
        return Verifier.open(
            self.bundle,
            self.runtime,
            precision=self.precision,
            key=self.key_file,
            trust=self.trust,
            fpr=self.fpr,
            rule=self.rule,
            threads=self.threads,
            max_batch=self.max_batch,
        )

    def check(self, verifier: Verifier, files: Sequence[str]) -> list[Row]:
        """Verify picture files together; one that cannot be read does not stop the others."""
        opened = [prepare(file, verifier.bundle.manifest.size) for file in files]
        return self.judge(verifier, opened, [self.message] * len(opened))

    def judge(
        self, verifier: Verifier, pictures: Sequence[Prepared], messages: Sequence[Any]
    ) -> list[Row]:
        """Rows for prepared ``pictures``, in their order."""
        good = [(p, m) for p, m in zip(pictures, messages, strict=True) if p.pixels is not None]
        verdicts: list[Verdict] = []
        if good:
            verdicts = verifier.verify_batch(
                [p.pixels for p, _ in good],
                [m if isinstance(m, str) else np.array(m, dtype=np.uint8) for _, m in good],
                accept_unlocked=self.accept_unlocked,
            )
        answers = iter(verdicts)
        return [p.row(next(answers) if p.pixels is not None else None) for p in pictures]


@dataclass(frozen=True)
class Prepared:
    """A picture at the size of the graph, or the reason there is none."""

    file: str
    pixels: npt.NDArray[np.uint8] | None
    error: str | None = None
    warnings: tuple[str, ...] = ()

    def row(self, verdict: Verdict | None) -> Row:
        """The report on this picture."""
        row: Row = {"file": self.file}
        if verdict is None:
            row |= {"status": "error", "error": self.error}
        else:
            status = "accepted" if verdict.accepted else "rejected"
            row |= {"status": status, **verdict.to_dict()}
        return row | {"warnings": list(self.warnings)}


def prepare(file: str, size: tuple[int, int], content: bytes | None = None) -> Prepared:
    """Read a picture, from ``content`` where that is given, and bring it to ``size``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = content if content is not None else os.fspath(file)
            pixels, error = read(source).to_bytes(size), None
        except CoverLockError as problem:
            pixels, error = None, str(problem)
    return Prepared(file, pixels, error, tuple(str(w.message) for w in caught))
