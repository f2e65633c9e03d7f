"""Links from the docs to other files of the repository, which the site does not contain."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\]\((?:\.\./)+((?!docs/)[\w./-]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Point links that leave ``docs/`` to the file's page in the repository."""
    own_depth = page.file.src_uri.count("/")

    def to_repository(match: re.Match[str]) -> str:
        climbs = match.group(0).count("../")
        if climbs <= own_depth:  # still inside the docs
            return match.group(0)
        return f"]({config.extra['repository']}/blob/main/{match.group(1)})"

    return _OUTSIDE.sub(to_repository, markdown)
