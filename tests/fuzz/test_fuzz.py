import json
import os
import sys

import pytest

from tests.fuzz import __main__ as fuzz
from tests.fuzz import readers

pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", readers.READERS)
@pytest.mark.filterwarnings("ignore")
def test_a_reader_raises_nothing_but_our_own_errors(name, tmp_path):
    reader = readers.READERS[name](tmp_path)
    for number in range(40):
        try:
            reader(readers.seed_of(name, number, seed=1))
        except fuzz.CoverLockError:
            continue


def crashing(scratch):
    """A reader with one input of each bad kind."""

    def reader(rng):
        value = rng.random()
        if value == readers.seed_of("crashing", 3, 0).random():
            raise KeyError("foreign")
        if value == readers.seed_of("crashing", 5, 0).random():
            os.abort()

    return reader


@pytest.mark.slow
def test_what_goes_wrong_is_found_and_the_rest_still_runs(monkeypatch, tmp_path):
    child = tmp_path / "child.py"
    child.write_text(
        "import sys\n"
        "from tests.fuzz import __main__ as fuzz, test_fuzz, readers\n"
        "readers.READERS['crashing'] = test_fuzz.crashing\n"
        "sys.exit(fuzz.main())\n"
    )
    begin = fuzz.subprocess.Popen

    def start(command, **options):
        command = [command[0], str(child), *command[3:]]
        options["env"] = {**options["env"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return begin(command, **options)

    monkeypatch.setattr(fuzz.subprocess, "Popen", start)
    figure, findings = fuzz.run_reader("crashing", 0, 20, seed=0)
    assert figure["inputs"] == 20
    problems = [(finding["number"], finding["problem"][:5]) for finding in findings]
    assert problems == [(3, "KeyEr"), (5, "crash")]
    assert json.dumps(findings)
