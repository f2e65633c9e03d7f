"""What an audit runs: its size, its attacks, its defences, and the options that choose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from coverlock_bench.attacks.reembedding import AGAINST_LOCKS
from coverlock_bench.settings import KEYLESS, LOCK, Setting
from coverlock_sdk import load_distortion
from coverlock_sdk.cli.options import together
from coverlock_sdk.images.distortions import EVALUATION, Distortion
from coverlock_sdk.locking.coverlock import DEFAULT_FPR
from coverlock_sdk.plugin_manager import BUILTIN, plugin_manager

DEFENSES = ("none", LOCK, KEYLESS)


@dataclass(frozen=True)
class Preset:
    """Sizes of a security measurement; if there are too few pictures, it uses all."""

    name: str
    pairs: int
    """Number of sources, and of targets."""
    attacks: dict[str, int]
    """Attacks, and how many targets each forges at most."""
    rt_sources: tuple[int, ...]
    rt_targets: int
    rt_messages: int

    @property
    def pictures(self) -> int:
        """The most pictures that are used."""
        return max(2 * self.pairs, max(self.rt_sources) + self.rt_targets)

    @property
    def naturals(self) -> int:
        """More, unmarked pictures, for attackers who bring their own."""
        return self.pairs


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
        ),
        Preset(
            name="standard",
            pairs=100,
            attacks={
                "gt": 100,
                "averaging": 100,
                "wmforger": 50,
                "denoise": 50,
                "re-embedding": 100,
                "re-locking": 100,
                "optimisation": 50,
            },
            rt_sources=(1, 10, 100),
            rt_targets=100,
            rt_messages=20,
        ),
        Preset(
            name="full",
            pairs=1000,
            attacks={
                "gt": 1000,
                "averaging": 1000,
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
        ),
    )
}


@dataclass(frozen=True)
class Plan:
    """What to run: sizes, attacks, defences and the false-positive rate."""

    preset: Preset
    attacks: dict[Setting, int]
    """Attacks, and how many targets each forges at most."""
    defenses: tuple[Setting, ...]
    fpr: float
    distortions: Mapping[str, Distortion]

    @classmethod
    def of(
        cls,
        preset: str,
        attacks: Sequence[str] = (),
        defenses: Sequence[str] = (),
        fpr: float = DEFAULT_FPR,
        distortions: Sequence[str] = (),
    ) -> Plan:
        """The named attacks and defences; by default, those of the preset and both locks.

        Distortions are the paper's six and those of plugins, unless some are named.
        """
        size = PRESETS[preset]
        counts = dict.fromkeys(attacks, size.pairs) if attacks else size.attacks
        plan = cls(
            size,
            {Setting.parse(text): count for text, count in counts.items()},
            tuple(map(Setting.parse, defenses or DEFENSES)),
            fpr,
            {n: load_distortion(n) for n in distortions or (*EVALUATION, *_of_plugins())},
        )
        for role, settings in (("attack", plan.attacks), ("defense", plan.defenses)):
            for setting in settings:
                plugin_manager().get(role, setting.name)  # the error lists what there is
        return plan

    def attacks_on(self, defense: Setting) -> dict[Setting, int]:
        """The attacks that make sense against a defence: some only attack CoverLock itself."""
        return {
            attack: count
            for attack, count in self.attacks.items()
            if defense.name == LOCK or attack.name not in AGAINST_LOCKS
        }

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "preset": asdict(self.preset),
            "attacks": {str(attack): count for attack, count in self.attacks.items()},
            "defenses": [str(defense) for defense in self.defenses],
            "fpr": self.fpr,
            "distortions": list(self.distortions),
        }


def _of_plugins() -> list[str]:
    plugins = [plugin for plugin in plugin_manager().plugins if plugin.name != BUILTIN]
    return [name for plugin in plugins for name in plugin.registered.get("distortion", ())]


SETTINGS = ", as NAME or NAME:OPTION=VALUE,... Repeatable."
plan_options = together(
    click.option(
        "--preset",
        type=click.Choice(list(PRESETS)),
        default="standard",
        show_default=True,
        help="How much to measure. A small network on one core takes one to four minutes (smoke), "
        "an hour (standard) or a night (full).",
    ),
    click.option(
        "-a",
        "--attack",
        "attacks",
        multiple=True,
        show_default="those of the preset",
        help=f"Attack{SETTINGS}",
    ),
    click.option(
        "-d",
        "--defense",
        "defenses",
        multiple=True,
        show_default=", ".join(DEFENSES),
        help=f"Defence{SETTINGS}",
    ),
    click.option(
        "--distortion",
        "distortions",
        multiple=True,
        show_default="the paper's six, and those of plugins",
        help="Distortion by name. Repeatable.",
    ),
    click.option("--fpr", default=DEFAULT_FPR, show_default=True, help="False-positive rate."),
)
"""The options that set how much is measured; ``Plan.of`` takes them."""
