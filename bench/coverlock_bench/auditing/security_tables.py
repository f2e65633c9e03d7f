"""The paper's tables from the figures of ``coverlock bench security``, as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from coverlock_bench.auditing import paper
from coverlock_bench.intervals import rate
from coverlock_bench.markdown import table
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.coverlock import DEFAULT_RULE
from coverlock_sdk.locking.verdict import RULES, Rule

Figures = dict[str, Any]

ATTACK_NAMES = {
    "gt": "GT@1",
    "gt:sources=100": "GT@100",
    "averaging": "averaging",
    "averaging-paired": "averaging, paired",
    "wmforger": "WMForger",
    "denoise": "denoising",
}
DEFENSE_NAMES = {
    "none": "none",
    "coverlock": "CoverLock",
    "mhdw": "MHDW-style",
    "convnext": "ConvNeXt filter",
}
REDUCED = "†"
LOCKS = ("coverlock", "coverlock:harden=true")
"""Whose forgeries and price the summary tells."""
HIGH_RT = 0.5
"""RT above which a system counts as one whose marks move."""
PUBLISHED = "-published"
"""Ends the name of a plugin that runs the published weights of a system a user has imported."""


def system_of(name: str) -> str:
    """The paper's system that a plugin runs."""
    return name.removesuffix(PUBLISHED)


def is_reduced(system: Figures) -> bool:
    """Whether weights are a reference model of ours: its card then says how it was trained."""
    return "commands" in system.get("card", {})


def attack_name(setting: str) -> str:
    """How an attack is called in tables."""
    name, _, options = setting.partition(":")
    return ATTACK_NAMES.get(setting) or f"{ATTACK_NAMES.get(name, name)} ({options})"


def defense_name(setting: str) -> str:
    """How a defence is called in tables."""
    name, _, options = setting.partition(":")
    shown = DEFENSE_NAMES.get(name, name)
    return f"{shown} ({options})" if options else shown


def rate_text(cell: Figures) -> str:
    """A rate with its count and interval: ``0 of 100 (0.0-3.6 %)``."""
    interval = f"{100 * cell['low']:.1f}-{100 * cell['high']:.1f} %"
    text = f"{cell['successes']} of {cell['trials']} ({interval})"
    deviation = cell.get("over_seeds", {}).get("std")
    return text if deviation is None else f"{text} ± {100 * deviation:.1f}"


def systems_table(figures: Figures) -> str:
    """Table 1: the systems, their settings, and RT@100."""
    rows = []
    for name, system in figures["systems"].items():
        settings: Any = paper.SYSTEMS.get(system_of(name), {}) | _training(system.get("card", {}))
        rows.append(
            [
                _label(name, system),
                str(settings.get("loss", "")),
                _yes_no(settings.get("discriminator")),
                _yes_no(settings.get("noise")),
                str(settings.get("architecture", "")),
                str(settings.get("dataset", "")),
                "x".join(map(str, system.get("native_size", []))),
                str(system.get("bits", "")),
                _rt(system, 100),
                _paper_rt(name, "100"),
            ]
        )
    header = ["system", "loss", "discriminator", "noise", "architecture", "trained on"]
    return table([*header, "size", "bits", "RT@100", "paper"], rows)


def headline_table(figures: Figures) -> str:
    """Each system in one row, unlocked and locked under the default rule.

    Forgeries are those on all collections, distortions are measured on the first.
    """
    rows = []
    for name, system in _measured(figures):
        cells = [_label(name, system), _rt(system, 100)]
        for attack in paper.ATTACKS:
            cells.append(_without_and_with(system, attack))
        bare, locked, hardened = (
            _under_distortion(_first(system).get(defense, {}), "tpr", DEFAULT_RULE, "rate")
            for defense in ("none", *LOCKS)
        )
        cells.append(" → ".join(f"{100 * _mean(r):.1f} %" if r else "-" for r in (bare, locked)))
        cells.append(f"{100 * _mean(hardened):.1f} %" if hardened else "-")
        rows.append(cells)
    names = [f"{attack_name(attack)} accepted" for attack in paper.ATTACKS]
    header = ["system", "RT@100", *names, "genuine under six distortions", "and hardened"]
    return table(header, rows)


