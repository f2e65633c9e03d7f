import os
import stat

import pytest

from coverlock_sdk import files
from coverlock_sdk.files import write_atomically
from coverlock_sdk.locking.keys import generate_key
from tests.toy_bundle import write_toy_bundle

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there is no umask here")


@pytest.fixture(params=[0o002, 0o022, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_outputs_honour_the_umask(tmp_path, umask):
    write_atomically(tmp_path / "out.png", b"content")
    assert rights(tmp_path / "out.png") == 0o666 & ~umask
    bundle = write_toy_bundle(tmp_path / "bundle")
    assert rights(bundle.path) == 0o777 & ~umask
    assert rights(bundle.path / "manifest.json") == 0o666 & ~umask


def test_secrets_are_their_owners_alone_whatever_the_umask(tmp_path, umask):
    generate_key(tmp_path / "key.json")
    assert rights(tmp_path / "key.json") == 0o600


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    flushed = []

    def fsync(handle: int) -> None:
        flushed.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "f").exists()))

    monkeypatch.setattr(files.os, "fsync", fsync)
    write_atomically(tmp_path / "f", b"content")
    assert flushed == [(False, False), (True, True)]
