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
from coverlock_bench.hashes.tables import (
    BARS,
    COLLISIONS,
    COMPUTED,
    HASHES,
    KINDS,
    LINEARITY,
    VARIANTS,
)
from coverlock_bench.knowing import tables as knowing
from coverlock_bench.known_originals import KNOWN_ORIGINALS
from coverlock_bench.provenance import tables as provenance
from coverlock_bench.tables import Table
from coverlock_sdk.errors import CoverLockError
from experiments import tables
from experiments.code_pairs import CODE_PAIRS
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
    "rules": ("rules.json", tables.RULES_TABLE, _together),
    "roundtrip": ("roundtrip.json", tables.ROUNDTRIP, _together),
    "calibration": ("calibration.json", tables.CALIBRATION, _together),
    "hardening": ("hardening.json", tables.HARDENING, _together),
    "hardening-duo": ("hardening-duo.json", tables.HARDENING, _together),
    "hash-curve": ("hash-curve.json", COLLISIONS, _together),
    "lookalikes": ("lookalikes*.json", tables.LOOKALIKES, _together),
    "lookalike-kinds": ("lookalikes*.json", tables.LOOKALIKE_KINDS, _together),
    "template-collisions": ("template-collisions.json", tables.TEMPLATE_COLLISIONS, _together),
    "duo-heads": ("duo-heads.json", tables.DUO_HEADS, _together),
    "told-templates": ("told-templates*.json", tables.TOLD_TEMPLATES, _together),
    "hash": ("hash.json", HASHES, _together),
    "hash-distortions": ("hash.json", tables.HASH_DISTORTIONS, _together),
    "hash-lengths": ("hash.json", tables.HASH_LENGTHS, _together),
    "hash-latency": ("hash-latency.json", tables.HASH_LATENCY, _together),
    "hash-variants": ("hash-variants.json", tables.HASH_VARIANTS, _together),
    "hash-kinds": ("hash-kinds.json", KINDS, _together),
    "hash-collisions": ("hash-collisions.json", COLLISIONS, _together),
    "hash-collisions-keen": ("hash-collisions-keen.json", COLLISIONS, _together),
    "hash-linearity": ("hash-collisions.json", LINEARITY, _together),
    "keen-variants": ("hash/keen.json", VARIANTS, _together),
    "duo-variants": ("hash/duo.json", COMPUTED, _together),
    "hash-bars-duo": ("hash-duo.json", BARS, _together),
    "hash-kinds-duo": ("hash-duo.json", KINDS, _together),
    "hash-bars": ("hash-kinds.json", BARS, _together),
    "floors": ("floors.json", tables.FLOORS, _together),
    "floors-duo": ("floors-duo.json", tables.SOFT_FLOORS, _together),
    "floors-heldout": ("floors-heldout.json", tables.FLOORS, _together),
    "documents": ("documents.json", tables.DOCUMENTS, _together),
    "references": ("references.json", tables.REFERENCES, _together),
    "more-sources": ("transferability.json", tables.MORE_SOURCES, _together),
    "transferability": ("references.json", tables.TRANSFERABILITY, _together),
    "interventions": ("interventions.json", tables.INTERVENTIONS, _together),
    "training-factors": ("training-factors.json", tables.TRAINING_FACTORS, _together),
    "training-speed": ("training-factors.json", tables.TRAINING_SPEED, _together),
    "filters": ("filters.json", tables.FILTERS, _together),
    "calibration-keen": ("calibration-keen.json", tables.CALIBRATION, _together),
    "calibration-rare": ("calibration-rare.json", tables.CALIBRATION_RARE, _together),
    "calibration-classical": ("calibration-classical.json", tables.CALIBRATION, _together),
    "choices": ("choices.json", tables.CHOICES, _together),
    "any-size": ("any-size*.json", tables.ANY_SIZE, _by_photos),
    "adaptive": ("adaptive.json", ADAPTIVE, _together),
    "levers": ("levers.json", tables.LEVERS, _together),
    "key-attacks": ("key-attacks.json", knowing.KEY_ATTACKS, _together),
    "key-attacks-bounds": ("key-attacks.json", knowing.KEY_BOUNDS, _together),
    "key-attacks-pictures": ("key-pictures.json", knowing.END_TO_END, _together),
    "key-attacks-queries": ("key-attacks.json", knowing.QUERIES, _together),
    "lock-schemes": ("lock-schemes.json", knowing.LOCK_SCHEMES, _together),
    "lock-schemes-similar": ("salt-costs.json", knowing.SIMILAR, _together),
    "lock-schemes-nulls": ("salt-costs.json", knowing.NULLS, _together),
    "known-originals": ("known-originals.json", KNOWN_ORIGINALS, _together),
    "headline": ("*.json", HEADLINE, by_command),
    "paper": ("*.json", FIDELITY, by_command),
    "code-pairs": ("code-pairs.json", CODE_PAIRS, _together),
    "forgeries": ("forgeries*.json", FORGERIES, _added_up),
    "forgeries-pooled": ("forgeries*.json", FORGERIES_POOLED, _added_up),
    "c2pa-round-trips": ("provenance*.json", provenance.ROUND_TRIPS, _together),
    "c2pa-transplants": ("provenance*.json", provenance.TRANSPLANTS, _together),
    "c2pa-fingerprints": ("fingerprints.json", provenance.DISTANCES, _together),
    "c2pa-lookups": ("lookups.json", provenance.LOOKUPS, _together),
    "c2pa-edits": ("alterations.json", provenance.EDITED, _together),
    "c2pa-unaltered": ("alterations.json", provenance.UNALTERED, _together),
    "overhead": ("overhead.json", tables.OVERHEAD, _with_settings),
    "service": ("service.json", SERVICE, _together),
    "siege": ("siege.json", SIEGE, _together),
    "throughput": ("throughput*.json", THROUGHPUT, _beside_settings),
    "fuzzing": ("fuzz*.json", FUZZING, _readers),
    "large-verdicts": ("large-verdicts.json", LARGE_VERDICTS, _first),
    "gpu": ("gpu.json", GPU_STEPS, _together),
    "scaling": ("scaling*.json", tables.SCALING, _with_settings),
    "parity": ("parity-*.json", tables.PARITY, _by_precision),
    "latency": ("latency*.json", LATENCY, _subjects),
    "latency-stages": ("latency*.json", tables.LATENCY_STAGES, _subjects),
    **{
        f"{run}-{name}": (f"{run}.json", table, _together)
        for run in ("security", "security-today", "security-hidden")
        for name, table in security_tables.TABLES.items()
    },
}
"""Of each table the result files it is made from, what it is, and which figures it shows."""