def asr_table(figures: Figures, rule: Rule) -> str:
    """Table 2: forgeries accepted, by system, pictures, attack and defence, under one rule."""
    rows = []
    for name, system in _measured(figures):
        for dataset, defenses in system["security"].items():
            attacks = {a: None for d in defenses.values() for a in d.get("attacks", {})}
            for attack in attacks:
                cells = [
                    _asr_cell(defenses.get(defense, {}), name, dataset, attack, defense, rule)
                    for defense in figures["defenses"]
                ]
                rows.append([_label(name, system), dataset, attack_name(attack), *cells])
    for name, system in _absent(figures):
        for dataset, attack in product(figures["pictures"], paper.ATTACKS):
            theirs = [_published(name, dataset, attack, d, rule) for d in figures["defenses"]]
            if any(theirs):
                cells = [f"-{published}" for published in theirs]
                rows.append([_label(name, system), dataset, attack_name(attack), *cells])
    header = ["system", "pictures", "attack", *map(defense_name, figures["defenses"])]
    return table(header, rows)


def summary_table(figures: Figures) -> str:
    """What the tables come to: transferability, forgeries, and the price of the lock."""
    rows = []
    points = {n: _point(s, 100) for n, s in _measured(figures)}
    high = [p["rt"] for p in points.values() if p and p["rt"] > HIGH_RT]
    if high:
        rows.append(
            [f"RT@100, lowest of {len(high)} systems above {HIGH_RT}", f"{min(high):.3f}", "0.98"]
        )
    locked = [s["rt"]["locked"] for _, s in _measured(figures) if "rt" in s["rt"]["locked"]]
    if locked:
        sources = min(figure["sources"] for figure in locked)
        worst = f"{max(figure['rt'] for figure in locked):.3f}"
        rows.append([f"RT@1 through CoverLock, highest, {sources} sources or more", worst, ""])
    for lock in LOCKS:
        rows += _forgeries_behind(lock, figures) + _price_of(lock, figures)
    return table(["figure", "ours", "paper"], rows)


def _forgeries_behind(lock: str, figures: Figures) -> list[list[str]]:
    """Forgeries that a lock accepted: the mean rate of each attack, under both rules."""
    rows = []
    for rule in RULES:
        for attack, published in paper.AVERAGE_ASR.items():
            cells = _cells(figures, lock, attack, rule)
            if cells:
                count = "1 cell" if len(cells) == 1 else f"mean of {len(cells)} cells"
                label = f"{attack_name(attack)} behind {defense_name(lock)}, {rule}: {count}"
                like_ours = lock == "coverlock" and rule == "hard"
                shown = f"{published:.3f} %" if like_ours else ""
                rows.append([label, _mean_rate(cells), shown])
    return rows


def _price_of(lock: str, figures: Figures) -> list[list[str]]:
    """What a lock costs under distortion: bits, and genuine pictures under both rules."""
    rows = []
    lost = _lost(figures, lock, "bit_accuracy")
    if lost:
        published = "3.2-4.8 points" if lock == "coverlock" else ""
        label = f"bit accuracy lost to {defense_name(lock)}, mean"
        rows.append([label, f"{100 * _mean(lost):.2f} points", published])
    for rule in RULES:
        lost = _lost(figures, lock, "tpr", rule, "rate", above=0.5)
        if lost:
            label = f"TPR lost to {defense_name(lock)}, {rule}, where it was above 50 %"
            rows.append([label, f"{100 * _mean(lost):.2f} points", ""])
    locked, bare = _genuine(figures, lock, "soft"), _genuine(figures, "none", "hard")
    if locked and len(locked) == len(bare):
        label = f"genuine under distortion: {defense_name(lock)}, soft, and no lock, hard"
        rows.append([label, f"{100 * _mean(locked):.1f} % and {100 * _mean(bare):.1f} %", ""])
    return rows


def _genuine(figures: Figures, defense: str, rule: Rule) -> list[float]:
    """Shares of genuine pictures accepted, of every system and distortion."""
    shares: list[float] = []
    for _, system in _measured(figures):
        cell = _first(system).get(defense, {})
        shares += _under_distortion(cell, "tpr", rule, "rate") or []
    return shares


