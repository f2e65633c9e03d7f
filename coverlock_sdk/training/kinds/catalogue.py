"""Every kind of drawn picture by name."""

from __future__ import annotations

from coverlock_sdk.training.kinds.kind import Kind
from coverlock_sdk.training.kinds.motifs import MOTIFS
from coverlock_sdk.training.kinds.pages import PAGES

KINDS: dict[str, Kind] = {kind.name: kind for kind in (*PAGES, *MOTIFS)}
"""Every kind by name, in the order of reports."""
