import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.images.isolation import DecodingPool
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import in_processes
from tests.toy_bundle import put_runtime


@pytest.fixture
def job(toy):
    return VerificationJob(str(toy), "alice", runtime="cpu", max_batch=8)


class Delicate:
    """A runtime whose graph overflows on black pictures."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.name = runtime.name
        self.close = runtime.close

    def run(self, images):
        decoded, hashed = self.runtime.run(images)
        decoded[~images.any(axis=(1, 2, 3))] = np.nan
        return decoded, hashed


def test_pictures_that_cannot_be_judged_do_not_stop_those_in_their_batch(job, folder, tmp_path):
    Image.new("RGB", (128, 128)).save(tmp_path / "black.png")
    good = sorted(str(path) for path in folder.glob("00*.png"))
    black = str(tmp_path / "black.png")
    with job.open() as worker:
        expected = job.check(worker, good)
        put_runtime(worker.verifier, Delicate(worker.verifier.runtime))
        first, *rows, last = job.check(worker, [black, *good, black])
    assert rows == expected
    assert first == last
    assert first["status"] == "error"
    assert "black.png" in first["error"]
    assert "NaN" in first["error"]


def test_a_picture_whose_reading_fails_in_an_unforeseen_way_is_an_error(job, folder):
    good = str(folder / "000.png")
    rows = list(in_processes(job, ["nobody\0expects.png", good], workers=1))
    assert [row["status"] for row in rows] == ["error", "accepted"]
    assert "is not the name of a file" in rows[0]["error"]


def test_a_picture_that_takes_too_much_is_an_error_and_the_others_are_not(job, folder, tmp_path):
    wide = tmp_path / "wide.png"
    Image.new("RGB", (4000, 2000)).save(wide)
    files = [str(wide), str(folder / "000.png")]
    with job.open() as worker:
        worker.decoders = DecodingPool(1, seconds=1e-6)
        late = job.check(worker, files[:1])
        worker.decoders.close()
        worker.decoders = DecodingPool(1)
        [row] = job.check(worker, files[1:])
    assert "takes more than" in late[0]["error"]
    assert row["status"] == "accepted"