def bit_accuracy_table(figures: Figures) -> str:
    """Table 3: bits read under the six distortions, on the first collection."""
    rows = []
    for name, system in _measured(figures):
        for defense, cell in _first(system).items():
            accuracy = _under_distortion(cell, "bit_accuracy")
            if accuracy is None:
                continue
            published = paper.BIT_ACCURACY.get(system_of(name), {}).get(defense)
            mean = sum(accuracy) / len(accuracy)
            cells = [f"{100 * value:.2f}" for value in (*accuracy, mean)]
            if published:
                cells = [f"{c} ({p:.2f})" for c, p in zip(cells, published, strict=True)]
            rows.append([_label(name, system), defense_name(defense), *cells])
    for name, system in _absent(figures):
        for defense, published in paper.BIT_ACCURACY.get(system_of(name), {}).items():
            cells = [f"- ({value:.2f})" for value in published]
            rows.append([_label(name, system), defense_name(defense), *cells])
    return table(["system", "defence", *EVALUATION, "average"], rows)


def tpr_table(figures: Figures) -> str:
    """Genuine pictures accepted under the six distortions, soft and hard, like with like."""
    rows = []
    for name, system in _measured(figures):
        for defense, cell in _first(system).items():
            for rule in RULES:
                shares = _under_distortion(cell, "tpr", rule)
                if shares is None:
                    continue
                clean = cell["genuine"]["clean"]["tpr"][rule]
                rows.append(
                    [
                        _label(name, system),
                        defense_name(defense),
                        rule,
                        *(rate_text(share) for share in (clean, *shares)),
                        f"{100 * _mean([share['rate'] for share in shares]):.1f} %",
                    ]
                )
    for name, system in _absent(figures):
        rows.append([_label(name, system), "-", "-", "-", *["-" for _ in EVALUATION], "-"])
    return table(["system", "defence", "rule", "undistorted", *EVALUATION, "average"], rows)


def error_parts(figures: Figures) -> list[tuple[str, float, float]]:
    """For every system and lock the mean payload and hash errors under the six distortions."""
    parts = []
    for name, system in _measured(figures):
        for defense, cell in _first(system).items():
            payload, code = (_under_distortion(cell, "error", part) for part in paper.PARTS)
            if payload is not None:
                label = f"{_label(name, system)}, {defense_name(defense)}"
                mean = sum(payload) / len(payload)
                parts.append((label, mean, sum(code) / len(code) if code else 0.0))
    return parts


def error_table(figures: Figures) -> str:
    """Figure 4b: where bit errors under the six distortions come from."""
    rows = []
    for name, system in _measured(figures):
        for defense, cell in _first(system).items():
            parts = [_under_distortion(cell, "error", part) for part in (*paper.PARTS, "message")]
            if parts[0] is None:
                continue
            cells = [
                "" if part is None else f"{100 * sum(part) / len(part):.2f} %" for part in parts
            ]
            rows.append([_label(name, system), defense_name(defense), *cells])
    for defense, published in paper.ERRORS.items():
        cells = [f"{100 * published[part]:.1f} %" for part in paper.PARTS]
        rows.append(["*paper*", defense_name(defense), *cells, ""])
    return table(["system", "defence", "payload", "hash", "message"], rows)


def rt_table(figures: Figures) -> str:
    """Table 4: RT@s with quality, ours over the paper's."""
    counts = ("1", "10", "100", "1000")
    rows = []
    for name, system in figures["systems"].items():
        clean = _clean(system)
        rows.append(
            [
                _label(name, system),
                f"{clean['bit_accuracy']:.3f}" if clean else "",
                f"{clean['psnr']:.2f}" if clean else "",
                *(_rt(system, int(count)) for count in counts),
                _rt(system, 100, eight_bit=False),
                _locked(system),
            ]
        )
        if system_of(name) in paper.RT:
            cells = paper.RT[system_of(name)]
            quality = [f"{cells['bit_accuracy']:.3f}", f"{cells['psnr']:.2f}"]
            rows.append(["*paper*", *quality, *(f"{cells[c]:.3f}" for c in counts), "", ""])
    header = ["system", "bit accuracy", "PSNR", *(f"RT@{count}" for count in counts)]
    return table([*header, "RT@100, floats", "locked: RT@1 (raw accuracy)"], rows)


def sweeps(cell: Figures, rule: Rule) -> list[tuple[float, float]]:
    """(mean TPR under distortion, ASR of GT@1) for every threshold of a defence that filters."""
    tpr = _under_distortion(cell, "sweep", rule)
    asr = cell.get("attacks", {}).get("gt", {}).get("sweep", {}).get(rule)
    if tpr is None or asr is None:
        return []
    means = [sum(shares) / len(shares) for shares in zip(*tpr, strict=True)]
    return list(zip(means, asr, strict=True))


