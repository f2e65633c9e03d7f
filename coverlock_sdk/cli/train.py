"""``coverlock train``"""

from __future__ import annotations

import click

from coverlock_sdk.cli.train_crowd import train_crowd
from coverlock_sdk.cli.train_hash import train_hash
from coverlock_sdk.cli.train_templates import train_templates
from coverlock_sdk.cli.train_watermark import train_watermark


@click.group()
def train() -> None:
    """Train a hash or a watermark of your own."""


train.add_command(train_crowd)
train.add_command(train_hash)
train.add_command(train_templates)
train.add_command(train_watermark)
