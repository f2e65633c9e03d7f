"""Declares tables: where rows come from, and a heading and a template for each column.

A template is text with paths into a row: ``{photos}``, ``{psnr:.1f} dB``. The format ``%1`` shows a
share in percent with one digit. ``{rt/100|-}`` makes the whole cell ``-`` if there is no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Columns = Sequence[tuple[str, str | Callable[[Any], str]]]

RATE = "{successes} of {trials} [{low:%1}, {high:%1}] %"

_FIELD = re.compile(r"\{(?P<path>[^{}|:]+)(?:\|(?P<missing>[^{}:]*))?(?::(?P<form>[^{}]*))?\}")


@dataclass(frozen=True)
class Table:
    """A title, rows made from the figures of a result file, and columns.

    A column is a heading and a template, or a function of the row if a template is not enough.
    """

    title: str
    rows: Callable[[Any], Iterable[Row]]
    columns: Columns | Callable[[Any], Columns]
    """A function of the figures if they determine the columns."""

    def markdown(self, figures: Any) -> str:
        """The table of ``figures``."""
        columns = self.columns(figures) if callable(self.columns) else self.columns
        rows = [[shown(row, cell) for _, cell in columns] for row in self.rows(figures)]
        lines = [[heading for heading, _ in columns], ["---"] * len(columns), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(row: Row, cell: str | Callable[[Any], str]) -> str:
    """A template filled in from ``row``."""
    if callable(cell):
        return cell(row)
    for field in _FIELD.finditer(cell):
        if value_at(row, field["path"]) is None:
            return field["missing"] or ""
    return _FIELD.sub(lambda field: _text(value_at(row, field["path"]), field["form"] or ""), cell)


def _text(value: Any, form: str) -> str:
    if isinstance(value, str):
        return value
    return f"{100 * value:.{form[1:]}f}" if form.startswith("%") else format(value, form)


def nested(*names: str) -> Callable[[Any], Iterable[Row]]:
    """Rows from nested mappings; the keys on the way become the cells ``names``."""

    def rows(figures: Row, left: Sequence[str] = names) -> Iterable[Row]:
        if not left:
            return [figures]
        return [
            {**row, left[0]: key} for key, inner in figures.items() for row in rows(inner, left[1:])
        ]

    return rows


def value_at(row: Any, path: str) -> Any:
    """The value at ``path`` in nested mappings, or None."""
    for step in path.split("/"):
        row = row.get(step) if isinstance(row, Mapping) else None
    return row


def below(path: str, template: str) -> str:
    """A template whose paths all start at ``path``."""
    return template.replace("{", f"{{{path}/")
