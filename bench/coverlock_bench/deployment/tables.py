"""Tables of exported graphs: latency, overhead, scale and parity."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coverlock_bench.markdown import of, table


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
        f"{figures['cores']}, load average {figures['load_average']:.1f}",
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
                    of(figures["verdicts"], figures["photos"]),
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
}
