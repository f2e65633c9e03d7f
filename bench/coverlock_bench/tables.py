"""Tables of the README and the docs, rendered from result files and never typed.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from coverlock_sdk.distortions import EVALUATION
from coverlock_sdk.errors import CoverLockError

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def render(text: str, results: Path) -> str:
    """``text`` with every table made anew from the files in ``results``."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in TABLES:
            raise CoverLockError(f"there is no table '{name}': use one of {', '.join(TABLES)}")
        return f"{match.group(1)}{TABLES[name](results)}\n{match.group(3)}"

    return _BLOCK.sub(replace, text)


def _figures(path: Path) -> Any:
    return json.loads(path.read_text())["figures"]


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _of(rate: float, count: int) -> str:
    return f"{round(rate * count)} of {count}"


def _rules_table(results: Path) -> str:
    """Forgeries and genuine pictures, by watermark, defence and rule."""
    rows = []
    for watermark, figures in _figures(results / "rules.json").items():
        for defense in ("none", "coverlock"):
            for rule, rates in figures[defense].items():
                rows.append(
                    [
                        watermark,
                        "CoverLock" if defense == "coverlock" else "none",
                        rule,
                        _of(rates["asr_gt1"], figures["photos"]),
                        _of(rates["tpr"]["clean"], figures["photos"]),
                        f"{100 * rates['tpr_mean_of_six']:.1f} %",
                    ]
                )
    header = ["watermark", "defence", "rule", "forgeries accepted (GT@1)"]
    return table([*header, "genuine accepted", "genuine accepted, six distortions"], rows)


def _roundtrip_table(results: Path) -> str:
    """Marked photos that verify as saved, and what fixed-point binding changes."""
    rows = []
    for watermark, figures in _figures(results / "roundtrip.json").items():
        for name, row in figures.items():
            rule, _, binding = name.partition(": ")
            rows.append(
                [
                    watermark,
                    rule,
                    binding,
                    f"{row['accepted']} of {row['photos']}",
                    f"{100 * row['bit_accuracy']:.2f} %",
                    f"{100 * row['hash_bit_error']:.2f} %",
                    f"{10 ** row['median_log10_p']:.1g}",
                    f"{row['psnr_mean']:.1f} dB",
                ]
            )
    header = ["watermark", "rule", "binding", "accepted", "bits read", "hash error"]
    return table([*header, "median p", "PSNR"], rows)


def _calibration_table(results: Path) -> str:
    """Unmarked photos against fixed messages."""
    rows = []
    for watermark, arms in _figures(results / "calibration.json").items():
        for arm, figures in arms.items():
            ratio = figures["variance_ratio"]
            cells = [watermark, arm, f"{ratio['mean']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})"]
            for rule in ("hard", "soft"):
                for level in ("0.01", "0.001"):
                    exceedance = figures["exceedance"][rule][level]
                    cells.append(
                        f"{100 * exceedance['observed']:.2f} % "
                        f"[{100 * exceedance['low']:.2f}, {100 * exceedance['high']:.2f}] "
                        f"expected {100 * exceedance['expected']:.2f}"
                    )
            rows.append(cells)
    header = ["watermark", "", "variance / binomial (min-max over messages)"]
    levels = ["hard, p <= 1e-2", "hard, p <= 1e-3", "soft, p <= 1e-2", "soft, p <= 1e-3"]
    return table([*header, *levels], rows)


def _hardening_table(results: Path) -> str:
    """One result file per watermark, so that another one can be added without measuring all."""
    files = sorted((results / "hardening").glob("*.json"))
    return hardening_summary({k: v for file in files for k, v in _figures(file).items()})


