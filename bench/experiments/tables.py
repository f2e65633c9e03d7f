"""The tables of our own studies, and those that only the docs show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import fmean, stdev
from typing import Any

from coverlock_bench.auditing import paper
from coverlock_bench.tables import (
    RATE,
    RATIO,
    Columns,
    Row,
    Table,
    below,
    counted,
    nested,
    shown,
)
from coverlock_sdk.images.distortions import EVALUATION
from coverlock_sdk.locking.verdict import RULES
from experiments.training_records import COUNTS, covers_seen

WATERMARK = ("watermark", "{watermark}")
HASH = ("hash", "{hash}")


def _by_arm(*arms: str) -> Any:
    """Rows of figures that hold the number of photos beside their arms."""
    return lambda figures: [
        {**row[arm], "watermark": watermark, "arm": arm, "photos": row["photos"]}
        for watermark, row in figures.items()
        for arm in arms
    ]


def _of_locks(template: str) -> Callable[[Row], str]:
    """A cell that is empty where there is no lock."""
    return lambda row: "" if row["arm"] == "no lock" else shown(row, template)


RULES_TABLE = Table(
    "Forgeries and genuine pictures, by watermark, defence and rule",
    lambda figures: [
        {**row[rule], **row, "rule": rule}
        for row in _by_arm("none", "coverlock")(figures)
        for rule in RULES
    ],
    (
        WATERMARK,
        ("defence", lambda row: "CoverLock" if row["arm"] == "coverlock" else "none"),
        ("rule", "{rule}"),
        ("forgeries accepted (GT@1)", counted("asr_gt1")),
        ("genuine accepted", counted("tpr/clean")),
        ("genuine accepted, six distortions", "{tpr_mean_of_six:%1} %"),
    ),
)
ROUNDTRIP = Table(
    "Marked photos that verify as saved, and what fixed-point binding changes",
    nested("watermark", "arm"),
    (
        WATERMARK,
        ("rule", lambda row: row["arm"].partition(": ")[0]),
        ("binding", lambda row: row["arm"].partition(": ")[2]),
        ("accepted", "{accepted} of {photos}"),
        ("bits read", "{bit_accuracy:%2} %"),
        ("hash error", "{hash_bit_error:%2} %"),
        ("median p", lambda row: f"{10 ** row['median_log10_p']:.1g}"),
        ("PSNR", "{psnr_mean:.1f} dB"),
    ),
)
HARDENING = Table(
    "Photos marked without a lock, as bound and hardened, by watermark",
    _by_arm("no lock", "as bound", "hardened", "hardened, with a key"),
    (
        ("watermark, hash", "{watermark}"),
        ("", "{arm}"),
        ("code error as marked", _of_locks("{hash_bit_error/none:%2} %")),
        ("six distortions", _of_locks("{hash_bit_error_mean_of_six:%2} %")),
        ("80 % crop", _of_locks("{hash_bit_error/crop:%2} %")),
        ("bits read", "{bit_accuracy:%2} %"),
        ("lost to the lock", _of_locks("{lost/bit_accuracy:%2} points")),
        ("genuine accepted, hard", "{hard/tpr_mean_of_six:%1} %"),
        ("soft", "{soft/tpr_mean_of_six:%1} %"),
        ("lost to the lock, soft", _of_locks("{lost/tpr_soft:%2} points")),
        (
            "forgeries accepted, hard / soft",
            lambda row: " / ".join(counted(f"{rule}/asr_gt1")(row) for rule in RULES),
        ),
        ("PSNR", "{psnr_mean:.2f} dB"),
        ("time / as bound", "{time_ratio:.2f}"),
    ),
)


def _in_vain(template: str) -> Callable[[Row], str]:
    return lambda row: shown({**row, "safe": row["pictures"] - row["forgeable"]}, template)


LOOKALIKES = Table(
    "How well the estimate at embedding predicts forgeries, on held-out designs and photos",
    nested("lock"),
    (
        ("watermark, hash", "{lock}"),
        ("pictures", "{pictures}"),
        ("can be forged", "{forgeable}"),
        ("of these warned about by the crowd", "{hits} of {forgeable}"),
        ("in vain", _in_vain("{false_alarms} of {safe}")),
        ("rank correlation with forgeries accepted", "{rank_correlation|-:.2f}"),
        ("warned about with one's own pictures", "{with_own/hits|-} of {forgeable}"),
        ("in vain", _in_vain("{with_own/false_alarms|-} of {safe}")),
        ("rank correlation", "{with_own/rank_correlation|-:.2f}"),
    ),
)


def _floor_columns(figures: Any) -> Columns:
    measured = next(iter(figures["soft"].values()))
    return (
        ("rule", "{rule}"),
        ("floor", lambda row: row["floor"] if float(row["floor"]) else "none"),
        *((f"genuine, {name}", f"{{tpr/{name}:%1}} %") for name in measured["tpr"]),
        ("cost of the floor, points", "{cost/keyless:%2}"),
        ("with a key", "{cost/scheme 2:%2}"),
        ("genuine, 80 % crop", "{tpr_by_distortion/crop:%1} %"),
        *(
            (f"forged, {search}", below(f"collisions/{search}", "{accepted:.1f} of {targets}"))
            for search in measured["collisions"]
        ),
    )


FLOORS = Table(
    "Genuine pictures and white-box forgeries that each floor on agreement accepts",
    nested("rule", "floor"),
    _floor_columns,
)

SOFT_FLOORS = Table(
    "The same under the soft rule",
    lambda figures: nested("rule", "floor")({"soft": figures["soft"]}),
    _floor_columns,
)


def _told_rows(figures: Row) -> list[Row]:
    """A row a kind and one for all, each for the plain hash and for the one that was told."""
    return [
        {"lock": lock, "kind": kind, "reading": reading, **row}
        for lock, found in figures.items()
        for kind, of_kind in (*found["kinds"].items(), ("all", found["all"]))
        for reading, row in of_kind.items()
    ]


TOLD_TEMPLATES = Table(
    "Pictures of held-out templates, by a hash as it is and by one that was told the templates",
    _told_rows,
    (
        ("watermark, hash", "{lock}"),
        ("kind", "{kind}"),
        ("hash", "{reading}"),
        ("agreement", "{agreement|:.3f}"),
        ("pairs at 51 of 64", "{pairs_accepted|:%1} %"),
        ("forgeries accepted", "{forged} of {forged_tried}"),
        ("genuine, six distortions", "{genuine} of {genuine_tried}"),
        *((name, f"{{genuine_{name}}}") for name in EVALUATION),
    ),
)

DUO_HEADS = Table(
    "Heads of duo on photos that training holds out, by how much steady directions count",
    nested("preference"),
    (
        ("preference", "{preference}"),
        ("bit error, six distortions", "{error:%2} %"),
        ("80 % crop", "{error_crop:%2} %"),
        ("deviation of agreement", "{pairs_deviation:.4f}"),
        ("pairs at 167 of 256", "{pairs_accepted:%3} %"),
        ("agreement, mean over kinds", "{kinds_mean:.3f}"),
        ("pairs of one kind that pass", "{kinds_accepted_64:%1} %"),
    ),
)

TEMPLATE_COLLISIONS = Table(
    "White-box forgeries onto pictures of held-out templates",
    nested("hash", "kind", "reading"),
    (
        ("hash", "{hash}"),
        ("kind", "{kind}"),
        ("", "{reading}"),
        *(
            (search, below(search, "{accepted:.1f} of {targets:.0f}"))
            for search in ("34 dB", "34 dB, key")
        ),
    ),
)

LOOKALIKE_KINDS = Table(
    "The estimate and forgeries by kind",
    lambda figures: [
        {"lock": lock, "kind": kind, **row}
        for lock, found in figures.items()
        for kind, row in found["kinds"].items()
    ],
    (
        ("watermark, hash", "{lock}"),
        ("kind", "{kind}"),
        ("lookalikes expected in the crowd, median", "{expected:.1f}"),
        ("of one's own", "{own|-:.1f}"),
        ("warned about", "{warned:%0} %"),
        ("with one's own", "{warned_with_own|-:%0} %"),
        ("can be forged", "{forgeable:%0} %"),
        ("forgeries accepted", "{forged} of {tried}"),
    ),
)


def _variance(row: Row) -> str:
    """Older files have no interval."""
    interval = shown(row["variance_ratio"], " [{low:.2f}, {high:.2f}]")
    return shown(row["variance_ratio"], "{mean:.2f}" + interval + " ({min:.2f}-{max:.2f})")


def _share(digits: int) -> str:
    observed = "{observed:%D} % [{low:%D}, {high:%D}] expected {expected:%D}"
    return observed.replace("D", str(digits))


def _calibration(title: str, levels: Mapping[str, int]) -> Table:
    """By watermark and lock, how often p-values of unmarked pictures are as low as ``levels``."""
    return Table(
        title,
        nested("watermark", "arm"),
        (
            WATERMARK,
            ("", "{arm}"),
            ("variance / binomial (min-max over messages)", _variance),
            *(
                (f"{rule}, p <= 1e-{digits}", below(f"exceedance/{rule}/{level}", _share(digits)))
                for rule in RULES
                for level, digits in levels.items()
            ),
        ),
    )


CALIBRATION = _calibration(
    "Unmarked photos against fixed messages", {"0.01": 2, "0.001": 3, "0.0001": 4}
)

CALIBRATION_RARE = _calibration(
    "Unmarked photos and their quarters against fixed messages",
    {"0.001": 3, "0.0001": 4, "1e-05": 5},
)


def _distortion_rows(figures: Any) -> Iterator[Row]:
    hashes = figures["hashes"]
    for distortion in next(iter(hashes.values()))["bit_error"]:
        errors = {name: row["bit_error"][distortion] for name, row in hashes.items()}
        yield {"distortion": distortion, **errors}


HASH_DISTORTIONS = Table(
    "Bit error of each hash under each distortion",
    _distortion_rows,
    lambda figures: [
        ("distortion", "{distortion}"),
        *((name, f"{{{name}:%2}} %") for name in figures["hashes"]),
    ],
)


def _length_columns(figures: Any) -> Columns:
    lengths = next(iter(figures["hashes"].values()))["similar"]["accepted"]
    shares = [(f"L = {length}", f"{{accepted/{length}:%3}} %") for length in lengths]
    return [HASH, ("pairs", "{pairs:,} {kind}"), *shares]


HASH_LENGTHS = Table(
    "Pairs of pictures that would be accepted for one another, by length of the message",
    lambda figures: [
        {"hash": name, "kind": kind, **row[kind]}
        for name, row in figures["hashes"].items()
        for kind in ("different", "similar")
    ],
    _length_columns,
)
HASH_LATENCY = Table(
    "Time of one picture relative to DINOv2-S; milliseconds of a busy machine tell nothing",
    nested("hash"),
    (HASH, ("pictures in the time of one by DINOv2-S", "{speed_up:.0f}")),
)
HASH_VARIANTS = Table(
    "Each way to a hash in one line, on held-out photos",
    nested("hash"),
    (
        HASH,
        ("bit error, six distortions", "{error:%2} %"),
        ("under an 80 % crop", "{error_crop:%2} %"),
        ("agreement of different pictures", "{pairs_mean:.3f} ± {pairs_deviation:.3f}"),
        ("accepted", "{pairs_accepted:%3} %"),
        ("parameters", "{parameters:,}"),
        ("time / nano", "{times_nano:.1f}"),
    ),
)
DOCUMENTS = Table(
    "Transplants between pages of text",
    nested("hash"),
    (
        HASH,
        ("bits in which codes agree", "{agreement_mean:%0} % (at most {agreement_max:%0} %)"),
        ("accepted, hard", "{forgeries_accepted/hard} of {forgeries}"),
        ("accepted, soft", "{forgeries_accepted/soft} of {forgeries}"),
    ),
)


def _lever_columns(figures: Any) -> Columns:
    budgets = list(next(iter(figures.values()))["forgeries"])
    cells = {f"collisions within {b} levels": f"forgeries/{b}" for b in budgets}
    cells["genuine, distorted"] = "genuine"
    matched = " / ".join(f"{{{cell}/bits_matched:%0}} %" for cell in cells.values())
    return [
        ("lever", "{lever}"),
        *((heading, below(cell, RATE)) for heading, cell in cells.items()),
        ("bits that match in each", matched),
    ]


LEVERS = Table("Collisions and genuine pictures that pass", nested("lever"), _lever_columns)
REFERENCES = Table(
    "The watermarks trained here: quality, bits read under the six distortions, and RT",
    lambda figures: [
        {**row, "covers": covers_seen(row["card"], row["card"]["recipe"])}
        for row in nested("watermark")(figures)
    ],
    (
        WATERMARK,
        ("bits", "{bits} at {side} px"),
        ("covers seen", "{covers:,}"),
        ("bits read", "{bit_accuracy:.3f}"),
        ("PSNR", "{psnr_mean:.1f} dB"),
        *((name, f"{{accuracy_under_distortion/{name}:.3f}}") for name in EVALUATION),
        *((f"RT@{count}", f"{{rt/{count}/rt|-:.3f}}") for count in COUNTS),
    ),
)


def _beside_the_paper(figures: Any) -> Iterator[Row]:
    """Each watermark, and below it the paper's of that system and length."""
    for name, row in figures.items():
        ours = {f"rt@{count}": _with_interval(point) for count, point in row["rt"].items()}
        yield {**row, "system": name, **ours}
        system = name.removesuffix("-trained").removesuffix("-256")
        published = paper.SYSTEMS.get(system)
        if published is not None and published["bits"] == row["bits"]:
            theirs = paper.RT[system]
            yield {
                "system": "*paper*",
                "bits": row["bits"],
                "side": published["resolution"],
                "bit_accuracy": theirs["bit_accuracy"],
                "psnr_mean": theirs["psnr"],
                **{f"rt@{count}": f"{theirs[str(count)]:.3f}" for count in paper.COUNTS},
            }


