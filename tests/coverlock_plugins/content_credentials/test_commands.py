import pytest
from PIL import Image

from tests.coverlock_plugins.content_credentials.certificates import make_certificates
from tests.coverlock_sdk.cli.conftest import run, run_json

pytest.importorskip("c2pa")
pytestmark = pytest.mark.usefixtures("additive_plugin")


@pytest.fixture
def folder(tmp_path, photos):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, photo in zip(("a.png", "b.jpg", "c.png"), photos, strict=False):
        Image.fromarray(photo).save(folder / name)
    return folder


@pytest.fixture
def certificates(tmp_path):
    return make_certificates(tmp_path)


@pytest.fixture
def signing(certificates, tmp_path):
    """Options with which pictures are signed."""
    run("keygen", tmp_path / "key.json")
    return [
        *("--cert", certificates / "chain.pem", "--key", certificates / "key.pem"),
        *("--repository", tmp_path / "kept", "-w", "additive"),
        *("--key-file", tmp_path / "key.json"),
    ]


@pytest.fixture
def resolving(certificates, tmp_path):
    kept, key = tmp_path / "kept", tmp_path / "key.json"
    return ["--repository", kept, "--key-file", key, "--trust", certificates / "root.pem"]


def strip(source, target):
    """The same picture without its manifest."""
    Image.open(source).convert("RGB").save(target, quality=90)
    return target


def test_a_folder_is_signed_stripped_and_resolved(folder, signing, resolving, tmp_path):
    signed = run_json("c2pa", "sign", folder, "-o", tmp_path / "signed", "--id", "order", *signing)
    assert signed["counts"]["accepted"] == 3
    rows = signed["results"]
    assert [row["serial"] for row in rows] == [f"order/{n:06}" for n in (1, 2, 3)]
    embedded = run_json("c2pa", "resolve", rows[0]["path"], *resolving)["results"][0]
    assert (embedded["how"], embedded["manifest_id"]) == ("embedded", rows[0]["manifest"])
    stripped = strip(rows[1]["path"], tmp_path / "stripped.jpg")
    [found] = run_json("c2pa", "resolve", stripped, *resolving, "--save", tmp_path / "found")[
        "results"
    ]
    assert (found["how"], found["manifest_id"]) == ("mark", rows[1]["manifest"])
    assert found["softBindingsMatched"]
    assert found["trusted"]
    assert (tmp_path / "found" / "stripped.c2pa").stat().st_size > 1000
