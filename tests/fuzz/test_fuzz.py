import pytest

from coverlock_sdk.errors import CoverLockError
from tests.fuzz import readers
from tests.fuzz.processes import run_reader

pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", readers.READERS)
@pytest.mark.filterwarnings("ignore")
def test_a_reader_raises_nothing_but_our_own_errors(name, tmp_path):
    reader = readers.READERS[name](tmp_path)
    for number in range(40):
        try:
            reader(readers.seed_of(name, number, seed=1))
        except CoverLockError:
            continue


@pytest.mark.slow
def test_what_goes_wrong_is_found_and_the_rest_still_runs(monkeypatch):
    monkeypatch.setitem(readers.READERS, "crashing", readers.crashing)
    figure, findings = run_reader("crashing", 0, 20, seed=0)
    assert figure["inputs"] == 20
    problems = [(finding["number"], finding["problem"][:5]) for finding in findings]
    assert problems == [(3, "KeyEr"), (5, "crash")]
