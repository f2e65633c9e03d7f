"""Every promise of the CoverLock contract, as part of this package's own tests."""

import pytest
from spreadmark import Spreadmark

from coverlock_sdk.testing.test_pictures import *  # noqa: F403
from coverlock_sdk.testing.test_watermark import *  # noqa: F403


@pytest.fixture(scope="session")
def watermark():
    return Spreadmark()
