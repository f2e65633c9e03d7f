"""The tables of the README and the threat model, which take rows from several result files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from coverlock_bench.tables import Row, Table, value_at
from coverlock_sdk.images.distortions import EVALUATION
from experiments.headline import label_of

SYSTEMS = ("mbrs", "cin")
PHOTOS = "coco"
BARE, KEY, REGISTRY = "none", "coverlock", "coverlock, registry"
NOT_MEASURED = "-"

STOLEN = {
    "gt": "forged with the true residual (GT@1)",
    "averaging": "forged by averaging (Yang et al.)",
    "wmforger": "forged by WMForger (our small model)",
}
PATIENT = {
    "hybrid-32": "hybrids with the low frequencies of a marked picture (32 half-waves), `mbrs`",
    "restyled-20": "restyled by gradient at 20 dB, `mbrs`",
}
CROPPED = "genuine, cropped to 80 % of the area at a random place"


def _by_defence(headline: Any) -> dict[str, dict[str, Any]]:
    """For each defence, the figures of each system."""
    found: dict[str, dict[str, Any]] = {BARE: {}, KEY: {}, REGISTRY: {}}
    for system in SYSTEMS:
        for defense, figures in headline[system][PHOTOS].items():
            found[label_of(defense)][system] = figures
    return found


def _count(rate: Mapping[str, Any], alarming: bool = False) -> str:
    """``0 of 60``; in bold if it is alarming and not zero."""
    text = f"{rate['successes']} of {rate['trials']}"
    return f"**{text}**" if alarming and rate["successes"] else text


def _both(by_system: Mapping[str, Any], path: str, alarming: bool = False) -> str:
    """The counts of both systems."""
    return " / ".join(_count(value_at(by_system[each], path), alarming) for each in SYSTEMS)


def mean_of_six(figures: Any) -> float:
    """The share of genuine pictures accepted, over the paper's six distortions."""
    return fmean(figures["genuine"][name]["tpr"]["rate"] for name in EVALUATION)


def _readme(figures: Any) -> Iterator[Row]:
    defended = _by_defence(figures["headline"])
    for attack, label in STOLEN.items():
        path = f"attacks/{attack}/asr"
        yield {"what": label, **{name: _both(by, path) for name, by in defended.items()}}
    for attack, label in PATIENT.items():
        ways = figures["forgers"][attack]
        yield {
            "what": label,
            BARE: NOT_MEASURED,
            KEY: _count(ways["alone"]),
            REGISTRY: _count(ways["registry"]),
        }
    shares = {
        name: " / ".join(f"{100 * mean_of_six(by[each]):.1f} %" for each in SYSTEMS)
        for name, by in defended.items()
    }
    yield {"what": "genuine, mean of six distortions", **shares}
    cropped = "genuine/crop-80-anywhere/tpr"
    yield {"what": CROPPED, **{name: _both(by, cropped) for name, by in defended.items()}}


README = Table(
    "Pictures accepted, without a lock, with it and with a registry",
    _readme,
    (
        ("pictures accepted, `mbrs` / `cin`", "{what}"),
        ("bare", f"{{{BARE}}}"),
        ("locked", f"{{{KEY}}}"),
        ("locked, registry", f"{{{REGISTRY}}}"),
    ),
)

PASTED = {
    "gt": "pastes the true residual of one picture (GT@1)",
    "averaging": "pastes the average of 100 marked pictures",
    "wmforger": "pastes what WMForger removes from one picture (our small model)",
}
INFORMED = {
    "additive-34": "has all networks and payloads, makes the best additive change of 34 dB",
    "additive-31": "the same at 31 dB",
    "hybrid-8": "the same attacker makes a [hybrid](#edits-hybrids-and-restyled-pictures), "
    "cut at 8 half-waves",
    "hybrid-14": "a hybrid, cut at 14 half-waves",
    "hybrid-24": "a hybrid, cut at 24 half-waves",
    "hybrid-32": "a hybrid, cut at 32 half-waves",
    "restyled-25": "restyles a picture by gradient, 25 dB",
    "restyled-20": "the same at 20 dB",
    "edits": "crops, recolours and warps a picture by gradient",
    "card-middle": "lays a text card over the middle of a blurred copy",
    "card-bottom": "lays a text card over the foot of a blurred copy",
}
BOUNDED = {"additive-34": "bound-34", "additive-31": "bound-31"}
REPLACED = ("5", "10", "20")
"""Percent of the area of a marked picture."""