def _with_interval(point: Row) -> str:
    return f"{point['rt']:.3f} [{point['low']:.3f}, {point['high']:.3f}]"


MORE_SOURCES = Table(
    "RT@s up to the paper's 1,000 sources, also of published weights, beside the paper's",
    lambda figures: [
        {
            **row,
            **{f"rt@{count}": _with_interval(point) for count, point in row["rt"].items()},
            "paper": paper.RT.get(row["watermark"].removesuffix("-trained"), {}),
        }
        for row in nested("watermark")(figures)
    ],
    (
        WATERMARK,
        ("bits", "{bits} at {side} px"),
        *((f"RT@{count}", f"{{rt@{count}|-}}") for count in paper.COUNTS),
        ("paper's RT@100, as published", "{paper/100|-:.3f}"),
        ("paper's RT@1000", "{paper/1000|-:.3f}"),
    ),
)


TRANSFERABILITY = Table(
    "RT@s (the paper's table 4)",
    _beside_the_paper,
    (
        ("system", "{system}"),
        ("bits", "{bits} at {side} px"),
        ("bits read", "{bit_accuracy:.3f}"),
        ("PSNR", "{psnr_mean:.1f} dB"),
        *((f"RT@{count}", f"{{rt@{count}|-}}") for count in paper.COUNTS),
    ),
)


