"""The paper's tables from the figures of ``coverlock bench security``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from statistics import fmean
from typing import Any

from coverlock_bench.auditing import paper
from coverlock_bench.intervals import rate
from coverlock_bench.settings import DEFAULT_RULE, KEYLESS, LOCK, UNHARDENED
from coverlock_bench.tables import Columns, Row, Table, below, shown, value_at
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.verdict import RULES, Rule

Figures = dict[str, Any]

ATTACK_NAMES = {
    "gt": "GT@1",
    "gt:sources=100": "GT@100",
    "averaging": "averaging",
    "averaging-paired": "averaging, paired",
    "wmforger": "WMForger",
    "denoise": "denoising",
    "re-locking": "re-embedding by an attacker who knows the lock",
    "optimisation": "optimising the picture",
}
DEFENSE_NAMES = {
    LOCK: "CoverLock",
    KEYLESS: "CoverLock without a key",
    "mhdw": "MHDW-style",
    "convnext": "ConvNeXt filter",
}
REDUCED = "†"
LOCKS = (LOCK, KEYLESS, UNHARDENED)
"""Whose forgeries and price the summary tells, where they were measured."""
HIGH_RT = 0.5
"""RT above which a system counts as one whose marks move."""
PUBLISHED = "-published"
"""Ends the name of a plugin that runs the published weights of a system a user has imported."""
INTERVAL = "{rt:.3f} [{low:.3f}, {high:.3f}]"


def attack_name(setting: str) -> str:
    """How an attack is called in tables."""
    name, _, options = setting.partition(":")
    plain = ATTACK_NAMES.get(name, name) + (f" ({options})" if options else "")
    return ATTACK_NAMES.get(setting, plain)


def defense_name(setting: str) -> str:
    """How a defence is called in tables."""
    name, _, options = setting.partition(":")
    plain = DEFENSE_NAMES.get(name, name) + (f" ({options})" if options else "")
    return DEFENSE_NAMES.get(setting, plain)


def rate_text(cell: Row) -> str:
    """A rate with its count and interval: ``0 of 100 (0.0-3.6 %)``."""
    text = shown(cell, "{successes} of {trials} ({low:%1}-{high:%1} %)")
    return text + shown(cell, " ± {over_seeds/std:%1}")


def is_reduced(system: Row) -> bool:
    """Whether weights are a reference model of ours: its card then says how it was trained."""
    return "commands" in system.get("card", {})


def under_distortion(cell: Row, path: str) -> list[Any] | None:
    """The figure at ``path`` under each of the six distortions; None unless all have it."""
    values = [value_at(cell, f"genuine/{name}/{path}") for name in EVALUATION]
    return None if None in values else values


def _systems(figures: Figures) -> Iterator[Figures]:
    """Every system: the paper's name for it, how it is called here, and RT by sources."""
    for name, system in figures["systems"].items():
        published = name.removesuffix(PUBLISHED)
        known: Figures = {**paper.SYSTEMS.get(published, {})}
        label = known.get("method", name)
        label += ", published weights" if name.endswith(PUBLISHED) else ""
        if "not_measured" in system:
            label += " (no weights here)"
        elif is_reduced(system):
            label += f" {REDUCED}"
        row = {**system, "plugin": name, "paper": published, "label": label}
        row["settings"] = known | _training(system.get("card", {}))
        yield {
            **row,
            "rt@": _rt_by_sources(system.get("rt", {})),
            "theirs": paper.RT.get(published),
        }


def _measured(figures: Figures) -> list[Figures]:
    """Systems that were attacked; ``first`` is the collection with distortions."""
    rows = [system for system in _systems(figures) if system.get("security")]
    return [{**system, "first": next(iter(system["security"].values()))} for system in rows]


def _absent(figures: Figures) -> list[Figures]:
    """Systems of the paper whose weights are not here: they keep their row."""
    rows = _systems(figures)
    return [row for row in rows if "not_measured" in row and row["paper"] in paper.SYSTEMS]


def _behind(figures: Figures) -> Iterator[Figures]:
    """Every measured system behind each defence, on the collection with distortions."""
    for system in _measured(figures):
        for defense, cell in system["first"].items():
            yield {**system, "plain": defense, "defense": defense_name(defense), "cell": cell}


