"""The conformance kit passes a sound watermark, and of a broken one it names what is broken."""

import contextlib
import shutil
from pathlib import Path

import pytest
from PIL import Image

from coverlock_sdk import wrap
from coverlock_sdk.plugin_manager import plugin_manager
from coverlock_sdk.testing import natural_pictures
from tests.conftest import AdditiveMark

# torch cannot be loaded twice: see _imported_once.
with contextlib.suppress(ImportError):
    import torch  # noqa: F401

pytest_plugins = ["pytester"]

SUBJECTS = Path(__file__).with_name("kit_subjects.py")
LOCK = {"test_lock_accepts", "test_lock_rejects"}


@pytest.fixture(scope="module", autouse=True)
def _imported_once():
    """pytester forgets the modules that a run inside this process was the first to import."""
    plugin_manager.cache_clear()
    assert plugin_manager().plugins
    lock = wrap(AdditiveMark())
    assert lock.verify(lock.mark(natural_pictures(1)[0], "once").picture, "once")


@pytest.fixture
def pytester(pytester, monkeypatch):
    """Runs without a plugin that takes longer to import than the kit takes to run."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:schemathesis")
    return pytester


@pytest.fixture
def kit(pytester, monkeypatch):
    """``kit("NAME")`` runs the kit on one of the subjects, as a vendor would."""
    site = pytester.mkdir("site")
    shutil.copy(SUBJECTS, site)
    information = site / "kit_subjects-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kit-subjects\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text("[coverlock]\nkit_subjects = kit_subjects\n")
    monkeypatch.syspath_prepend(site)
    plugin_manager.cache_clear()

    def run(name, *options):
        command = ("--pyargs", "coverlock_sdk.testing", "-p", "no:cacheprovider")
        return Run(pytester.inline_run(*command, "--watermark", name, *options))

    yield run
    plugin_manager.cache_clear()


class Run:
    """What became of one run of the kit."""

    def __init__(self, recorded):
        self.exit_code = recorded.ret
        reports = recorded.getreports("pytest_runtest_logreport")
        self.failures = {
            report.nodeid.partition("::")[2]: str(report.longrepr)
            for report in reports
            if report.failed
        }
        self.passed = {report.nodeid.partition("::")[2] for report in reports if report.passed}


@pytest.mark.parametrize("name", ["sound", "any-size", "hard-bits"])
def test_a_sound_watermark_keeps_every_promise(kit, name):
    run = kit(name)
    assert run.failures == {}
    assert run.exit_code == 0
    assert run.passed > LOCK


@pytest.mark.parametrize(
    ("name", "promise", "advice"),
    [
        ("overwriting", "test_arguments_are_left_alone[embed]", "overwrites its images"),
        ("random", "test_same_question_same_answer[embed]", "fixed seed"),
        ("wrong-shape", "test_answers[decode]", "returned shape (2, 63) from decode, not (2, 64)"),
        ("out-of-range", "test_answers[embed]", "np.clip(marked, 0, 1)"),
        ("raising", "test_answers[embed]", "RuntimeError: no licence found"),
        ("on-self", "test_threads", "not on self"),
        ("batch-mean", "test_batch_equals_one_by_one[embed]", "never over the batch"),
        ("inverted", "test_payload_can_be_read", "must mean bit 1"),
        ("unrelated", "test_payload_can_be_read", "guessing does as well"),
        ("probabilities", "test_payload_can_be_read", "not probabilities"),
        ("deaf", "test_payload_matters", "ignores its payloads"),
        ("visible", "test_imperceptibility", "but 25 dB are needed"),
        ("list-size", "test_members", "has native_size [64, 64]: it must be a tuple"),
        ("backwards-calibration", "test_members", "whose scale and power are positive"),
        ("one-size", "test_any_size", "pictures of 357 x 243 pixels fail"),
        ("colour", "test_greyscale", "put part of the mark into luminance"),
        ("unwritable-card", "test_members", "Object of type set is not JSON serializable"),
        ("wrong-layer", "test_feature_layer", "is no module inside decoder_module()"),
    ],
)
def test_exactly_the_broken_promise_is_reported(kit, name, promise, advice):
    run = kit(name)
    assert list(run.failures) == [promise]
    assert advice in run.failures[promise]
    assert run.exit_code == 1


def test_a_watermark_below_a_bar_sees_by_how_much(kit):
    run = kit("inaccurate")
    message = (
        "87.5% of the bits are right (random payload, clean 8-bit pictures), but 95% are needed"
    )
    assert message in run.failures["test_bit_accuracy[random]"]


def test_photos_of_the_vendor(kit, pytester, capsys):
    folder = pytester.mkdir("photos")
    for index, picture in enumerate(natural_pictures(3, (90, 120))):
        Image.fromarray(picture).save(folder / f"{index}.png")
    assert kit("sound", "--images", str(folder), "-k", "not lock").failures == {}
    kit("sound", "--images", str(pytester.mkdir("nothing")))
    assert "contains no pictures" in capsys.readouterr().out