def _over_seeds(row: Row) -> Row:
    """A network that was trained with one or more seeds, or with none, as means over them."""
    runs = list(row.get("seeds", {}).values())
    means: dict[str, Any] = {"runs": len(runs)}
    if runs:
        means |= {name: fmean(run[name] for run in runs) for name in ("bit_accuracy", "psnr")}
        means["covers"] = covers_seen(runs[0], row["recipe"])
        counted = {point.get("messages") for run in runs for point in run["rt"].values()}
        means["messages"] = " or ".join(map(str, sorted(counted - {None})))
    for count in map(str, COUNTS):
        values = [run["rt"][count]["rt"] for run in runs if count in run["rt"]]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        means[f"rt@{count}"] = f"{fmean(values):.2f}{spread}" if values else None
    return {**row, **means}


TRAINED: Columns = (("seeds", "{runs}"), ("covers seen", "{covers|-:,}"))
MEASURED: Columns = (
    ("bits read", "{bit_accuracy|-:.3f}"),
    ("PSNR", "{psnr|-:.1f} dB"),
    *((f"RT@{count}", f"{{rt@{count}|-}}") for count in COUNTS),
)


def _intervention_columns(figures: Any) -> Columns:
    """Ours, and what the paper reports in brackets; where it has no RT, training failed there."""
    published = ["{accuracy:.3f}", "{psnr:.2f} dB", *(f"{{rt/{count}:.3f}}" for count in COUNTS)]

    def beside(ours: Any, theirs: str) -> Any:
        def text(row: Row) -> str:
            failed = theirs.startswith("{rt") and "rt" not in row["paper"]
            paper = "training failure" if failed else shown(row["paper"], theirs)
            return f"{shown(row, ours)} ({paper})" if paper else shown(row, ours)

        return text

    pairs = zip(MEASURED, published, strict=True)
    compared = [(f"{heading} (paper)", beside(ours, theirs)) for (heading, ours), theirs in pairs]
    bits, messages = ("bits", "{settings/bits|-}"), ("messages of RT", "{messages|-}")
    return [("variant", "{variant}"), bits, *TRAINED, *compared, messages]


