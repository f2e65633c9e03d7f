"""The command line as one object, from which the reference of commands is generated."""

import click

from coverlock_sdk.cli import build_cli

coverlock = build_cli()
_context = click.Context(coverlock)
for _name in coverlock.list_commands(_context):
    coverlock.add_command(coverlock.get_command(_context, _name), _name)
