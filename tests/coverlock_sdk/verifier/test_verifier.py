import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image

from coverlock_sdk import Embedder, Key, Verifier
from coverlock_sdk.bundles.bundle import seal
from coverlock_sdk.errors import (
    BundleError,
    CoverLockError,
    OverloadedError,
    PictureError,
    RuntimeUnavailableError,
)
from coverlock_sdk.hashing.octave import OctaveCode
from coverlock_sdk.locking.registry import Registry
from coverlock_sdk.verifier import onnx_runtime, runtimes
from coverlock_sdk.verifier.graph_runner import Batcher, run_batch
from coverlock_sdk.verifier.verifier import Settings
from tests.toy_bundle import BITS, toy_lock, write_toy_bundle

pytest.importorskip("onnxruntime")


MESSAGE = np.arange(BITS) % 2


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("verifier") / "bundle")


@pytest.fixture(scope="module")
def verifier(bundle):
    with Verifier.open(bundle, "cpu", settings=Settings(threads=1)) as opened:
        yield opened


@pytest.fixture(scope="module")
def marked(photos):
    """The twelve photos, marked at their own size, which is not the graph's."""
    return toy_lock().embed(photos, MESSAGE)


class Recorder:
    """A runtime that answers with what it saw, and can be held up or run out of memory."""

    name, providers = "recorder", ("test",)

    def __init__(self, fits: int = 100) -> None:
        self.batches: list[int] = []
        self.fits = fits
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def run(self, images):
        self.entered.set()
        self.gate.wait()
        if len(images) > self.fits:
            raise MemoryError("no room")
        self.batches.append(len(images))
        values = images[:, 0, 0, :1].astype(np.float32)
        return values, values

    def close(self) -> None:
        pass


def image(value: int) -> np.ndarray:
    return np.full((4, 4, 3), value, np.uint8)


def test_verdicts_are_those_of_the_lock(verifier, marked, photos):
    lock = toy_lock()
    for pictures in (marked, photos):
        verdicts = verifier.verify(pictures, MESSAGE)
        expected = lock.verify(pictures, MESSAGE)
        assert [v.accepted for v in verdicts] == [e.accepted for e in expected]
        # Pictures are rounded to 8 bits when they are brought to the graph's size.
        for verdict, reference in zip(verdicts, expected, strict=True):
            assert np.log10(verdict.p_value) == pytest.approx(np.log10(reference.p_value), abs=1)
    assert verifier.verify(marked, MESSAGE)[0].accepted
    assert not verifier.verify(photos, MESSAGE)[0].accepted


def test_at_the_graphs_own_size_logits_are_those_of_the_networks(verifier, photos):
    native = np.ascontiguousarray(photos[:, :128, :128])
    lock = toy_lock()
    for deployed, plugin in zip(verifier.logits(native), lock.logits(native), strict=True):
        np.testing.assert_allclose(deployed, plugin, atol=1e-4)


def test_bad_pictures_and_messages_are_refused_and_the_verifier_lives_on(verifier, marked):
    with pytest.raises(PictureError, match="does not exist"):
        verifier.verify("nowhere.png", MESSAGE)
    with pytest.raises(PictureError, match="too small"):
        verifier.verify(np.zeros((8, 8, 3), np.uint8), MESSAGE)
    with pytest.raises(CoverLockError, match="47 bits"):
        verifier.verify(marked[0], MESSAGE[:-1])
    assert verifier.verify(marked[0], MESSAGE)


def test_keys_are_given_and_checked_against_the_fingerprint(tmp_path, key, photos):
    bundle = write_toy_bundle(tmp_path / "keyed", key.fingerprint)
    other = Key(bytes(32), id="other")
    for wrong in (None, other):
        with pytest.raises(BundleError, match=key.fingerprint):
            Verifier.open(bundle, "cpu", key=wrong)
    marked = toy_lock(key).embed(photos[0], "alice")
    with Verifier.open(bundle, "cpu", key=[other, key]) as rotated:
        assert rotated.verify(marked, "alice").key_id == key.id
    stored = b"".join(p.read_bytes() for p in bundle.path.rglob("*") if p.is_file())
    assert bytes(range(32)) not in stored


