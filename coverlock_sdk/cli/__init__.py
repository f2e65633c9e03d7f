"""The ``coverlock`` command line."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import Any, TextIO

import click

from coverlock_sdk import errors
from coverlock_sdk.cli.answers import print_json
from coverlock_sdk.cli.exit_codes import BROKEN_PIPE, ERROR, HELP, INTERRUPTED
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.plugin_manager import plugin_manager

COMMANDS = (
    "embed:embed",
    "verify:verify",
    "identify:identify",
    "keygen:keygen",
    "plugins:plugins",
    "fetch:fetch",
    "import_:import_",
    "calibrate:calibrate",
    "train:train",
    "sign:sign",
    "trust:trust",
    "c2pa:c2pa",
    "check_log:check_log",
    "serve:serve",
    "token:token",
)
"""The SDK's own commands: a module of this package, and the name of the command in it."""


_usual_format = warnings.formatwarning
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class CoverLockGroup(click.Group):
    """Turns every way to fail into one sentence and an exit code that is never "rejected"."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:
        """Read the arguments, which may print the help."""
        with _quiet_about_pipes():
            return super().make_context(*arguments, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Note whether errors are to be JSON, before a command can fail to understand its own."""
        ctx.meta["as_json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the chosen command; tracebacks are for bugs only."""
        as_json: bool = ctx.meta["as_json"]
        with _quiet_about_pipes():
            try:
                return super().invoke(ctx)
            except CoverLockError as error:
                _report(str(error), as_json)
            except click.UsageError as error:
                if not as_json:
                    raise
                _report(error.format_message(), as_json)
            except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
                raise
            except (KeyboardInterrupt, click.Abort):
                click.echo("interrupted", err=True)
                raise click.exceptions.Exit(INTERRUPTED) from None
            except Exception as error:
                if isinstance(error, OSError) and error.errno in _NO_ROOM:
                    raise
                traceback.print_exc()
                _report(f"please report this bug: {type(error).__name__}: {error}", as_json)
            raise click.exceptions.Exit(ERROR)


def build_cli() -> click.Group:
    """The command line with the commands of every plugin."""
    cli = CoverLockGroup(
        name="coverlock",
        help="Find out whether an image watermark can be forged, lock it, and verify it.",
        epilog=HELP,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    click.version_option(package_name="coverlock-sdk")(cli)
    for command in COMMANDS:
        cli.add_command(resolve_name(f"coverlock_sdk.cli.{command}"))
    plugin_manager().add_commands(cli)
    return cli


def main() -> None:
    """Entry point of the ``coverlock`` script."""
    warnings.formatwarning = _as_a_line
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    # Skipped plugins are listed by `coverlock plugins`; elsewhere they would only be noise.
    logging.getLogger("coverlock_sdk.plugin_manager").setLevel(logging.ERROR)
    try:
        build_cli()(prog_name="coverlock")
    except KeyboardInterrupt:  # before the command began
        sys.exit(INTERRUPTED)


@contextlib.contextmanager
def _quiet_about_pipes() -> Iterator[None]:
    """Exit without a word when whoever reads the output goes away, and in one if a disk is full."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # Rich makes an exit of it, which remembers why.
        if not any(isinstance(e, BrokenPipeError) for e in (end, end.__context__)):
            raise
        _discard(sys.stdout, sys.stderr)
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _discard(sys.stdout)
        click.echo(f"error: the output cannot be written ({error.strerror})", err=True)
        raise SystemExit(ERROR) from None


def _discard(*streams: TextIO) -> None:
    """Let what is left in buffers go nowhere."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _as_a_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Our own warnings are for users, whom lines of source code do not help."""
    if category.__module__ == errors.__name__:
        return f"warning: {message}\n"
    return _usual_format(message, category, filename, lineno, line)


def _report(message: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": message})
    else:
        click.echo(f"error: {message}", err=True)
