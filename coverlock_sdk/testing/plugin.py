"""What pytest has to know before it finds the kit: its options.

pytest loads this module in every session of an environment that has the SDK, so it imports next
to nothing and stays silent unless ``coverlock_sdk.testing`` is on the command line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

KIT = "coverlock_sdk.testing"
WATERMARK, IMAGES = "coverlock_watermark", "coverlock_images"
"""What the options are called inside pytest."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the kit's options; only when it is run, since their names are not ours alone."""
    config = pluginmanager.get_plugin("pytestconfig")
    if config is None or not any(str(a).startswith(KIT) for a in config.invocation_params.args):
        return
    group = parser.getgroup("coverlock", "CoverLock conformance kit")
    group.addoption(
        "--watermark", dest=WATERMARK, metavar="NAME", required=True, help="the one to check"
    )
    photos = "photos to check it on, instead of synthetic pictures"
    group.addoption("--images", dest=IMAGES, metavar="FOLDER", type=Path, help=photos)
