import os
import shutil
from pathlib import Path

import pytest

from coverlock_bench.photos import jpeg_file
from coverlock_sdk.testing import natural_pictures
from experiments import siege
from tests.toy_bundle import write_toy_bundle


@pytest.mark.slow
def test_every_attack_is_tried_and_the_service_survives(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    [picture] = [jpeg_file(picture) for picture in natural_pictures(1, (128, 128), seed=2)]
    options = ("--runtime", "cpu")
    proxy = Path(__file__).parents[2] / "examples" / "deploy" / "nginx.conf"
    has_nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    figures = siege.besiege(bundle.path, picture, 2, options, proxy if has_nginx else None)
    assert figures.pop("end") == {"alive": True}
    assert set(figures) == {"peace", *siege.ATTACKS}
    for figure in figures.values():
        assert figure["asked"] == 2 * siege.ASKS_A_SECOND
        assert sum(figure["statuses"].values()) == figure["asked"]
        assert 0 <= figure["in_time"] <= 1
