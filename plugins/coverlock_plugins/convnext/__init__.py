"""The filter: a picture must carry its message *and* look genuine to a ConvNeXt.

The paper's classifier baseline (section 5 and appendix G). For each watermark a classifier learns
genuine marked pictures against forgeries with the true residual. It knows the forgeries that it
was shown; the paper finds that it does not carry over to others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from coverlock_sdk import (
    CoverLockError,
    Defense,
    LockedWatermark,
    NoDefense,
    ProtectedWatermark,
    Watermark,
    hookimpl,
)
from coverlock_sdk.errors import MissingModelError, needs
from coverlock_sdk.hookspecs import Register
from coverlock_sdk.images.conversion import Given
from coverlock_sdk.images.picture import stacked_views
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.locking.statistics import Rule
from coverlock_sdk.models.assets import cache_folder
from coverlock_sdk.plugin_calls import working_size

if TYPE_CHECKING:
    from coverlock_plugins.convnext.classifier import Classifier


@dataclass(frozen=True)
class ConvNeXtFilter(Defense):
    """Watermark verification, and a classifier that has to agree."""

    name: ClassVar[str] = "convnext"

    fpr: float = DEFAULT_FPR
    rule: Rule = "soft"
    threshold: float = 0.5
    """Probability of being genuine that a picture must reach; sweep it for the trade-off."""
    weights: str | Path | None = None
    """A filter of your own, instead of the installed one."""

    def protect(self, watermark: Watermark) -> FilteredWatermark:
        """Put ``watermark`` behind the classifier that was trained for it."""
        if not 0 <= self.threshold <= 1:
            raise CoverLockError(f"a threshold is a probability, not {self.threshold}")
        path = Path(self.weights) if self.weights else find_filter(watermark.name)
        with needs("the ConvNeXt filter", "PyTorch", "torch"):
            from coverlock_plugins.convnext.classifier import load_classifier
        bare = NoDefense(self.fpr, self.rule).protect(watermark)
        return FilteredWatermark(bare, load_classifier(path, watermark.name), self.threshold)


class FilteredWatermark(ProtectedWatermark):
    """A watermark as its vendor made it, and a classifier's opinion of each picture."""

    def __init__(self, bare: LockedWatermark, classifier: Classifier, threshold: float) -> None:
        self.watermark, self.threshold = bare.watermark, threshold
        self._bare, self._classifier = bare, classifier

    @property
    def bits(self) -> int:
        """Length of a message."""
        return self._bare.bits

    @property
    def fpr(self) -> float:
        """Probability with which an unmarked picture may be accepted."""
        return self._bare.fpr

    def embed(self, pictures: Any, messages: Any) -> Any:
        """Return ``pictures`` carrying ``messages``; the filter has no part in it."""
        return self._bare.embed(pictures, messages)

    def decode(self, pictures: Any) -> Any:
        """Return the logits (N, bits) of the messages that ``pictures`` seem to carry."""
        return self._bare.decode(pictures)

    def scores(self, pictures: Any) -> npt.NDArray[np.float64]:
        """The probability that each picture is genuine, to try many thresholds on."""
        from coverlock_plugins.convnext.classifier import scores

        size = working_size(self.watermark)
        return scores(self._classifier, stacked_views(list(Given(pictures)), size))

    def verify(self, pictures: Any, messages: Any) -> Any:
        """Accept a picture that carries its message and scores at least the threshold."""
        given = Given(pictures)
        verdicts = self._bare.lock.verify(*self._bare.logits(pictures), messages)
        genuine = self.scores(pictures) >= self.threshold
        filtered = [
            replace(verdict, accepted=verdict.accepted and bool(passed))
            for verdict, passed in zip(verdicts, genuine, strict=True)
        ]
        self._bare.announce(filtered, given)
        return filtered[0] if given.single else filtered


def filter_of(watermark: str) -> Path:
    """Where the filter for ``watermark`` is installed."""
    return cache_folder() / "filters" / f"{watermark}-convnext.safetensors"


def find_filter(watermark: str) -> Path:
    """The filter that was trained for ``watermark``."""
    path = filter_of(watermark)
    if path.is_file():
        return path
    raise MissingModelError(
        f"there is no filter for the watermark '{watermark}': train one with "
        f"'python -m experiments filter {watermark} PHOTOS --run RUN'"
    )


def install_filter(written: Path, watermark: str) -> Path:
    """Put a trained filter where ``find_filter`` looks."""
    target = filter_of(watermark)
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".safetensors", ".json"):
        target.with_suffix(suffix).write_bytes(written.with_suffix(suffix).read_bytes())
    return target


@hookimpl
def register_defenses(register: Register) -> None:
    """Offer the defence under its name."""
    register(ConvNeXtFilter)