@pytest.fixture(scope="module")
def octave_bundle(tmp_path_factory):
    return write_toy_bundle(
        tmp_path_factory.mktemp("octave") / "bundle", embedding=True, image_hash=OctaveCode()
    )


@pytest.mark.parametrize("runtime", ["cpu", "openvino"])
def test_the_host_tries_frames_on_the_thumbnail_that_a_graph_returns(
    octave_bundle, key, photos, runtime
):
    pytest.importorskip({"cpu": "onnxruntime"}.get(runtime, runtime))
    lock = toy_lock(key, OctaveCode())
    native = np.ascontiguousarray(photos[:3, :128, :128])
    marked = lock.embed(native, "alice")
    with Verifier.open(octave_bundle, runtime, key=key, settings=Settings(threads=1)) as verifier:
        _, descriptions = verifier.logits(native)
        assert descriptions.shape == (3, 3, 128, 128)
        np.testing.assert_allclose(descriptions, lock.logits(native)[1], atol=1e-6)
        assert [v.accepted for v in verifier.verify(marked, "alice")] == [True] * 3
        assert verifier.verify(marked[0], "alice").frame.is_whole
        assert not verifier.verify(marked[0], "bob")
        assert [v.shape for v in verifier.logits([])] == [(0, BITS), (0, 3, 128, 128)]


