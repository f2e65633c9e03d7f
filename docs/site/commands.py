"""The command line as one object, from which the reference of commands is generated."""

from coverlock_sdk.cli import build_cli

coverlock = build_cli()