INTERVENTIONS = Table(
    "Each variant with its quality and RT, as the mean over seeds, and the paper's in brackets",
    lambda figures: [
        _over_seeds({**row, "variant": label.replace("-", " ")})
        for part in ("trained", "untrained")
        for label, row in figures[part].items()
    ],
    _intervention_columns,
)
TRAINING_FACTORS = Table(
    "Each training choice with what became of quality and RT",
    lambda figures: map(_over_seeds, nested("watermark", "changed")(figures)),
    (WATERMARK, ("changed", "{changed}"), *TRAINED, *MEASURED),
)
PHASES = ("loading", "encoding", "noise", "decoding", "learning", "validation")
"""Of training, in the order of a step."""

TRAINING_SPEED = Table(
    "Pictures a second on the machine of the training factors, and what the time went into",
    lambda figures: [
        {**row, **run, "share": {**dict.fromkeys(PHASES, 0), **run["seconds_share"]}}
        for row in nested("watermark", "changed")(figures)
        for run in row["seeds"].values()
        if run.get("seconds_share")
    ],
    (
        WATERMARK,
        ("changed", "{changed}"),
        ("pictures a second", "{images_per_second:.1f}"),
        *((phase, f"{{share/{phase}:%1}} %") for phase in PHASES),
    ),
)
BACKBONES = {"convnext": "ConvNeXt", "resnet": "ResNet", "features": "frozen features + MLP"}
FILTERS = Table(
    "ROC-AUC of each backbone on held-out pictures, with the paper's beside it",
    nested("watermark", "backbone"),
    (
        WATERMARK,
        ("backbone", lambda row: BACKBONES[row["backbone"]]),
        ("AUC, clean", "{held_out_auc/clean:%2} %"),
        ("AUC, distorted", "{held_out_auc/distorted:%2} %"),
        ("pictures of a kind", "{photos/held_out}"),
        ("paper (full width, clean and distorted, DINOv2-G features)", "{paper|-:%2} %"),
    ),
)


