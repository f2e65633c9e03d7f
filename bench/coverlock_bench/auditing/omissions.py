"""What an audit did not measure, and the real reason, collected from all over its figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coverlock_bench.auditing.assessment import NO_TIME
from coverlock_bench.auditing.security_tables import attack_name, defense_name

Omission = tuple[str, str]


def omissions(figures: dict[str, Any]) -> list[Omission]:
    """What is missing and why, in the order of the report."""
    return [*_security(figures["security"]), *_transferability(figures["rt"]), *_rest(figures)]


def _security(security: dict[str, Any]) -> Iterator[Omission]:
    for setting, behind in security.items():
        where = f"behind {defense_name(setting)}" if setting != "none" else "without a lock"
        if "not_measured" in behind:
            yield f"everything {where}", behind["not_measured"]
        for attack, cell in behind.get("attacks", {}).items():
            if "not_measured" in cell:
                yield f"{attack_name(attack)} {where}", cell["not_measured"]
        for change, cell in behind.get("genuine", {}).items():
            if "not_measured" in cell:
                yield f"genuine pictures {where}, {change}", cell["not_measured"]


def _transferability(curve: dict[str, Any]) -> Iterator[Omission]:
    if not curve["points"]:
        yield "RT without a lock", NO_TIME
    for count, needed in curve.get("missing", {}).items():
        yield f"RT@{count}", f"{needed} more pictures are needed"
    if "not_measured" in curve.get("locked", {}):
        yield "RT@1 behind CoverLock", curve["locked"]["not_measured"]
    for side, found in curve.get("sizes", {}).items():
        if "not_measured" in found:
            yield f"RT at {side} pixels", found["not_measured"]


def _rest(figures: dict[str, Any]) -> Iterator[Omission]:
    for name, found in figures["signatures"].items():
        if "not_measured" in found:
            yield f"signatures: {name}", found["not_measured"]
    for name, reason in figures["not_shown"].items():
        yield f"picture: {name}", reason
