"""Small products stay on one thread, and the process gets its threads back."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from coverlock_sdk import wrap
from coverlock_sdk.threads import one_thread
from tests.conftest import AdditiveMark

ACTIVE = {"OMP_WAIT_POLICY": "active"}
np.ones((2, 2)) @ np.ones((2, 2))  # so that the library is loaded


def threads() -> set[int]:
    """Of NumPy's own library: others, such as SciPy's, may be loaded too."""
    found = [entry for entry in threadpool_info() if entry["user_api"] == "blas"]
    own = [entry for entry in found if "numpy" in entry["filepath"]]
    return {entry["num_threads"] for entry in own or found}


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3, "blas"):
        if threads() != {3}:
            pytest.skip("NumPy's products here do not let threads be chosen")
        yield


def test_the_limit_lasts_until_the_last_thread_leaves():
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with one_thread:
            inside.set()
            leave.wait()

    other = threading.Thread(target=work)
    with one_thread:
        other.start()
        inside.wait()
    assert threads() == {1}
    leave.set()
    other.join()
    assert threads() == {3}


def test_plugins_are_called_with_one_thread_and_failures_lift_the_limit(photos):
    class Counting(AdditiveMark):
        def embed(self, images, payloads):
            seen.append(threads())
            return super().embed(images, payloads)

        def decode(self, images):
            seen.append(threads())
            raise ValueError("broken")

    seen: list[set[int]] = []
    with pytest.raises(Exception, match="broken"):
        wrap(Counting()).embed(photos[0], "someone")
    assert seen == [{1}, {1}]
    assert threads() == {3}


@pytest.mark.parametrize(("before", "after"), [({}, "passive"), (ACTIVE, "active")])
def test_idle_threads_sleep_unless_the_environment_says_otherwise(before, after):
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | before
    code = (
        "import os, sys; from coverlock_sdk.cli import main; sys.argv[1:] = ['--version']\n"
        "try: main()\n"
        "finally: print(os.environ['OMP_WAIT_POLICY'])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert shown.stdout.split()[-1] == after