def _training(card: Figures) -> Figures:
    """What a card says of its training, in the terms of the paper's table 1."""
    recipe = card.get("recipe")
    if not isinstance(recipe, dict) or "message_loss" not in recipe:
        return card  # a vendor's own may use the words of the table
    return {
        "loss": f"{recipe['message_loss'].upper()}+MSE",
        "discriminator": recipe["adversarial_weight"] > 0,
        "noise": bool(recipe["noise"]),
        "dataset": card.get("data", "").partition(",")[0],
    }


def _rt_by_sources(curve: Figures) -> Figures:
    """RT@s with its interval, by s; a count is absent where the preset or the pictures end."""
    if not curve:
        return {}
    cells: Figures = {str(count): "*not in this preset*" for count in paper.COUNTS}
    cells |= {s: f"*{n} pictures short*" for s, n in curve.get("missing", {}).items()}
    for point in curve["points"]:
        depth = "" if point["eight_bit"] else " floats"
        cells[f"{point['sources']}{depth}"] = shown(point, INTERVAL)
    return cells


def _rt_100(system: Row) -> float | None:
    points = value_at(system, "rt/points") or []
    return next((p["rt"] for p in points if p["sources"] == 100 and p["eight_bit"]), None)


def _asr_of(systems: list[Figures], defense: str, attack: str, rule: Rule) -> list[Figures]:
    """The ASR of every system and collection for one attack and defence."""
    found = [
        value_at(behind, f"{defense}/attacks/{attack}/asr/{rule}")
        for system in systems
        for behind in system["security"].values()
    ]
    return [cell for cell in found if cell is not None]


def _pooled(cells: list[Figures]) -> Figures:
    """Several cells as one; those of several seeds count the pictures of one."""
    accepted, tried = (
        round(sum(cell[part] / cell["over_seeds"]["seeds"] for cell in cells))
        for part in ("successes", "trials")
    )
    return rate(accepted, tried)


def _headline_rows(figures: Figures) -> Iterator[Figures]:
    """Each system unlocked and locked under the default rule.

    Forgeries are those on all collections, distortions are measured on the first.
    """
    for system in _measured(figures):
        row: Figures = {**system, "forged": {}, "genuine": {}}
        for attack in paper.ATTACKS:
            bare, locked = (
                _asr_of([system], defense, attack, DEFAULT_RULE) for defense in ("none", LOCK)
            )
            if bare and locked:
                before = shown(_pooled(bare), "{successes} of {trials}")
                row["forged"][attack] = f"{before} → {rate_text(_pooled(locked))}"
        first = system["first"]
        arms = {
            "bare": first.get("none", {}),
            "locked": first.get(UNHARDENED, {}),
            "hardened": first.get(LOCK, {}),
        }
        for name, cell in arms.items():
            rates = under_distortion(cell, f"tpr/{DEFAULT_RULE}/rate")
            row["genuine"][name] = f"{100 * fmean(rates):.1f} %" if rates else "-"
        yield row


def _asr_cell(row: Row, defense: str, rule: Rule) -> str:
    share = paper.asr(row["paper"], row["dataset"], row["attack"], defense)
    published = "" if share is None or rule != "hard" else f" [{share:.2f}]"
    if row["behind"] is None:
        return f"-{published}"
    cell = row["behind"].get(defense, {}).get("attacks", {}).get(row["attack"])
    if cell is None:
        return "-"
    if "not_measured" in cell:
        return f"*{cell['not_measured']}*"
    return rate_text(cell["asr"][rule]) + published


def _asr_rows(figures: Figures, rule: Rule) -> Iterator[Figures]:
    for system in _measured(figures):
        for dataset, behind in system["security"].items():
            for attack in dict.fromkeys(a for d in behind.values() for a in d.get("attacks", {})):
                yield {**system, "dataset": dataset, "attack": attack, "behind": behind}
    for system in _absent(figures):
        for dataset, attack in product(figures["pictures"], paper.ATTACKS):
            row = {**system, "dataset": dataset, "attack": attack, "behind": None}
            if any(_asr_cell(row, defense, rule) != "-" for defense in figures["defenses"]):
                yield row


def _asr_columns(figures: Figures, rule: Rule) -> Columns:
    cells = [
        (defense_name(d), partial(_asr_cell, defense=d, rule=rule)) for d in figures["defenses"]
    ]
    attack = ("attack", lambda row: attack_name(row["attack"]))
    return [("system", "{label}"), ("pictures", "{dataset}"), attack, *cells]


