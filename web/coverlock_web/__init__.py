"""The verify page: an exported bundle as one HTML file that runs in a browser, offline.

It plugs into the SDK through the same hooks as a vendor's package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from coverlock_sdk import hookimpl


@hookimpl
def register_commands(cli: click.Group) -> None:
    """``coverlock web``"""
    from coverlock_web.command import web

    cli.add_command(web)


@hookimpl
def register_assets(register: Callable[[Any], None]) -> None:
    """What runs graphs in a browser."""
    from coverlock_web.runtime import RUNTIME

    register(RUNTIME)
