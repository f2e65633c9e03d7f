"""OmniSeal Bench: our watermarks as its models, and its models as watermarks for the audit.

A card in the folder that ``OMNISEAL_MODEL_DIR`` names makes a model of ours known there;
``coverlock bench omniseal-cards`` writes cards. ``coverlock audit omniseal:NAME`` audits one of
theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coverlock_bench.bridges.subject import Subject, bits_of
from coverlock_sdk.arrays import Bits, Images, Logits
from coverlock_sdk.contract import Watermark
from coverlock_sdk.errors import MissingModelError, PluginError
from coverlock_sdk.files import write_atomically
from coverlock_sdk.loading import DEFAULT_HASH

if TYPE_CHECKING:
    import torch

NAME = "omniseal"
"""What the audit calls models of that project, before a colon and their own name."""
BUILDER = "coverlock_bench.bridges.omniseal.build_model"
ADDRESS = "https://github.com/facebookresearch/omnisealbench"


class OmnisealModel:
    """A generator and a detector in one, for OmniSeal's image tasks."""

    def __init__(self, subject: Subject, device: str) -> None:
        self._subject = subject
        self._device = device
        self.nbits = subject.bits

    def generate_watermark(self, contents: Any, message: Any) -> Any:
        """The pictures with their message, as a batch or a list, whichever came."""
        rows = _rows(message, len(contents), self.nbits)
        pictures = zip(_arrays(contents), rows, strict=True)
        marked = [self._tensor(self._subject.mark(one, row)) for one, row in pictures]
        return self._batch(marked) if hasattr(contents, "shape") else marked

    def detect_watermark(
        self,
        contents: Any,
        detection_threshold: float = 0.0,
        message_threshold: float = 0.0,
        detection_bits: int | None = None,
    ) -> dict[str, torch.Tensor]:
        """Messages, and how sure the decoder is; ``detection_bits`` of them tell presence instead.

        Only a verification says whether a *given* message is there: use ``coverlock verify``.
        """
        logits = np.stack([self._subject.read(picture) for picture in _arrays(contents)])
        read = self._tensor((logits > message_threshold).astype(np.float32))
        if detection_bits:
            return {"detection_bits": read[:, :detection_bits], "message": read[:, detection_bits:]}
        sure = np.array([self._subject.certainty(row) for row in logits], np.float32)
        return {"prediction": self._tensor(sure), "message": read}

    def _tensor(self, values: Images | Logits) -> torch.Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)

    def _batch(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        import torch

        return torch.stack(list(tensors))


def build_model(
    watermark: str = "rivagan", locked: bool = True, hash: str = DEFAULT_HASH, device: str = "cpu"
) -> OmnisealModel:
    """What a card's ``builder_func`` names; the other lines of the card are its parameters."""
    return OmnisealModel(Subject(watermark, locked, hash), device)


def write_cards(folder: Path, watermarks: Sequence[str]) -> list[Path]:
    """Two cards for each watermark, bare and locked, and where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for watermark in watermarks:
        for locked in (False, True):
            suffix = "_locked" if locked else ""
            card = folder / f"coverlock_{watermark.replace('-', '_')}{suffix}.yaml"
            lines = (f"builder_func: {BUILDER}", f'watermark: "{watermark}"')
            text = "\n".join((*lines, f"locked: {str(locked).lower()}", ""))
            write_atomically(card, text.encode())
            cards.append(card)
    return cards


class OmnisealWatermark(Watermark):
    """A model of OmniSeal Bench by its name or card; it answers in bits."""

    native_size = None
    hard_bits = True

    def __init__(self, model: str | None = None) -> None:
        if model is None:
            raise MissingModelError("name a model of OmniSeal Bench: omniseal:NAME")
        try:
            from omnisealbench import get_model
        except ImportError as error:
            raise MissingModelError(
                f"'omniseal:{model}' needs OmniSeal Bench ({error}): install it from {ADDRESS}"
            ) from error
        try:
            self._generator, self._detector = (
                get_model(model, as_type=part) for part in ("generator", "detector")
            )
        except (ValueError, KeyError, OSError, ImportError) as error:
            raise MissingModelError(
                f"OmniSeal Bench cannot build '{model}': {str(error).splitlines()[0]}"
            ) from error
        self.name = f"{NAME}:{model}"
        self.bits = int(getattr(self._detector, "nbits", 0))
        if not self.bits:
            raise PluginError(f"the model '{model}' of OmniSeal Bench does not tell its nbits")

    def embed(self, images: Images, payloads: Bits) -> Images:
        """Ask the generator, one picture after the other."""
        import torch

        generate = self._generator.generate_watermark
        marked = np.empty_like(images)
        for index, (image, payload) in enumerate(zip(images, payloads, strict=True)):
            answer = generate(_as_it_takes(generate, image), torch.from_numpy(payload.astype(int)))
            marked[index] = np.clip(_arrays(answer)[0], 0, 1)
        return marked

    def decode(self, images: Images) -> Logits:
        """Ask the detector, one picture after the other."""
        detect = self._detector.detect_watermark
        return np.stack([self._row(detect(_as_it_takes(detect, image))) for image in images])

    def _row(self, answer: dict[str, Any]) -> Logits:
        """All bits of a message, those that it sets aside for detection included."""
        parts = [answer.get("detection_bits"), answer["message"]]
        found = [np.asarray(part.cpu(), np.float32).ravel() for part in parts if part is not None]
        row = found[-1] if len(found[-1]) == self.bits else np.concatenate(found)
        return (row > 0.5).astype(np.float32)


def _as_it_takes(method: Any, image: Images) -> Any:
    """One picture as a list or a batch, as the method says of its ``contents``."""
    import torch

    wanted = inspect.signature(method).parameters.get("contents")
    picture = torch.from_numpy(np.ascontiguousarray(image))
    in_a_list = wanted is None or "list" in str(wanted.annotation).lower()
    return [picture] if in_a_list else picture[None]


def _arrays(contents: Any) -> list[Images]:
    return [np.asarray(picture.detach().cpu(), np.float32) for picture in contents]


def _rows(message: Any, count: int, length: int) -> list[Bits]:
    """A message for each picture: one that is given alone is for all."""
    if getattr(message, "ndim", 1) == 1:
        return [bits_of(message, length)] * count
    return [bits_of(row, length) for row in message]
