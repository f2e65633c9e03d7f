from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk.errors import MessageError
from coverlock_sdk.scaling.job import VerificationJob
from coverlock_sdk.scaling.pool import in_processes
from tests.toy_bundle import put_runtime


@pytest.fixture
def job(toy) -> VerificationJob:
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
    with job.open() as verifier:
        expected = job.check(verifier, good)
        put_runtime(verifier, Delicate(verifier.runtime))
        first, *rows, last = job.check(verifier, [black, *good, black])
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


@pytest.mark.parametrize("message", [(0, 1), "\udcff"])
def test_a_message_that_fits_no_picture_is_said_once(toy, folder, message):
    job = VerificationJob(str(toy), message, runtime="cpu")
    with pytest.raises(MessageError):
        list(in_processes(job, [str(folder / "000.png")], workers=1))