def test_a_bundle_of_another_version_of_octave_is_refused(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle", image_hash=OctaveCode())
    for changed in ({"hash_digest": "0" * 64}, {"hash": "quintave"}, {"bands": (192, 320, 511)}):
        seal(bundle.path, replace(bundle.manifest, **changed))
        with pytest.raises(BundleError, match="another version of the hash.*export the bundle"):
            Verifier.open(bundle.path, "cpu")


def test_a_registry_asks_for_the_picture_that_was_marked(octave_bundle, key, photos, tmp_path):
    native = np.ascontiguousarray(photos[:2, :128, :128])
    path = tmp_path / "registry.sqlite"
    carrier = Embedder.open(octave_bundle, key=key, registry=path).embed(native[0], "alice")
    unknown = toy_lock(key, OctaveCode()).embed(native[1], "bob")
    for registry in (path, Registry(path)):
        with Verifier.open(octave_bundle, "cpu", key=key, registry=registry) as verifier:
            verdict = verifier.verify(carrier, "alice")
            assert verdict.accepted
            assert verdict.likeness == 1
            assert verifier.verify(unknown, "bob").reason == "the registry has no such picture"
    with pytest.raises(CoverLockError, match="a registry needs a key"):
        Verifier.open(octave_bundle, "cpu", registry=path)


def test_auto_says_what_it_took_and_why_nothing_before_it(bundle, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeUnavailableError("it is broken")

    order = {name: runtimes.RUNTIMES[name] for name in ("cuda", "cpu")}
    monkeypatch.setattr(runtimes, "RUNTIMES", order)
    monkeypatch.setattr(onnx_runtime, "open_cuda", broken)
    caplog.set_level("INFO", "coverlock_sdk.verifier.runtimes")
    with Verifier.open(bundle) as verifier:
        assert verifier.runtime.name == "cpu"
        assert verifier.runtime.providers == ("CPUExecutionProvider",)
    [entry] = [record for record in caplog.records if "runs on cpu" in record.message]
    assert entry.message.endswith("; not cuda: it is broken")
    del order["cpu"]
    with pytest.raises(RuntimeUnavailableError, match="cuda: it is broken"):
        Verifier.open(bundle)
    with pytest.raises(RuntimeUnavailableError, match="it is broken"):
        Verifier.open(bundle, "cuda")


@pytest.mark.parametrize("slow", ["openvino", "cpu"])
def test_auto_takes_the_fastest_for_single_pictures(bundle, monkeypatch, caplog, slow):
    def opened(name, *given):
        runtime = open_cpu(*given)
        run, runtime.name = runtime.run, name
        runtime.run = lambda images: (time.sleep(0.05 * (name == slow)), run(images))[1]
        return runtime

    open_cpu, names = onnx_runtime.open_cpu, ("openvino", "cpu")
    monkeypatch.setattr(runtimes, "RUNTIMES", {name: name for name in names})
    monkeypatch.setattr(runtimes, "resolve_name", lambda name: partial(opened, name))
    caplog.set_level("INFO", "coverlock_sdk.verifier.runtimes")
    with Verifier.open(bundle) as verifier:
        assert {verifier.runtime.name, slow} == set(names)
    [entry] = [record for record in caplog.records if f"; not {slow}: 5" in record.message]
    assert "ms per picture" in entry.message


def test_cuda_without_a_gpu_is_an_error_and_never_the_processor(bundle, monkeypatch):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    with pytest.raises(RuntimeUnavailableError, match="has no CUDA"):
        Verifier.open(bundle, "cuda")
    # What onnxruntime-gpu does on a machine without a driver: it offers CUDA and delivers none.
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(RuntimeUnavailableError, match="fell back"),
    ):
        Verifier.open(bundle, "cuda")


def test_a_gpu_that_fails_in_a_run_is_an_error_and_never_the_processor(bundle, marked, capfd):
    from onnxruntime.capi.onnxruntime_pybind11_state import EPFail

    class FailingDevice:
        def __init__(self, session):
            self.session = session

        def __getattr__(self, name):
            return getattr(self.session, name)

        def run(self, *_):
            raise EPFail("the GPU fell off the bus")

    with Verifier.open(bundle, "cpu") as verifier:
        session = verifier.runtime._graph._session
        session._sess = FailingDevice(session._sess)
        for _ in range(2):
            with pytest.raises(CoverLockError, match="fell off the bus"):
                verifier.verify(marked[0], MESSAGE)
    assert "Falling back" not in capfd.readouterr().out


def test_openvino_answers_as_onnx_runtime_does(bundle, verifier, photos):
    pytest.importorskip("openvino")
    with Verifier.open(bundle, "openvino", settings=Settings(threads=1)) as other:
        assert other.runtime.providers == ("CPU",)
        for mine, theirs in zip(other.logits(photos), verifier.logits(photos), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-3)
        with ThreadPoolExecutor(4) as pool:
            verdicts = list(pool.map(lambda photo: other.verify(photo, MESSAGE), photos))
        assert verdicts == other.verify(photos, MESSAGE)


def test_waiting_pictures_are_run_together():
    runtime = Recorder()
    batcher = Batcher(runtime, max_batch=4, max_delay_ms=0, max_queue=100)
    runtime.gate.clear()
    first = batcher.submit(image(0))
    assert runtime.entered.wait(5)
    answers = [first, *(batcher.submit(image(n)) for n in range(1, 10))]
    runtime.gate.set()
    assert [int(answer.result(5).decoded[0]) for answer in answers] == list(range(10))
    assert runtime.batches == [1, 4, 4, 1]
    batcher.close()


def test_a_full_queue_refuses_at_once_and_loses_nothing():
    runtime = Recorder()
    batcher = Batcher(runtime, max_batch=1, max_delay_ms=0, max_queue=2)
    runtime.gate.clear()
    running = batcher.submit(image(1))
    assert runtime.entered.wait(5)
    waiting = [batcher.submit(image(2)), batcher.submit(image(3))]
    with pytest.raises(OverloadedError, match="2 pictures are waiting already"):
        batcher.submit(image(4))
    runtime.gate.set()
    assert [int(a.result(5).decoded[0]) for a in (running, *waiting)] == [1, 2, 3]
    assert batcher.submit(image(5)).result(5).decoded[0] == 5
    batcher.close()


@pytest.mark.parametrize("runtime", ["cpu", "openvino"])
def test_closing_under_load_lets_calls_finish_and_refuses_others(bundle, photos, runtime):
    pytest.importorskip({"cpu": "onnxruntime"}.get(runtime, runtime))
    verifier = Verifier.open(bundle, runtime, settings=Settings(threads=1))
    expected = [verdict.accepted for verdict in verifier.verify(photos, MESSAGE)]

    def many(_) -> str:
        while True:
            try:
                verdicts = verifier.verify(photos, MESSAGE)
                verifier.verify(photos[0], MESSAGE)
            except CoverLockError as error:
                return str(error)
            assert [verdict.accepted for verdict in verdicts] == expected

    with ThreadPoolExecutor(5) as pool:
        callers = [pool.submit(many, n) for n in range(3)]
        time.sleep(0.2)
        closers = [pool.submit(verifier.close) for _ in range(2)]
        assert [closer.result(30) for closer in closers] == [None, None]
        assert {caller.result(30) for caller in callers} == {
            "the verifier is closed: open the bundle again"
        }


def test_a_runtime_that_fails_tells_everyone_who_waits_and_goes_on():
    runtime = Recorder()
    batcher = Batcher(runtime, max_batch=4, max_delay_ms=20, max_queue=10)
    run, runtime.run = runtime.run, lambda images: 1 / 0
    answers = [batcher.submit(image(n)) for n in range(3)]
    for answer in answers:
        with pytest.raises(ZeroDivisionError):
            answer.result(5)
    runtime.run = run
    assert batcher.submit(image(7)).result(5).decoded[0] == 7
    batcher.close()


def test_a_batch_that_does_not_fit_into_memory_is_run_in_parts():
    runtime = Recorder(fits=3)
    images = np.stack([image(n) for n in range(10)])
    decoded, _ = run_batch(runtime, images)
    assert decoded[:, 0].tolist() == list(range(10))
    assert max(runtime.batches) <= 3
    with pytest.raises(CoverLockError, match="single picture does not fit"):
        run_batch(Recorder(fits=0), images)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("output", [0, 1])
def test_an_overflow_is_told_to_the_caller_of_that_picture_only(value, output):
    runtime = Recorder()
    run = runtime.run

    def overflowing(images):
        logits = [part.copy() for part in run(images)]
        logits[output][images[:, 0, 0, 0] == 2] = value
        return tuple(logits)

    runtime.run = overflowing
    batcher = Batcher(runtime, max_batch=4, max_delay_ms=0, max_queue=10)
    runtime.gate.clear()
    first = batcher.submit(image(9))
    assert runtime.entered.wait(5)
    answers = [batcher.submit(image(n)) for n in range(4)]
    runtime.gate.set()
    assert first.result(5).decoded[0] == 9
    for n in (0, 1, 3):
        assert answers[n].result(5).decoded[0] == n
    with pytest.raises(CoverLockError, match="NaN or infinite.*use fp32"):
        answers[2].result(5)
    assert runtime.batches == [1, 4]
    batcher.close()


def test_a_graph_that_is_not_the_manifests_is_refused(tmp_path):
    bundle = write_toy_bundle(tmp_path / "bundle")
    seal(bundle.path, replace(bundle.manifest, payload_bits=BITS + 1))
    with pytest.raises(BundleError, match=r"\(48,\) and \(256,\).*says \(49,\) and \(256,\)"):
        Verifier.open(bundle.path, "cpu")


def test_the_first_verdict_loads_nothing_any_more(bundle, marked, tmp_path):
    """So it takes no longer than the second."""
    path = tmp_path / "marked.jpg"
    Image.fromarray(marked[0]).save(path)
    code = (
        "import sys; from coverlock_sdk import Verifier; "
        f"verifier = Verifier.open({str(bundle.path)!r}, trust='any'); before = set(sys.modules); "
        f"verifier.verify({str(path)!r}, 'alice'); print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_verifier_does_not_hang_in_a_fork(bundle, photos):
    """Servers that fork workers waited for ever for threads that only the parent has."""
    with Verifier.open(bundle, "cpu", settings=Settings(threads=1)) as verifier:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                verifier.verify(photos[0], "alice")
            except CoverLockError as error:
                os.write(writer, str(error).encode())
            verifier.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.close(writer)
        told = os.read(reader, 4096).decode()
        assert status == 0
        assert "does not survive a fork" in told
        assert not verifier.verify(photos[0], "alice")


@pytest.mark.parametrize(("gpu", "level"), [(True, "WARNING"), (False, "INFO")])
def test_a_gpu_that_is_left_idle_is_told_loudly(bundle, monkeypatch, caplog, gpu, level):
    monkeypatch.setattr(runtimes, "_has_gpu", lambda: gpu)
    with caplog.at_level("INFO", "coverlock_sdk.verifier.runtimes"):
        Verifier.open(bundle).close()
    [entry] = [record for record in caplog.records if "runs on" in record.message]
    assert entry.levelname == level
    assert "; not cuda: " in entry.message