def _accuracy_rows(figures: Figures) -> Iterator[Figures]:
    """Bits read, and what the paper has for the same system and defence in brackets."""
    names = (*EVALUATION, "average")
    for row in _behind(figures):
        ours = under_distortion(row["cell"], "bit_accuracy")
        if ours is not None:
            cells = [f"{100 * value:.2f}" for value in (*ours, fmean(ours))]
            theirs = paper.BIT_ACCURACY.get(row["paper"], {}).get(row["plain"])
            if theirs:
                cells = [f"{c} ({p:.2f})" for c, p in zip(cells, theirs, strict=True)]
            yield {**row, **dict(zip(names, cells, strict=True))}
    for system in _absent(figures):
        for defense, theirs in paper.BIT_ACCURACY.get(system["paper"], {}).items():
            cells = [f"- ({value:.2f})" for value in theirs]
            row = dict(zip(names, cells, strict=True))
            yield {**system, "defense": defense_name(defense), **row}


def _tpr_rows(figures: Figures) -> Iterator[Figures]:
    for row, rule in product(_behind(figures), RULES):
        shares = under_distortion(row["cell"], f"tpr/{rule}")
        if shares is not None:
            shares.insert(0, row["cell"]["genuine"]["clean"]["tpr"][rule])
            seen = dict(zip(("undistorted", *EVALUATION), map(rate_text, shares), strict=True))
            average = fmean(share["rate"] for share in shares[1:])
            yield {**row, "rule": rule, **seen, "average": average}
    yield from _absent(figures)


def _error_rows(figures: Figures) -> Iterator[Figures]:
    parts = (*paper.PARTS, "message")
    for row in _behind(figures):
        errors = {part: under_distortion(row["cell"], f"error/{part}") for part in parts}
        if errors["payload"] is not None:
            yield {**row, **{part: fmean(values) for part, values in errors.items() if values}}
    for defense, published in paper.ERRORS.items():
        shares = {part: f"{100 * share:.1f}" for part, share in published.items()}
        label = "*paper, as its MBRS (256 bits) reads*"
        yield {"label": label, "defense": defense_name(defense).removesuffix("-style"), **shares}


def _rt_rows(figures: Figures) -> Iterator[Figures]:
    """RT@s with quality, ours over the paper's."""
    for system in _systems(figures):
        first = next(iter((system.get("security") or {"": {}}).values()))
        clean = value_at(first, "none/genuine/clean") or {}
        locked = value_at(system, "rt/locked") or {}
        text = shown(locked, INTERVAL + " over {sources} sources ({raw_accuracy:.3f})")
        through = text or locked.get("not_measured", "")
        yield {**system, "clean": clean if "psnr" in clean else {}, "locked": through}
        if system["theirs"]:
            cells = {count: f"{value:.3f}" for count, value in system["theirs"].items()}
            yield {"label": "*paper*", "clean": system["theirs"], "rt@": cells}


def _summary_rows(figures: Figures) -> Iterator[Figures]:
    """What the tables come to: transferability, forgeries, and the price of the lock."""
    systems = _measured(figures)
    high = [rt for rt in map(_rt_100, systems) if rt and rt > HIGH_RT]
    if high:
        label = f"RT@100, lowest of {len(high)} systems above {HIGH_RT}"
        published = "0.98 (MBRS, 256 bits)"
        yield {"figure": label, "ours": min(high), "paper": published, "form": "{ours:.3f}"}
    locked = [s["rt"]["locked"] for s in systems if "rt" in s["rt"]["locked"]]
    if locked:
        sources = min(figure["sources"] for figure in locked)
        label = f"RT@1 through CoverLock, highest, {sources} sources or more"
        yield {"figure": label, "ours": max(row["rt"] for row in locked), "form": "{ours:.3f}"}
    for lock in LOCKS:
        yield from _forgeries_behind(lock, systems)
        yield from _price_of(lock, systems)


def _forgeries_behind(lock: str, systems: list[Figures]) -> Iterator[Figures]:
    """Forgeries that a lock accepted: the mean rate of each attack, under both rules."""
    for rule, attack in product(RULES, paper.ATTACKS):
        cells = _asr_of(systems, lock, attack, rule)
        if cells:
            count = "1 cell" if len(cells) == 1 else f"mean of {len(cells)} cells"
            yield {
                **_pooled(cells),
                "figure": f"{attack_name(attack)} behind {defense_name(lock)}, {rule}: {count}",
                "ours": fmean(cell["rate"] for cell in cells),
                "form": "{ours:%3} % ({successes} of {trials}, at most {high:%2} %)",
            }


