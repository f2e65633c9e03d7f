"""The tables of our own studies, and those that only the docs show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean, stdev
from typing import Any

from coverlock_bench.auditing import paper
from coverlock_bench.tables import (
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


HARDENING = Table(
    "Photos marked without a lock, as bound and hardened, by watermark",
    _by_arm("no lock", "as bound", "hardened", "hardened, without a key"),
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


def _variance(row: Row) -> str:
    """The spread of match counts, which a key leaves nobody to count."""
    interval = "{variance_ratio/mean|-:.2f} [{variance_ratio/low:.2f}, {variance_ratio/high:.2f}]"
    return shown(row, interval + " ({variance_ratio/min:.2f}-{variance_ratio/max:.2f})")


def _share(rule: str, level: str, digits: int) -> str:
    observed = "{observed:%D} % [{low:%D}, {high:%D}] expected {expected:%D}"
    return below(f"exceedance/{rule}/{level}", observed.replace("D", str(digits)))


CALIBRATION = Table(
    "Unmarked photos against fixed messages",
    nested("watermark", "arm"),
    (
        WATERMARK,
        ("", "{arm}"),
        ("variance / binomial (min-max over messages)", _variance),
        *(
            (f"{rule}, p <= {level}", _share(rule, level, digits))
            for rule in RULES
            for level, digits in (("0.1", 1), ("0.01", 2), ("0.001", 3))
        ),
    ),
)
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