def tradeoff(figures: Figures) -> dict[str, list[tuple[str, Rule, float, float]]]:
    """Figure 4c: for every system (defence, rule, mean TPR under distortion, ASR of GT@1)."""
    points: dict[str, list[tuple[str, Rule, float, float]]] = {}
    for name, system in _measured(figures):
        for defense, cell in _first(system).items():
            for rule in RULES:
                rates = _under_distortion(cell, "tpr", rule, "rate")
                attack = cell.get("attacks", {}).get("gt", {})
                if rates and "asr" in attack:
                    point = (defense, rule, sum(rates) / len(rates), attack["asr"][rule]["rate"])
                    points.setdefault(name, []).append(point)
    return points


def signatures_table(figures: Figures) -> str:
    """How alike residuals are on different covers, and what the decoder's last features follow."""
    rows = []
    for name, system in _measured(figures):
        residuals, features = (system["signatures"][part] for part in ("residuals", "features"))
        row = [_label(name, system)]
        for figure in ("single_correlation", "averaged_correlation"):
            row.append(f"{residuals[figure]:.2f}" if figure in residuals else "-")
        for figure in ("cover", "message"):
            row.append(f"{100 * features[figure]:.0f} %" if figure in features else "-")
        rows.append([*row, features.get("layer", features.get("not_measured", ""))])
    header = ["system", "residuals correlate", "averaged over five covers"]
    return table([*header, "features follow the cover", "the message", "layer"], rows)


TABLES: dict[str, tuple[str, Callable[[Figures], str]]] = {
    "headline": ("Without the lock → with it", headline_table),
    "summary": ("What it comes to", summary_table),
    "systems": ("Systems and RT@100 (table 1)", systems_table),
    "asr-hard": ("Forgeries accepted, hard rule (table 2)", lambda f: asr_table(f, "hard")),
    "asr-soft": ("Forgeries accepted, soft rule", lambda f: asr_table(f, "soft")),
    "bit-accuracy": ("Bits read under distortion, % (table 3)", bit_accuracy_table),
    "tpr": ("Genuine pictures accepted", tpr_table),
    "errors": ("Where bit errors come from (figure 4b)", error_table),
    "rt": ("RT@s (table 4)", rt_table),
    "signatures": ("Signatures (section 3.2)", signatures_table),
}
"""Heading and maker of every table, by the name under which the docs ask for it."""


def document(figures: Figures) -> str:
    """All tables of a security run, with headings."""
    text = "\n\n".join(f"## {title}\n\n{make(figures)}" for title, make in TABLES.values())
    notes = [
        f"- {REDUCED} reference models of ours, trained at reduced width; not the paper's weights.",
        "- The paper's figures are in brackets, in percent; it did not use crops of DIV2K.",
    ]
    for name, system in figures["systems"].items():
        if is_reduced(system):
            notes.append(f"- {name} {REDUCED}: {_text(system['card'].get('settings', {}))}.")
        if "not_measured" in system:
            notes.append(f"- {name}: {system['not_measured']}.")
        for defense, cell in _first(system).items() if system.get("security") else ():
            if "not_measured" in cell:
                notes.append(f"- {name} behind {defense_name(defense)}: {cell['not_measured']}.")
    return f"{text}\n\n" + "\n".join(notes) + "\n"


def _asr_cell(
    behind: Figures, name: str, dataset: str, attack: str, defense: str, rule: Rule
) -> str:
    cell = behind.get("attacks", {}).get(attack)
    if cell is None:
        return "-"
    if "not_measured" in cell:
        return f"*{cell['not_measured']}*"
    return rate_text(cell["asr"][rule]) + _published(name, dataset, attack, defense, rule)


def _published(name: str, dataset: str, attack: str, defense: str, rule: Rule) -> str:
    """What the paper has for a cell, whose rule is the hard one, in brackets."""
    share = paper.asr(system_of(name), dataset, attack, defense) if rule == "hard" else None
    return "" if share is None else f" [{share:.2f}]"


def _cells(figures: Figures, defense: str, attack: str, rule: Rule) -> list[Figures]:
    """The ASR of every system and collection for one attack and defence."""
    found = [
        behind.get(defense, {}).get("attacks", {}).get(attack, {})
        for _, system in _measured(figures)
        for behind in system["security"].values()
    ]
    return [cell["asr"][rule] for cell in found if "asr" in cell]


