"""How much is measured: a minute, two hours, or the paper's sizes."""

from __future__ import annotations

from dataclasses import dataclass

from coverlock_bench.settings import KEYLESS, LOCK, UNHARDENED, Setting

DEFENSES = ("none", "convnext", "mhdw", LOCK, KEYLESS)
WITH_UNHARDENED = (*DEFENSES, UNHARDENED)


@dataclass(frozen=True)
class Preset:
    """Sizes of a security measurement; where pictures run short, all there are."""

    name: str
    pairs: int
    """Sources, and as many targets."""
    attacks: dict[str, int]
    """Attacks, and how many targets each forges at most."""
    rt_sources: tuple[int, ...]
    rt_targets: int
    rt_messages: int
    locked_sources: int
    seeds: tuple[int, ...]
    variants: tuple[str, ...]
    """Further settings of CoverLock, of which only the trade-off is measured."""
    defenses: tuple[str, ...] = DEFENSES
    """Those that are at hand are put to every attack."""

    @property
    def pictures(self) -> int:
        """Pictures after which more would not be used."""
        curve = max(self.rt_sources) + self.rt_targets
        return max(2 * self.pairs, curve, self.locked_sources + self.rt_targets)

    @property
    def naturals(self) -> int:
        """Unmarked pictures beyond those, for attackers who bring their own."""
        return self.pairs

    def settings(self) -> dict[Setting, int]:
        """The attacks as settings, with their number of targets."""
        return {Setting.parse(text): count for text, count in self.attacks.items()}


PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            name="smoke",
            pairs=12,
            attacks={
                "gt": 12,
                "averaging:references=10": 12,
                "wmforger": 3,
                "denoise": 6,
                "re-embedding": 12,
                "re-locking": 12,
                "optimisation": 2,
            },
            rt_sources=(1, 10),
            rt_targets=8,
            rt_messages=2,
            locked_sources=12,
            seeds=(0,),
            variants=(),
        ),
        Preset(
            name="standard",
            pairs=100,
            attacks={
                "gt": 100,
                "averaging": 100,
                "wmforger": 25,
                "denoise": 25,
                "re-embedding": 100,
                "re-locking": 100,
                "optimisation": 10,
            },
            rt_sources=(1, 10, 100),
            rt_targets=100,
            rt_messages=20,
            locked_sources=100,
            seeds=(0,),
            variants=(),
            defenses=WITH_UNHARDENED,
        ),
        Preset(
            name="full",
            pairs=1000,
            attacks={
                "gt": 1000,
                "averaging": 1000,
                "averaging-paired": 1000,
                "wmforger": 1000,
                "denoise": 1000,
                "gt:sources=100": 1000,
                "re-embedding": 1000,
                "re-locking": 1000,
                "optimisation": 100,
            },
            rt_sources=(1, 10, 100, 1000),
            rt_targets=100,
            rt_messages=20,
            locked_sources=1000,
            seeds=(0, 1, 2),
            variants=("coverlock:hash=phash", "coverlock:hash=pdq"),
            defenses=WITH_UNHARDENED,
        ),
    )
}
