"""Conditions under which a CI job should fail: ``asr>0.01``."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

from coverlock_sdk.errors import CoverLockError

_OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_CONDITION = re.compile(r"\s*([^\s<>]+?)\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True)
class Condition:
    """A metric, a comparison and a bound; the audit fails where it holds."""

    metric: str
    comparison: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read ``METRIC>BOUND``; also with >=, < and <=."""
        match = _CONDITION.fullmatch(text)
        try:
            metric, comparison, bound = match.groups() if match else ("", "", "")
            return cls(metric, comparison, float(bound))
        except ValueError:
            raise CoverLockError(
                f"'{text}' is not a condition: write METRIC, one of > >= < <=, and a number, "
                "as in asr>0.01"
            ) from None

    def __str__(self) -> str:
        return f"{self.metric}{self.comparison}{self.bound:g}"

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Whether the condition is met; a metric that was not measured is an error, not a pass."""
        if self.metric not in metrics:
            raise CoverLockError(
                f"the condition '{self}' cannot be decided: '{self.metric}' was not measured; "
                f"there are {', '.join(metrics)}"
            )
        return bool(_OPERATORS[self.comparison](metrics[self.metric], self.bound))