def _price_of(lock: str, systems: list[Figures]) -> Iterator[Figures]:
    """What a lock costs under distortion: bits, and genuine pictures under both rules."""
    name, points = defense_name(lock), "{ours:%2} points"
    lost = _lost(systems, lock, "bit_accuracy")
    if lost:
        label = f"bit accuracy lost to {name}, mean"
        yield {"figure": label, "ours": fmean(lost), "form": points}
    for system in systems:
        theirs, lost = (
            paper.BIT_ACCURACY.get(system["paper"]),
            _lost([system], lock, "bit_accuracy"),
        )
        if theirs and lost and lock in theirs:
            label = f"bit accuracy lost to {name}, {system['label']}"
            published = f"{theirs['none'][-1] - theirs[lock][-1]:.2f} points"
            yield {"figure": label, "ours": fmean(lost), "form": points, "paper": published}
    for rule in RULES:
        lost = _lost(systems, lock, f"tpr/{rule}/rate", above=0.5)
        if lost:
            label = f"TPR lost to {name}, {rule}, where it was above 50 %"
            yield {"figure": label, "ours": fmean(lost), "form": points}
    locked, bare = (
        [
            share
            for system in systems
            for share in under_distortion(system["first"].get(behind, {}), f"tpr/{rule}/rate") or ()
        ]
        for behind, rule in ((lock, "soft"), ("none", "hard"))
    )
    if locked and len(locked) == len(bare):
        label = f"genuine under distortion: {name}, soft, and no lock, hard"
        form = "{ours:%1} % and {bare:%1} %"
        yield {"figure": label, "ours": fmean(locked), "bare": fmean(bare), "form": form}


def _lost(systems: list[Figures], lock: str, path: str, above: float = 0.0) -> list[float]:
    """What a lock takes from a figure under each distortion where it was higher than that."""
    lost: list[float] = []
    for system in systems:
        bare, locked = (
            under_distortion(system["first"].get(defense, {}), path) for defense in ("none", lock)
        )
        if bare and locked:
            pairs = zip(bare, locked, strict=True)
            lost += [before - after for before, after in pairs if before > above]
    return lost


def _yes_no(path: str) -> Callable[[Row], str]:
    return lambda row: {None: "", False: "no"}.get(value_at(row, path), "yes")


def _size(system: Row) -> str:
    return "x".join(map(str, system.get("native_size", ()) or ("any",))) if "bits" in system else ""