def hardening_summary(figures: dict[str, Any]) -> str:
    """Marked photos as bound and hardened, by watermark."""
    rows = []
    for watermark, arms in figures.items():
        for arm in ("as bound", "hardened"):
            row = arms[arm]
            forged = [_of(row[rule]["asr_gt1"], arms["photos"]) for rule in ("hard", "soft")]
            rows.append(
                [
                    watermark,
                    arm,
                    _percent(row["hash_bit_error"]["none"]),
                    _percent(row["hash_bit_error_mean_of_six"]),
                    _percent(row["hash_bit_error"]["crop"]),
                    *(_percent(row[rule]["tpr_mean_of_six"], 1) for rule in ("hard", "soft")),
                    _percent(row["forged_code_agreement"], 1),
                    " / ".join(forged),
                    f"{row['psnr_mean']:.2f} dB",
                    f"{row['seconds_median']:.1f} s",
                ]
            )
    header = ["watermark", "", "code error as marked", "six distortions", "80 % crop"]
    genuine = ["genuine accepted, hard", "soft"]
    forged = ["code of forged and source agree", "forgeries accepted, hard / soft"]
    return table([*header, *genuine, *forged, "PSNR", "time"], rows)


def _hash_table(results: Path) -> str:
    return hash_summary(_figures(results / "hash.json"))


def hash_summary(figures: dict[str, Any]) -> str:
    """Each hash of a report in one line, and fair coins to compare them with in the last."""
    rows = [
        [
            name,
            _percent(row["bit_error_mean_of_six"]),
            f"{row['imbalance']:.3f}",
            f"{row['correlation']:.3f}",
            _spread(row["different"]),
            _percent(row["different"]["accepted"]["256"], 3),
            _spread(row["similar"]),
            _percent(row["similar"]["accepted"]["256"]),
            _amount(row["parameters"]),
            _amount(row["bytes"]),
            f"{row['times_dct']:.1f}",
        ]
        for name, row in figures["hashes"].items()
    ]
    coins = figures["fair_coins"]
    rows.append(
        [
            "fair coins",
            "",
            f"{coins['imbalance']:.3f}",
            f"{coins['correlation']:.3f}",
            _spread(coins),
            _percent(coins["accepted"]["256"], 3),
            _spread(coins),
            _percent(coins["accepted"]["256"]),
            *([""] * 3),
        ]
    )
    header = ["hash", "bit error, six distortions", "imbalance", "correlation of bits"]
    different = ["agreement of different pictures", "accepted"]
    similar = ["agreement of similar pictures", "accepted"]
    return table([*header, *different, *similar, "parameters", "bytes", "time / dct"], rows)


def _hash_distortions_table(results: Path) -> str:
    """Bit error of each hash under each distortion."""
    hashes = _figures(results / "hash.json")["hashes"]
    distortions = next(iter(hashes.values()))["bit_error"]
    rows = [
        [distortion, *(_percent(row["bit_error"][distortion]) for row in hashes.values())]
        for distortion in distortions
    ]
    return table(["distortion", *hashes], rows)


def _hash_lengths_table(results: Path) -> str:
    """Pairs of pictures that would be accepted for one another, by length of the message."""
    rows = []
    for name, row in _figures(results / "hash.json")["hashes"].items():
        for kind in ("different", "similar"):
            shares = [_percent(share, 3) for share in row[kind]["accepted"].values()]
            rows.append([name, f"{row[kind]['pairs']:,} {kind}", *shares])
            lengths = list(row[kind]["accepted"])
    return table(["hash", "pairs", *(f"L = {length}" for length in lengths)], rows)


def _hash_latency_table(results: Path) -> str:
    """Time of one picture relative to DINOv2-S; milliseconds of a busy machine tell nothing."""
    rows = [
        [name, f"{row['speed_up']:.0f}"]
        for name, row in _figures(results / "hash-latency.json").items()
    ]
    return table(["hash", "pictures in the time of one by DINOv2-S"], rows)


def _hash_variants_table(results: Path) -> str:
    return hash_variants_summary(_figures(results / "hash-variants.json"))


def hash_variants_summary(figures: dict[str, Any]) -> str:
    """Each way to a hash in one line, on held-out photos."""
    rows = [
        [
            name,
            _percent(row["error"]),
            _percent(row["error_crop"]),
            f"{row['pairs_mean']:.3f} ± {row['pairs_deviation']:.3f}",
            _percent(row["pairs_accepted"], 3),
            _amount(row["parameters"]),
            f"{row['times_nano']:.1f}",
        ]
        for name, row in figures.items()
    ]
    header = ["hash", "bit error, six distortions", "under an 80 % crop"]
    pairs = ["agreement of different pictures", "accepted"]
    return table([*header, *pairs, "parameters", "time / nano"], rows)