def _stage_rows(figures: Any) -> Iterator[Row]:
    stages = [("decode", "host", "-"), ("resize", "host", "-")]
    for runtime in ("torch", "cpu"):
        stages += [(stage, runtime, "fp32") for stage in ("hash", "decoder", "network")]
    stages.append(("statistics", "host", "-"))
    for name, subject in figures["subjects"].items():
        timed = {
            (row["stage"], row["runtime"], row["precision"]): row["milliseconds"]
            for row in subject["rows"]
            if row["batch"] == 8
        }
        whole = timed["end to end", "torch", "fp32"]
        for stage, runtime, precision in stages:
            by = f"{runtime} {precision}".removesuffix(" -")
            share = timed[stage, runtime, precision] / whole
            yield {"subject": name, "stage": stage, "by": by, "share": share}


LATENCY_STAGES = Table(
    "Where the time goes at batch 8, as shares of PyTorch's end to end",
    _stage_rows,
    (
        ("watermark+hash", "{subject}"),
        ("stage", "{stage}"),
        ("by", "{by}"),
        ("share", "{share:%1} %"),
    ),
)
SCALING = Table(
    "Several processes against one: pictures a second, and processor time a picture",
    list,
    (
        ("watermark+hash", "{watermark}+{hash}"),
        ("work", "{work|verify}"),
        ("processes", "{workers}"),
        ("pictures a second", below("speed_ratio", RATIO)),
        ("processor time a picture", below("cost_ratio", RATIO)),
        ("cores", "{cores}, load average {load_average:.1f}"),
    ),
)
OVERHEAD = Table(
    "What the Verifier and fusing cost, and how long opening takes",
    list,
    (
        ("bundle", "{watermark}, {hash}"),
        ("batch", "{batch}"),
        ("Verifier to a bare session", "{verifier_to_session:.2f} x"),
        ("one fused graph to two", "{fused_to_apart:.2f} x"),
        ("import and open", "{import_and_open_seconds:.2f} s"),
    ),
)
PARITY = Table(
    "Exported graphs against the SDK, one run of 'bench parity' a watermark and hash",
    list,
    (
        WATERMARK,
        HASH,
        ("precision", "{precision}"),
        ("photos", "{photos}"),
        ("equal bits", "{bits:%3} %"),
        ("unmarked payloads too", "{all_bits:%3} %"),
        ("largest difference of a payload logit", "{max_decoder_difference:.1g}"),
        ("of a hash logit", "{max_hash_difference:.1g}"),
        ("equal verdicts", counted("verdicts")),
    ),
)


