"""``coverlock train``, to which other packages add what they train."""

from __future__ import annotations

import click

from coverlock_training.hash_command import train_hash
from coverlock_training.watermark_command import train_watermark


@click.group()
def train() -> None:
    """Train a hash or a watermark of your own."""


train.add_command(train_hash)
train.add_command(train_watermark)