def _spread(agreement: dict[str, Any]) -> str:
    return f"{agreement['mean']:.3f} ± {agreement['std']:.3f}"


def _percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"


def _amount(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _documents_table(results: Path) -> str:
    """Transplants between pages of text."""
    rows = [
        [
            name,
            f"{100 * row['agreement_mean']:.0f} % (at most {100 * row['agreement_max']:.0f} %)",
            *(
                f"{row['forgeries_accepted'][rule]} of {row['forgeries']}"
                for rule in ("hard", "soft")
            ),
        ]
        for name, row in _figures(results / "documents.json").items()
    ]
    return table(["hash", "bits in which codes agree", "accepted, hard", "accepted, soft"], rows)


def _adaptive_table(results: Path) -> str:
    return adaptive_summary(_figures(results / "adaptive.json"))


def adaptive_summary(figures: dict[str, Any]) -> str:
    """Forgeries that pass, by adaptive attacker and budget."""
    rows = [
        [
            attack,
            budget,
            *(_rate(cell[rule]) for rule in ("hard", "soft")),
            f"{cell['psnr']:.1f} dB",
        ]
        for attack, budgets in figures.items()
        for budget, cell in budgets.items()
    ]
    return table(["attack", "budget", "accepted, hard", "accepted, soft", "PSNR"], rows)


def _levers_table(results: Path) -> str:
    return levers_summary(_figures(results / "levers.json"))


def levers_summary(figures: dict[str, Any]) -> str:
    """Collisions and genuine pictures that pass, by lever."""
    rows, budgets = [], list(next(iter(figures.values()))["forgeries"])
    for lever, row in figures.items():
        forged, genuine = [row["forgeries"][budget] for budget in budgets], row["genuine"]
        matched = [_percent(cell["bits_matched"], 0) for cell in (*forged, genuine)]
        rows.append([lever, *(_rate(cell) for cell in (*forged, genuine)), " / ".join(matched)])
    header = ["lever", *(f"collisions within {b} levels" for b in budgets), "genuine, distorted"]
    return table([*header, "bits that match in each"], rows)


def _rate(cell: dict[str, Any]) -> str:
    """Successes of trials, and the interval of the share."""
    interval = f"[{100 * cell['low']:.1f}, {100 * cell['high']:.1f}] %"
    return f"{cell['successes']} of {cell['trials']} {interval}"


def _security_table(name: str) -> Callable[[Path], str]:
    """A table of ``coverlock bench security``."""

    def make(results: Path) -> str:
        from coverlock_bench.auditing import security_tables

        return security_tables.TABLES[name][1](_figures(results / "security.json"))

    return make


def _references_table(results: Path) -> str:
    return references_summary(_figures(results / "references.json"))


def references_summary(figures: dict[str, Any]) -> str:
    """The watermarks trained here: quality, bits read under the six distortions, and RT."""
    rows = []
    for name, row in figures.items():
        held_out = row["card"]["held_out"]
        distorted = held_out["accuracy_under_distortion"]
        rows.append(
            [
                name,
                f"{row['bits']} at {row['side']} px",
                f"{row['card']['images_seen']:,}",
                f"{held_out['bit_accuracy']:.3f}",
                f"{held_out['psnr_mean']:.1f} dB",
                *(f"{distorted[distortion]:.3f}" for distortion in EVALUATION),
                *(f"{row['rt'][n]['rt']:.3f}" if n in row["rt"] else "-" for n in RT_COUNTS),
            ]
        )
    header = ["watermark", "bits", "images seen", "bits read", "PSNR", *EVALUATION]
    return table([*header, *(f"RT@{count}" for count in RT_COUNTS)], rows)


def _interventions_table(results: Path) -> str:
    return interventions_summary(_figures(results / "interventions.json"))


def interventions_summary(figures: dict[str, Any]) -> str:
    """Each variant with its quality and RT, as the mean over seeds, beside the paper's RT."""
    rows = [
        [label.replace("-", " "), *_trained_cells(row), _paper_rt(row["paper"])]
        for label, row in figures["trained"].items()
    ]
    for label, row in figures["untrained"].items():
        rows.append([label.replace("-", " "), "0", *["-"] * 6, _paper_rt(row["paper"])])
    return table(["variant", *TRAINED_HEADER, "RT@100 in the paper"], rows)


RT_COUNTS = ("1", "10", "100")
TRAINED_HEADER = (
    "seeds",
    "images seen",
    "bits read",
    "PSNR",
    *(f"RT@{count}" for count in RT_COUNTS),
)


def _trained_cells(row: dict[str, Any]) -> list[str]:
    """The cells under ``TRAINED_HEADER`` of a network trained with one or more seeds."""
    runs = list(row["seeds"].values())
    cells = [str(len(runs)), f"{runs[0]['images_seen']:,}"]
    cells.append(f"{fmean(run['bit_accuracy'] for run in runs):.3f}")
    cells.append(f"{fmean(run['psnr'] for run in runs):.1f} dB")
    for count in RT_COUNTS:
        values = [run["rt"][count]["rt"] for run in runs if count in run["rt"]]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        cells.append(f"{fmean(values):.2f}{spread}" if values else "-")
    return cells


def _training_factors_table(results: Path) -> str:
    return training_factors_summary(_figures(results / "training-factors.json"))


def training_factors_summary(figures: dict[str, Any]) -> str:
    """Each training choice with what became of quality and RT."""
    rows = [
        [system, change, *_trained_cells(row)]
        for system, changes in figures.items()
        for change, row in changes.items()
    ]
    return table(["watermark", "changed", *TRAINED_HEADER], rows)


def _paper_rt(paper: dict[str, Any]) -> str:
    return f"{paper['rt']['100']:.2f}" if "rt" in paper else "training failure"


def _filters_table(results: Path) -> str:
    return filters_summary(_figures(results / "filters.json"))


def filters_summary(figures: dict[str, Any]) -> str:
    """ROC-AUC of each backbone on held-out pictures, with the paper's beside it."""
    names = {"convnext": "ConvNeXt", "resnet": "ResNet", "features": "frozen features + MLP"}
    rows = [
        [
            watermark,
            names[backbone],
            *(f"{100 * card['held_out_auc'][kind]:.2f} %" for kind in ("clean", "distorted")),
            str(card["photos"]["held_out"]),
            f"{100 * card['paper']:.2f} %",
        ]
        for watermark, backbones in figures.items()
        for backbone, card in backbones.items()
    ]
    header = ["watermark", "backbone", "AUC, clean", "AUC, distorted", "pictures of a kind"]
    return table([*header, "paper (MBRS, full width)"], rows)


def _latency_table(results: Path) -> str:
    return latency_summary({"subjects": _latency_subjects(results)})


def _latency_subjects(results: Path) -> dict[str, Any]:
    """Of all latency runs: each watermark and hash was timed in one of them."""
    subjects: dict[str, Any] = {}
    for path in sorted(results.glob("latency*.json")):
        document = json.loads(path.read_text())
        random = document["config"]["random_weights"]
        for name, subject in document["figures"]["subjects"].items():
            made_up = name.partition("+")[2] in random
            subjects[f"{name} (random weights)" if made_up else name] = subject
    return subjects


def latency_summary(figures: dict[str, Any]) -> str:
    """Every runtime against PyTorch: end to end, and the network alone beside the roofline."""
    rows = []
    for name, subject in figures["subjects"].items():
        timed = {
            (row["stage"], row["batch"], row["runtime"], row["precision"]): row
            for row in subject["rows"]
        }
        for (stage, batch, runtime, precision), row in timed.items():
            if stage != "network":
                continue
            whole = timed["end to end", batch, runtime, precision]
            rows.append(
                [
                    name,
                    str(batch),
                    f"{runtime} {precision}",
                    _ratio(whole["ratio_to_torch"]),
                    _ratio(row["ratio_to_torch"]),
                    f"{100 * row['of_matmul_peak']:.0f} %",
                ]
            )
    header = ["watermark+hash", "batch", "runtime", "end to end", "network alone"]
    return table([*header, "of matmul peak"], rows)


def _latency_stages_table(results: Path) -> str:
    """Where the time goes at batch 8, as shares of PyTorch's end to end."""
    rows = []
    for name, subject in _latency_subjects(results).items():
        timed = {
            (row["stage"], row["runtime"], row["precision"]): row["milliseconds"]
            for row in subject["rows"]
            if row["batch"] == 8
        }
        whole = timed["end to end", "torch", "fp32"]
        stages = [("decode", "host", "-"), ("resize", "host", "-")]
        for runtime in ("torch", "cpu"):
            stages += [(stage, runtime, "fp32") for stage in ("hash", "decoder", "network")]
        stages.append(("statistics", "host", "-"))
        for stage, runtime, precision in stages:
            share = f"{100 * timed[stage, runtime, precision] / whole:.1f} %"
            rows.append([name, stage, f"{runtime} {precision}".removesuffix(" -"), share])
    return table(["watermark+hash", "stage", "by", "share"], rows)


def _scaling_table(results: Path) -> str:
    """Several processes against one: pictures a second, and processor time a picture."""
    document = json.loads((results / "scaling.json").read_text())
    config, figures = document["config"], document["figures"]
    row = [
        f"{config['watermark']}+{config['hash']}",
        str(config["workers"]),
        _ratio(figures["speed_ratio"]),
        _ratio(figures["cost_ratio"]),
        f"{figures['cores']}, load average {figures['load_average']:.0f}",
    ]
    header = ["watermark+hash", "processes", "pictures a second", "processor time a picture"]
    return table([*header, "cores"], [row])


def _ratio(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} x ({ratio['min']:.2f}-{ratio['max']:.2f})"


def _parity_table(results: Path) -> str:
    """Exported graphs against the SDK, one run of ``bench parity`` a watermark and hash."""
    rows = []
    for path in sorted(results.glob("parity-*.json")):
        document = json.loads(path.read_text())
        for precision, figures in document["figures"].items():
            rows.append(
                [
                    document["config"]["watermark"],
                    document["config"]["hash"],
                    precision,
                    str(figures["photos"]),
                    f"{100 * figures['bits']:.3f} %",
                    f"{100 * figures['all_bits']:.3f} %",
                    f"{figures['max_decoder_difference']:.1g}",
                    f"{figures['max_hash_difference']:.1g}",
                    _of(figures["verdicts"], figures["photos"]),
                ]
            )
    header = ["watermark", "hash", "precision", "photos", "equal bits", "unmarked payloads too"]
    largest = ["largest difference of a payload logit", "of a hash logit"]
    return table([*header, *largest, "equal verdicts"], rows)


def _overhead_table(results: Path) -> str:
    """What the Verifier and fusing cost, and how long opening takes."""
    document = json.loads((results / "overhead.json").read_text())
    figures = document["figures"]
    rows = [
        [
            f"{document['config']['watermark']}, {document['config']['hash']}",
            str(figures["batch"]),
            f"{figures['verifier_to_session']:.2f} x",
            f"{figures['fused_to_apart']:.2f} x",
            f"{figures['import_and_open_seconds']:.2f} s",
        ]
    ]
    header = ["bundle", "batch", "Verifier to a bare session", "one fused graph to two"]
    return table([*header, "import and open"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "overhead": _overhead_table,
    "parity": _parity_table,
    "latency": _latency_table,
    "latency-stages": _latency_stages_table,
    "scaling": _scaling_table,
    "rules": _rules_table,
    "roundtrip": _roundtrip_table,
    "calibration": _calibration_table,
    "hardening": _hardening_table,
    "hash": _hash_table,
    "hash-distortions": _hash_distortions_table,
    "hash-lengths": _hash_lengths_table,
    "hash-latency": _hash_latency_table,
    "hash-variants": _hash_variants_table,
    "documents": _documents_table,
    "references": _references_table,
    "interventions": _interventions_table,
    "training-factors": _training_factors_table,
    "filters": _filters_table,
    "adaptive": _adaptive_table,
    "levers": _levers_table,
    **{
        f"security-{name}": _security_table(name)
        for name in (
            "headline",
            "summary",
            "systems",
            "asr-hard",
            "asr-soft",
            "bit-accuracy",
            "tpr",
            "errors",
            "rt",
        )
    },
}