def _accepted(path: str) -> str:
    """Forgeries or genuine pictures that were accepted, under the default rule."""
    return below(f"{path}/soft", "{successes} of {trials}")


def _without_and_with(path: str) -> str:
    none, locked = (below(f"security/{arm}", _accepted(path)) for arm in ("none", "coverlock"))
    return f"{none} → {locked}"


ANY_SIZE = Table(
    "Watermarks of any size at three sizes, without and with the lock",
    nested("watermark", "photos", "side"),
    (
        WATERMARK,
        ("photos", "{photos} ({pictures})"),
        ("size", "{side} px"),
        ("PSNR", "{security/none/genuine/clean/psnr:.1f} dB"),
        ("bits read", "{security/none/genuine/clean/bit_accuracy:%1} %"),
        ("JPEG", "{security/none/genuine/jpeg/bit_accuracy:%1} %"),
        ("RT@1", lambda row: f"{_rt_in_8_bits(row):.2f}"),
        ("re-embedding accepted", _without_and_with("attacks/re-embedding/asr")),
        ("GT@1 accepted", _without_and_with("attacks/gt/asr")),
        ("genuine accepted", _without_and_with("genuine/clean/tpr")),
        ("after JPEG", _without_and_with("genuine/jpeg/tpr")),
    ),
)


def _rt_in_8_bits(row: Row) -> float:
    rt: float = next(point["rt"] for point in row["rt"]["points"] if point["eight_bit"])
    return rt


LICENCES = {
    "blind-watermark": "MIT",
    "dwtdct": "MIT",
    "dwtdctsvd": "MIT",
    "rivagan": "MIT",
    "steganogan": "MIT",
}
"""Of published weights and libraries; what was trained here has the licence of this project."""

CHOICES = Table(
    "What the watermarks that are here bring and cost",
    nested("watermark"),
    (
        WATERMARK,
        ("bits", "{bits}"),
        ("size", lambda row: f"any ({row['side']} px)" if row["any_size"] else f"{row['side']} px"),
        ("licence", lambda row: LICENCES.get(row["watermark"], "Apache-2.0 †")),
        ("PSNR", "{psnr:.1f} dB"),
        ("bits read", "{bit_accuracy:%1} %"),
        ("after JPEG", "{bit_accuracy_jpeg:%1} %"),
        ("RT@1", "{rt/rt:.2f} [{rt/low:.2f}, {rt/high:.2f}]"),
        ("mark", lambda row: f"{1000 * row['embed_seconds']:.0f} ms"),
        ("read", lambda row: f"{1000 * row['decode_seconds']:.0f} ms"),
    ),
)
