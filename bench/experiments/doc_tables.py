"""Tables of the README and the docs, rendered from result files and never typed.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from coverlock_bench.adaptive.tables import ADAPTIVE
from coverlock_bench.auditing import security_tables
from coverlock_bench.deployment.tables import (
    FUZZING,
    GPU_STEPS,
    LARGE_VERDICTS,
    LATENCY,
    SERVICE,
    SIEGE,
    THROUGHPUT,
)
from coverlock_bench.hashes.tables import HASH_DISTORTIONS, HASH_LENGTHS, HASHES, KINDS
from coverlock_bench.provenance.tables import EDITED, UNALTERED
from coverlock_bench.tables import Table
from coverlock_sdk.errors import CoverLockError
from experiments import tables
from experiments.fidelity import FIDELITY
from experiments.forgeries import FORGERIES, FORGERIES_POOLED
from experiments.headline import HEADLINE

_BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Documents = list[dict[str, Any]]


def render(text: str, results: Path) -> str:
    """``text`` with every table made anew from the files in ``results``."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(2)
        if name not in TABLES:
            raise CoverLockError(f"there is no table '{name}': use one of {', '.join(TABLES)}")
        pattern, table, figures_of = TABLES[name]
        documents = [json.loads(path.read_text()) for path in sorted(results.glob(pattern))]
        return f"{match.group(1)}{table.markdown(figures_of(documents))}\n{match.group(3)}"

    return _BLOCK.sub(replace, text)


def _together(documents: Documents) -> Any:
    """The figures of one file, or of several that each tell of other watermarks."""
    return {name: value for document in documents for name, value in document["figures"].items()}


def _by_photos(documents: Documents) -> Any:
    """The figures of several files that tell of the same watermarks and photos at other sizes."""
    together: dict[str, dict[str, dict[str, Any]]] = {}
    for document in documents:
        for watermark, folders in document["figures"].items():
            for photos, sizes in folders.items():
                known = together.setdefault(watermark, {})
                merged = {**known.get(photos, {}), **sizes}
                known[photos] = dict(sorted(merged.items(), key=lambda item: int(item[0])))
    return together


def _with_settings(documents: Documents) -> Any:
    """One row a file: its settings and figures."""
    return [{**document["config"], **document["figures"]} for document in documents]


def _beside_settings(documents: Documents) -> Any:
    """One entry a file: its settings, and the figures apart from them."""
    return [{**document["config"], "figures": document["figures"]} for document in documents]


def _first(documents: Documents) -> Any:
    """The figures of the only file."""
    return documents[0]["figures"] if documents else []


def _readers(documents: Documents) -> Any:
    """One row for each reader that was fuzzed, and how many findings there were."""
    return [
        {
            **figures,
            "reader": reader,
            "findings": sum(found["reader"] == reader for found in document["findings"]),
        }
        for document in documents
        for reader, figures in document["readers"].items()
    ]


def _by_precision(documents: Documents) -> Any:
    """One row a file and precision: its settings and figures."""
    return [
        {**document["config"], "precision": precision, **figures}
        for document in documents
        for precision, figures in document["figures"].items()
    ]


def _subjects(documents: Documents) -> Any:
    """Of all latency runs: each watermark and hash was timed in one of them."""
    subjects: dict[str, Any] = {}
    for document in documents:
        random = document["config"]["random_weights"]
        for name, subject in document["figures"]["subjects"].items():
            made_up = name.partition("+")[2] in random
            subjects[f"{name} (random weights)" if made_up else name] = subject
    return {"subjects": subjects}


def by_command(documents: Documents) -> Any:
    """The figures of every file, by the command that made it; files of one command add up."""
    figures: dict[str, Any] = {}
    for document in documents:
        command = str(document.get("command"))
        figures[command] = _merged(figures.get(command), document.get("figures"))
    return figures


def _added_up(documents: Documents) -> Any:
    """The figures of several files of one command as one."""
    return reduce(_merged, (document["figures"] for document in documents))


def _merged(first: Any, second: Any) -> Any:
    """Both mappings in one; where they hold the same key, the second's value."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return second
    return first | {key: _merged(first.get(key), value) for key, value in second.items()}


TABLES: dict[str, tuple[str, Table, Callable[[Documents], Any]]] = {
    "adaptive": ("adaptive.json", ADAPTIVE, _together),
    "any-size": ("any-size*.json", tables.ANY_SIZE, _by_photos),
    "c2pa-edits": ("alterations.json", EDITED, _together),
    "c2pa-unaltered": ("alterations.json", UNALTERED, _together),
    "calibration": ("calibration.json", tables.CALIBRATION, _together),
    "choices": ("choices.json", tables.CHOICES, _together),
    "filters": ("filters.json", tables.FILTERS, _together),
    "forgeries": ("forgeries*.json", FORGERIES, _added_up),
    "forgeries-pooled": ("forgeries*.json", FORGERIES_POOLED, _added_up),
    "fuzzing": ("fuzz*.json", FUZZING, _readers),
    "gpu": ("gpu.json", GPU_STEPS, _together),
    "hardening": ("hardening.json", tables.HARDENING, _together),
    "hash": ("hash.json", HASHES, _together),
    "hash-distortions": ("hash.json", HASH_DISTORTIONS, _together),
    "hash-kinds": ("hash.json", KINDS, _together),
    "hash-lengths": ("hash.json", HASH_LENGTHS, _together),
    "headline": ("*.json", HEADLINE, by_command),
    "interventions": ("interventions.json", tables.INTERVENTIONS, _together),
    "large-verdicts": ("large-verdicts.json", LARGE_VERDICTS, _first),
    "latency": ("latency*.json", LATENCY, _subjects),
    "latency-stages": ("latency*.json", tables.LATENCY_STAGES, _subjects),
    "more-sources": ("transferability.json", tables.MORE_SOURCES, _together),
    "overhead": ("overhead.json", tables.OVERHEAD, _with_settings),
    "paper": ("*.json", FIDELITY, by_command),
    "parity": ("parity-*.json", tables.PARITY, _by_precision),
    "references": ("references.json", tables.REFERENCES, _together),
    "scaling": ("scaling*.json", tables.SCALING, _with_settings),
    "service": ("service.json", SERVICE, _together),
    "siege": ("siege.json", SIEGE, _together),
    "throughput": ("throughput*.json", THROUGHPUT, _beside_settings),
    "training-factors": ("training-factors.json", tables.TRAINING_FACTORS, _together),
    "training-speed": ("training-factors.json", tables.TRAINING_SPEED, _together),
    "transferability": ("references.json", tables.TRANSFERABILITY, _together),
    **{
        f"security-{name}": ("security.json", table, _together)
        for name, table in security_tables.TABLES.items()
    },
}
"""Of each table the result files it is made from, what it is, and which figures it shows."""