def _threats(figures: Any) -> Iterator[Row]:
    defended, forgers = _by_defence(figures["headline"]), figures["forgers"]
    for attack, label in PASTED.items():
        counts = {
            name: _both(by, f"attacks/{attack}/asr", alarming=name != BARE)
            for name, by in defended.items()
        }
        yield {"what": label, **counts, "source": "[headline]"}
    for attack, label in INFORMED.items():
        ways = forgers[attack]
        bound = forgers.get(BOUNDED.get(attack, ""))
        odds = f"; [bound](#additive-changes) {100 * bound['odds']:.2f} %" if bound else ""
        yield _unmarked(label, ways, odds)
    for percent in REPLACED:
        label = f"replaces the centre of a *marked* picture, {percent} % of the area"
        yield _unmarked(label, forgers[f"genuine-surroundings-{percent}%"])


def _unmarked(label: str, ways: Mapping[str, Any], note: str = "") -> Row:
    """A row of an attack that needs a lock to be tried on."""
    key, registry = (_count(ways[way], alarming=True) for way in ("alone", "registry"))
    cells = {BARE: NOT_MEASURED, KEY: f"{key}{note}", REGISTRY: registry}
    return {"what": label, **cells, "source": "[forgers]"}


THREATS = Table(
    "Attackers, and how many of their forgeries verification accepts",
    _threats,
    (
        ("attacker", "{what}"),
        ("bare watermark", f"{{{BARE}}}"),
        ("key", f"{{{KEY}}}"),
        ("key and registry", f"{{{REGISTRY}}}"),
        ("source", "{source}"),
    ),
)

LEARNERS = {
    "hidden": "has the decoder",
    "originals": "also has the originals",
    "serials": "has the decoder; each picture has its own identifier",
}


def _learners(figures: Any) -> Iterator[Row]:
    for attacker, label in LEARNERS.items():
        if not figures.get(attacker):
            continue
        by_bits = {"64": figures[attacker]} if attacker == "serials" else figures[attacker]
        for bits, rows in by_bits.items():
            for count, row in rows.items():
                found = row.get("hidden", row)
                ways = [found[way]["passed"] for way in ("plain", "steered") if way in found]
                cells = {"what": label, "bits": bits, "pictures": int(count)}
                yield {**cells, "passed": max(ways)}


KEY_LEARNERS = Table(
    "What an attacker learns of a key from released pictures of one identifier",
    _learners,
    (
        ("the attacker", "{what}"),
        ("bits", "{bits}"),
        ("released pictures", "{pictures:,}"),
        ("forgeries that pass", "{passed:%1} %"),
    ),
)


def _walkers(figures: Any) -> Iterator[Row]:
    for walk, by_rejections in figures.items():
        for rejections, row in by_rejections.items():
            yield {"walk": walk, "rejections": int(rejections), **row}


WALKERS = Table(
    "Forgers who ask a service until their rejections run out",
    _walkers,
    (
        ("walk", "{walk}"),
        ("rejections", "{rejections:,}"),
        ("median PSNR of their picture", "{median_psnr:.1f} dB"),
        ("at 28 dB or better", "{forged/successes} of {forged/trials}"),
    ),
)
STANDING = Table(
    "Files and messages that once deceived verification",
    lambda figures: [{"what": name, **found} for name, found in figures.items()],
    (("attack", "{what}"), ("accepted", "{successes} of {trials} [{low:%1}, {high:%1}] %")),
)


def _siege(figures: Any) -> Iterator[Row]:
    for attack, row in figures.items():
        if "asked" in row:
            yield {"attack": attack, **row}


SIEGE = Table(
    "Answers that another caller gets in time while four attack the service together",
    _siege,
    (
        ("attack", "{attack}"),
        ("requests", "{asked}"),
        ("answered within 2 s", "{in_time:%1} %"),
        ("median", "{p50_s:.2f} s"),
        ("slowest", "{worst_s:.2f} s"),
    ),
)