LOCKED = (("system", "{label}"), ("defence", "{defense|-}"))
TABLES = {
    "headline": Table(
        "Without the lock → with it",
        _headline_rows,
        (
            ("system", "{label}"),
            ("RT@100", "{rt@/100}"),
            *((f"{attack_name(a)} accepted", f"{{forged/{a}|-}}") for a in paper.ATTACKS),
            ("genuine under six distortions", "{genuine/bare} → {genuine/locked}"),
            ("and hardened", "{genuine/hardened}"),
        ),
    ),
    "summary": Table(
        "What it comes to",
        _summary_rows,
        (("figure", "{figure}"), ("ours", lambda r: shown(r, r["form"])), ("paper", "{paper}")),
    ),
    "systems": Table(
        "Systems and RT@100 (table 1)",
        _systems,
        (
            ("system", "{label}"),
            ("loss", "{settings/loss}"),
            ("discriminator", _yes_no("settings/discriminator")),
            ("noise", _yes_no("settings/noise")),
            ("architecture", "{settings/architecture}"),
            ("trained on", "{settings/dataset}"),
            ("size", _size),
            ("bits", "{bits}"),
            ("RT@100", "{rt@/100}"),
            ("paper, as published (MBRS: 256 bits)", "{theirs/100:.2f}"),
        ),
    ),
    **{
        f"asr-{rule}": Table(
            f"Forgeries accepted, {rule} rule{' (table 2)' if rule == 'hard' else ''}",
            partial(_asr_rows, rule=rule),
            partial(_asr_columns, rule=rule),
        )
        for rule in RULES
    },
    "bit-accuracy": Table(
        "Bits read under distortion, % (table 3)",
        _accuracy_rows,
        (*LOCKED, *((name, f"{{{name}}}") for name in (*EVALUATION, "average"))),
    ),
    "tpr": Table(
        "Genuine pictures accepted",
        _tpr_rows,
        (
            *LOCKED,
            ("rule", "{rule|-}"),
            *((name, f"{{{name}|-}}") for name in ("undistorted", *EVALUATION)),
            ("average", "{average|-:%1} %"),
        ),
    ),
    "errors": Table(
        "Where bit errors come from (figure 4b)",
        _error_rows,
        (*LOCKED, *((part, f"{{{part}:%2}} %") for part in (*paper.PARTS, "message"))),
    ),
    "rt": Table(
        "RT@s (table 4)",
        _rt_rows,
        (
            ("system", "{label}"),
            ("bit accuracy", "{clean/bit_accuracy:.3f}"),
            ("PSNR", "{clean/psnr:.2f}"),
            *((f"RT@{count}", f"{{rt@/{count}}}") for count in paper.COUNTS),
            ("RT@100, floats", "{rt@/100 floats}"),
            ("locked: RT@1 (raw accuracy)", "{locked}"),
        ),
    ),
    "signatures": Table(
        "Signatures (section 3.2)",
        _measured,
        (
            ("system", "{label}"),
            ("residuals correlate", "{signatures/residuals/single_correlation|-:.2f}"),
            ("averaged over five covers", "{signatures/residuals/averaged_correlation|-:.2f}"),
            ("features follow the cover", "{signatures/features/cover|-:%0} %"),
            ("the message", "{signatures/features/message|-:%0} %"),
            (
                "layer",
                lambda row: "".join(
                    shown(row, below("signatures/features", field))
                    for field in ("{layer}", "{not_measured}")
                ),
            ),
        ),
    ),
}
"""Every table by the name under which the docs ask for it."""


def error_parts(figures: Figures) -> list[tuple[str, float, float]]:
    """For every system and lock the mean payload and hash errors under the six distortions."""
    return [
        (f"{row['label']}, {row['defense']}", row["payload"], row.get("hash", 0.0))
        for row in _error_rows(figures)
        if "cell" in row
    ]


def sweeps(cell: Figures, rule: Rule) -> list[tuple[float, float]]:
    """(mean TPR under distortion, ASR of GT@1) for every threshold of a defence that filters."""
    tpr = under_distortion(cell, f"sweep/{rule}")
    asr = value_at(cell, f"attacks/gt/sweep/{rule}")
    if tpr is None or asr is None:
        return []
    return list(zip(map(fmean, zip(*tpr, strict=True)), asr, strict=True))


def tradeoff(figures: Figures) -> dict[str, list[tuple[str, Rule, float, float]]]:
    """Figure 4c: for every system (defence, rule, mean TPR under distortion, ASR of GT@1)."""
    points: dict[str, list[tuple[str, Rule, float, float]]] = {}
    for row, rule in product(_behind(figures), RULES):
        rates = under_distortion(row["cell"], f"tpr/{rule}/rate")
        asr = value_at(row["cell"], f"attacks/gt/asr/{rule}/rate")
        if rates and asr is not None:
            points.setdefault(row["plugin"], []).append((row["plain"], rule, fmean(rates), asr))
    return points


def document(figures: Figures) -> str:
    """All tables of a security run, with headings and notes."""
    parts = [f"## {table.title}\n\n{table.markdown(figures)}" for table in TABLES.values()]
    notes = [
        f"- {REDUCED} reference models of ours, trained at reduced width; not the paper's weights.",
        "- The paper's figures are in brackets, in percent; it did not use crops of DIV2K.",
    ]
    for name, system in figures["systems"].items():
        if is_reduced(system):
            settings = system["card"].get("settings", {}).items()
            notes.append(f"- {name} {REDUCED}: {', '.join(f'{k} {v}' for k, v in settings)}.")
        if "not_measured" in system:
            notes.append(f"- {name}: {system['not_measured']}.")
        for row in _behind({"systems": {name: system}}):
            if "not_measured" in row["cell"]:
                notes.append(f"- {name} behind {row['defense']}: {row['cell']['not_measured']}.")
    return "\n\n".join(parts) + "\n\n" + "\n".join(notes) + "\n"
