"""Which part of the original picture a picture shows: the hypotheses that verification tries."""

from __future__ import annotations

import math
from typing import NamedTuple


class Frame(NamedTuple):
    """The part of the original frame that a picture shows, its proportions unchanged.

    The original frame is the unit square, whatever the picture's proportions. ``x`` and ``y`` are
    where the picture's centre lies in it, ``side`` is the share of each side that is left, and
    ``turn`` is by how many degrees the picture was turned counter-clockwise. What a turn does to
    the unit square depends on ``aspect``, the picture's width over its height.
    """

    side: float = 1.0
    x: float = 0.5
    y: float = 0.5
    turn: float = 0.0
    aspect: float = 1.0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was cut away or turned."""
        return self[:4] == WHOLE[:4]

    def __str__(self) -> str:
        if self.is_whole:
            return "the whole picture"
        part = f"{self.side**2:.0%} of the picture"
        if abs(self.x - 0.5) + abs(self.y - 0.5) > 0.01:
            part += f" around ({self.x:.0%}, {self.y:.0%})"
        return part + (f", turned by {self.turn:.1f} degrees" if self.turn else "")


WHOLE = Frame()


def straightened(turn: float, aspect: float = 1.0) -> Frame:
    """What is left of a picture that was turned and cut to its proportions without corners."""
    angle = math.radians(abs(turn))
    stretch = math.cos(angle) + math.sin(angle) * max(aspect, 1 / aspect)
    return Frame(side=1 / stretch, turn=turn, aspect=aspect)
