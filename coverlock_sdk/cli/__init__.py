"""The ``coverlock`` command line."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pkgutil import resolve_name
from typing import Any, NoReturn, TextIO, cast

import click

from coverlock_sdk import errors
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.threads import let_idle_threads_sleep

COMMANDS = {
    "embed": "marking:embed",
    "verify": "verifying:verify",
    "identify": "verifying:identify",
    "plugins": "models:plugins",
    "fetch": "models:fetch",
    "import": "models:import_",
    "keygen": "keys:keygen",
    "sign": "keys:sign",
    "check-log": "keys:check_log",
}
"""The SDK's own commands: where in this package each is defined."""

SECTIONS = {
    "Start": ("demo", "plugins", "fetch", "keygen"),
    "Mark and verify": ("embed", "verify", "identify", "check-log", "c2pa"),
    "Deploy": ("export", "compile", "sign", "serve", "token", "ray", "web"),
    "Measure": ("audit", "bench"),
    "Train": ("train", "import", "calibrate"),
}
"""How ``--help`` groups commands; others follow as "Commands"."""

ACCEPTED, REJECTED, ERROR, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
EXIT_CODES = (
    "Exit codes: 0: success, and every picture was accepted; 1: a picture was rejected, or an "
    "'audit --fail-if' condition was met; 2: error; 130: interrupted; 141: output pipe closed."
)

_usual_format = warnings.formatwarning
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class CoverLockGroup(click.Group):
    """Imports commands when they are named, and turns every failure into one sentence.

    No failure has the exit code of a rejected picture.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The SDK's own commands and those of plugins."""
        self._ask_plugins()
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of the SDK's own commands, or else one that a plugin adds."""
        if cmd_name in COMMANDS:
            return cast("click.Command", resolve_name(f"{__name__}.{COMMANDS[cmd_name]}"))
        self._ask_plugins()
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the commands in the order in which a vendor needs them."""
        named = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        listed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in named if name not in listed)
        for title, names in {**SECTIONS, "Commands": others}.items():
            found = [(name, named[name]) for name in names if name in named]
            limit = formatter.width - 6 - max(map(len, named))
            rows = [(name, command.get_short_help_str(limit)) for name, command in found if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_spacing=2)

    def _ask_plugins(self) -> None:
        from coverlock_sdk.plugin_manager import plugin_manager

        plugin_manager().add_commands(self)

    def main(self, args: Sequence[str] | None = None, *_: Any, **settings: Any) -> NoReturn:
        """Run a command line and exit; tracebacks are for bugs only."""
        arguments = list(sys.argv[1:] if args is None else args)
        with _quiet_about_pipes():
            code = self._exit_code(settings.get("prog_name") or str(self.name), arguments)
        sys.exit(code)

    def _exit_code(self, program: str, arguments: list[str]) -> int:
        as_json = "--json" in arguments
        try:
            with self.make_context(program, arguments) as context:
                self.invoke(context)
                return ACCEPTED
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.exceptions.NoArgsIsHelpError as usage:
            usage.show()
            return ERROR
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else program
            message = f"{error.format_message().rstrip('.')} (see '{where} --help')"
        except CoverLockError as error:
            message = str(error)
        except (KeyboardInterrupt, click.Abort) as stop:
            click.echo(" ".join(["interrupted", *map(str, stop.args)]), err=True)
            return INTERRUPTED
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.EPIPE, *_NO_ROOM):
                raise
            traceback.print_exc()
            message = f"please report this bug: {type(error).__name__}: {error}"
        if as_json:
            click.echo(json.dumps({"error": message}, indent=2))
        else:
            click.echo(f"error: {message}", err=True)
        return ERROR


def build_cli() -> click.Group:
    """The command line; plugins add their commands when one of theirs is asked for."""
    cli = CoverLockGroup(
        name="coverlock",
        help="Find out whether an image watermark can be forged, lock it, and verify it.",
        epilog=EXIT_CODES,
        context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    )
    click.version_option(package_name="coverlock-sdk")(cli)
    return cli


def main() -> None:
    """Entry point of the ``coverlock`` script."""
    let_idle_threads_sleep()
    warnings.formatwarning = _as_a_line
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    # Skipped plugins are listed by `coverlock plugins`; elsewhere they would only be noise.
    logging.getLogger("coverlock_sdk.plugin_manager").setLevel(logging.ERROR)
    build_cli()(prog_name="coverlock")


@contextlib.contextmanager
def _quiet_about_pipes() -> Iterator[None]:
    """Exit silently when the output pipe closes, and with one sentence when the disk is full."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # Rich turns it into an exit, whose context is the original error.
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
    """Drop what is left in the buffers."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _as_a_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Our own warnings are for users, so they show no source code."""
    if category.__module__ == errors.__name__:
        return f"warning: {message}\n"
    return _usual_format(message, category, filename, lineno, line)