def _without_and_with(system: Figures, attack: str) -> str:
    """Forgeries accepted over all collections, before and behind the lock."""
    bare, locked = (
        _cells({"systems": {"": system}}, defense, attack, DEFAULT_RULE)
        for defense in ("none", "coverlock")
    )
    if not bare or not locked:
        return "-"
    before = _pooled(bare)
    return f"{before['successes']} of {before['trials']} → {rate_text(_pooled(locked))}"


def _mean_rate(cells: list[Figures]) -> str:
    pooled = _pooled(cells)
    counted = f"{pooled['successes']} of {pooled['trials']}, at most {100 * pooled['high']:.2f} %"
    return f"{100 * _mean([cell['rate'] for cell in cells]):.3f} % ({counted})"


def _pooled(cells: list[Figures]) -> Figures:
    """Several cells as one; those of several seeds count the pictures of one."""
    accepted, tried = (
        round(sum(cell[part] / cell["over_seeds"]["seeds"] for cell in cells))
        for part in ("successes", "trials")
    )
    return rate(accepted, tried)


def _lost(figures: Figures, lock: str, *path: str, above: float = 0.0) -> list[float]:
    """What a lock takes from a figure under each distortion where it was higher than that."""
    lost = []
    for _, system in _measured(figures):
        first = _first(system)
        bare = _under_distortion(first.get("none", {}), *path)
        locked = _under_distortion(first.get(lock, {}), *path)
        if bare and locked:
            pairs = zip(bare, locked, strict=True)
            lost += [before - after for before, after in pairs if before > above]
    return lost


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _under_distortion(cell: Figures, *path: str) -> list[Any] | None:
    """The figure at ``path`` under each of the six distortions; None unless all have it."""
    values: list[Any] = []
    for name in EVALUATION:
        value: Any = cell.get("genuine", {}).get(name, {})
        for step in path:
            value = (value or {}).get(step)
        values.append(value)
    return None if None in values else values


def _measured(figures: Figures) -> list[tuple[str, Figures]]:
    return [(n, s) for n, s in figures["systems"].items() if s.get("security")]


def _absent(figures: Figures) -> list[tuple[str, Figures]]:
    """Systems of the paper whose weights are not here: they keep their row."""
    systems: list[tuple[str, Figures]] = list(figures["systems"].items())
    return [(n, s) for n, s in systems if "not_measured" in s and system_of(n) in paper.SYSTEMS]


def _first(system: Figures) -> Figures:
    first: Figures = next(iter(system["security"].values()))
    return first


def _clean(system: Figures) -> Figures | None:
    if not system.get("security"):
        return None
    cell: Figures = _first(system).get("none", {}).get("genuine", {}).get("clean", {})
    return cell if "psnr" in cell else None


def _label(name: str, system: Figures) -> str:
    settings = paper.SYSTEMS.get(system_of(name))
    shown = settings["method"] if settings else name
    if name.endswith(PUBLISHED):
        shown += ", published weights"
    if "not_measured" in system:
        return f"{shown} (no weights here)"
    return f"{shown} {REDUCED}" if is_reduced(system) else shown


def _point(system: Figures, sources: int, eight_bit: bool = True) -> Figures | None:
    points: list[Figures] = system.get("rt", {}).get("points", [])
    return next((p for p in points if (p["sources"], p["eight_bit"]) == (sources, eight_bit)), None)


def _rt(system: Figures, sources: int, eight_bit: bool = True) -> str:
    point = _point(system, sources, eight_bit)
    if point:
        return f"{point['rt']:.3f} [{point['low']:.3f}, {point['high']:.3f}]"
    if not system.get("rt") or not eight_bit:
        return ""
    missing = system["rt"].get("missing", {}).get(str(sources))
    return f"*{missing} pictures short*" if missing else "*not in this preset*"


def _locked(system: Figures) -> str:
    locked = system.get("rt", {}).get("locked", {})
    if "rt" not in locked:
        return str(locked.get("not_measured", ""))
    return (
        f"{locked['rt']:.3f} [{locked['low']:.3f}, {locked['high']:.3f}] over {locked['sources']} "
        f"sources ({locked['raw_accuracy']:.3f})"
    )


def _paper_rt(name: str, sources: str) -> str:
    published = paper.RT.get(system_of(name))
    return f"{published[sources]:.2f}" if published else ""


def _text(settings: Figures) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


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


def _yes_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"
