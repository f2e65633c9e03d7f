import json

import pytest
from click.testing import CliRunner
from PIL import Image

from coverlock_sdk.cli import build_cli
from tests.toy_bundle import write_toy_bundle


@pytest.fixture(autouse=True)
def _without_a_key(monkeypatch, additive_plugin):
    monkeypatch.delenv("COVERLOCK_KEY_FILE", raising=False)


@pytest.fixture
def folder(tmp_path, photos):
    source = tmp_path / "photos"
    (source / "more").mkdir(parents=True)
    Image.fromarray(photos[0]).save(source / "a.png")
    Image.fromarray(photos[1]).save(source / "b.jpg", quality=97)
    Image.fromarray(photos[2]).save(source / "more" / "c.png")
    (source / "notes.txt").write_text("not a picture")
    return source


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(build_cli(), [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code == code, result.output
    return result.stdout


def run_json(*arguments: object, code: int = 0):
    return json.loads(run(*arguments, "--json", code=code))


LOCK = ("-w", "additive", "--id", "studio")


def complaint(*arguments: object) -> str:
    """What a command that is used wrongly says: one sentence, and code 2."""
    result = CliRunner().invoke(build_cli(), [str(a) for a in arguments])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """A bundle of the additive watermark."""
    return write_toy_bundle(tmp_path_factory.mktemp("toy") / "bundle").path
