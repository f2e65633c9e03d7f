"""The filter: a picture must carry its message *and* look genuine to a ConvNeXt.

The paper's classifier baseline (section 5 and appendix G). For each watermark a classifier learns
genuine marked pictures against forgeries with the true residual. It knows the forgeries that it
was shown; the paper finds that it does not carry over to others.

``network`` is ConvNeXt itself, which VINE's decoder and the preference model share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk.contract import Defense, Logits, ProtectedWatermark, Watermark
from coverlock_sdk.errors import CoverLockError, MissingModelError
from coverlock_sdk.hookspecs import Register, hookimpl
from coverlock_sdk.images.picture import read_batch
from coverlock_sdk.locking.judging import announce
from coverlock_sdk.locking.lock import DEFAULT_FPR, DEFAULT_RULE, BoundWatermark
from coverlock_sdk.locking.verdict import Rule, Verdict
from coverlock_sdk.models.assets import cache_folder

if TYPE_CHECKING:
    import click

    from coverlock_plugins.convnext.classifiers import Classifier

SHIPPED = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class ConvNeXtFilter(Defense):
    """Watermark verification, and a classifier that has to agree."""

    name: ClassVar[str] = "convnext"

    fpr: float = DEFAULT_FPR
    rule: Rule = DEFAULT_RULE
    threshold: float = 0.5
    """Probability of being genuine that a picture must reach; sweep it for the trade-off."""
    backbone: str = "convnext"
    """Which of the trained classifiers: convnext, resnet or features."""
    weights: str | Path | None = None
    """A filter of your own, instead of the installed one."""

    def protect(self, watermark: Watermark) -> FilteredWatermark:
        """Put ``watermark`` behind the classifier that was trained for it."""
        if not 0 <= self.threshold <= 1:
            raise CoverLockError(f"a threshold is a probability, not {self.threshold}")
        path = Path(self.weights) if self.weights else find_filter(watermark.name, self.backbone)
        try:
            from coverlock_plugins.convnext.training import load_classifier
        except ModuleNotFoundError as error:
            raise MissingModelError(
                "the ConvNeXt filter needs PyTorch: pip install 'coverlock-sdk[torch]'"
            ) from error
        bare = _Unannounced(watermark, None, None, self.fpr, self.rule, rounds=1)
        return FilteredWatermark(bare, load_classifier(path, watermark.name), self.threshold)


class FilteredWatermark(ProtectedWatermark):
    """A watermark as its vendor made it, and a classifier's opinion of each picture."""

    def __init__(self, bare: BoundWatermark, classifier: Classifier, threshold: float) -> None:
        self.watermark, self.bits, self.fpr = bare.watermark, bare.bits, bare.fpr
        self.threshold = threshold
        self._bare, self._classifier = bare, classifier

    def embed(self, pictures: Any, messages: Any) -> Any:
        """Return ``pictures`` carrying ``messages``; the filter has no part in it."""
        return self._bare.embed(pictures, messages)

    def decode(self, pictures: Any) -> Logits:
        """Return the logits (N, bits) of the messages that ``pictures`` seem to carry."""
        logits: Logits = self._bare.decode(pictures)
        return logits

    def scores(self, pictures: Any) -> npt.NDArray[np.float64]:
        """The probability that each picture is genuine, to try many thresholds on."""
        from coverlock_plugins.convnext.training import scores

        return scores(self._classifier, read_batch(pictures).views(self.watermark.native_size))

    def verify(self, pictures: Any, messages: Any) -> Any:
        """Accept a picture that carries its message and scores at least the threshold."""
        verdicts = self._bare.verify(pictures, messages)
        single = isinstance(verdicts, Verdict)
        genuine = self.scores(pictures) >= self.threshold
        filtered = [
            replace(verdict, accepted=verdict.accepted and bool(passed))
            for verdict, passed in zip([verdicts] if single else verdicts, genuine, strict=True)
        ]
        announce(filtered, pictures, self.watermark.name, None)
        return filtered[0] if single else filtered


class _Unannounced(BoundWatermark):
    """Its verdicts are not the last word, so nobody hears of them."""

    def _announce(self, verdicts: Sequence[Verdict], pictures: Any) -> None:
        pass


def find_filter(watermark: str, backbone: str) -> Path:
    """The filter trained for ``watermark``: one of the user's, else one that ships."""
    name = f"{watermark}-{backbone}.safetensors"
    for folder in (cache_folder() / "filters", SHIPPED):
        if (folder / name).is_file():
            return folder / name
    raise MissingModelError(
        f"there is no {backbone} filter for the watermark '{watermark}': train one with "
        f"'coverlock train filter {watermark} PHOTOS --run RUN --backbone {backbone}'"
    )


def install_filter(written: Path, watermark: str, backbone: str) -> Path:
    """Put a trained filter where ``find_filter`` looks first."""
    folder = cache_folder() / "filters"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{watermark}-{backbone}.safetensors"
    for suffix in (".safetensors", ".json"):
        target.with_suffix(suffix).write_bytes(written.with_suffix(suffix).read_bytes())
    return target


@hookimpl
def register_defenses(register: Register) -> None:
    """Offer the defence under its name."""
    register(ConvNeXtFilter)


@hookimpl
def register_commands(cli: click.Group) -> None:
    """Add ``coverlock train filter``."""
    import click as clicks

    from coverlock_plugins.convnext.command import train_filter

    train = cli.commands["train"]
    assert isinstance(train, clicks.Group)
    train.add_command(train_filter)
