"""The ``coverlock`` command line."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from typing import Any

import click

from coverlock_sdk.cli.calibrate import calibrate
from coverlock_sdk.cli.check_log import check_log
from coverlock_sdk.cli.embed import embed
from coverlock_sdk.cli.fetch import fetch
from coverlock_sdk.cli.identify import identify
from coverlock_sdk.cli.import_ import import_
from coverlock_sdk.cli.keygen import keygen
from coverlock_sdk.cli.plugins import plugins
from coverlock_sdk.cli.serve import serve, token
from coverlock_sdk.cli.sign import sign
from coverlock_sdk.cli.train import train
from coverlock_sdk.cli.verify import verify
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_manager import plugin_manager

COMMANDS = (
    embed,
    verify,
    identify,
    keygen,
    plugins,
    fetch,
    import_,
    calibrate,
    train,
    sign,
    check_log,
    serve,
    token,
)


class CoverLockGroup(click.Group):
    """Turns every expected error into one sentence and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; tracebacks are for bugs only."""
        try:
            return super().invoke(ctx)
        except CoverLockError as error:
            _report(str(error))
        except click.UsageError as error:
            if "--json" not in sys.argv:
                raise
            _report(error.format_message())
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            # A bug: exit code 1 would tell a script that a picture was rejected.
            traceback.print_exc()
            _report(f"internal error, please report it: {type(error).__name__}: {error}")
        raise click.exceptions.Exit(2)


def build_cli() -> click.Group:
    """The command line with the commands of every plugin."""
    cli = CoverLockGroup(
        name="coverlock",
        help="Find out whether an image watermark can be forged, lock it, and verify it.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    click.version_option(package_name="coverlock-sdk")(cli)
    for command in COMMANDS:
        cli.add_command(command)
    plugin_manager().add_commands(cli)
    return cli


def main() -> None:
    """Entry point of the ``coverlock`` script."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    # Skipped plugins are listed by `coverlock plugins`; elsewhere they would only be noise.
    logging.getLogger("coverlock_sdk.plugin_manager").setLevel(logging.ERROR)
    build_cli()(prog_name="coverlock")


def _report(message: str) -> None:
    if "--json" in sys.argv:
        click.echo(json.dumps({"error": message}))
    else:
        click.echo(f"error: {message}", err=True)
