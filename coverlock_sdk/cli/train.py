"""``coverlock train``"""

from __future__ import annotations

import click

from coverlock_sdk.cli.train_hash import train_hash
from coverlock_sdk.cli.train_watermark import train_watermark


@click.group()
def train() -> None:
    """Train a hash or a watermark of your own."""


train.add_command(train_hash)
train.add_command(train_watermark)
