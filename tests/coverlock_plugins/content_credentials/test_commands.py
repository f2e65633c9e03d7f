import pytest
from PIL import Image

from tests.coverlock_plugins.content_credentials.certificates import make_certificates
from tests.coverlock_sdk.cli.conftest import run, run_json

pytestmark = pytest.mark.usefixtures("additive_plugin")


def test_a_folder_is_signed_stripped_and_resolved(photos, tmp_path):
    (tmp_path / "photos").mkdir()
    for name, photo in zip(("a.png", "b.jpg", "c.png"), photos, strict=False):
        Image.fromarray(photo).save(tmp_path / "photos" / name)
    certificates, key = make_certificates(tmp_path), tmp_path / "key.json"
    run("keygen", key)
    kept = ["--repository", tmp_path / "kept", "--key-file", key]
    signing = ["--cert", certificates / "chain.pem", "--key", certificates / "key.pem", *kept]
    resolving = ["--trust", certificates / "root.pem", *kept, "--save", tmp_path / "found"]

    target = ["-o", tmp_path / "signed", "--id", "order", "-w", "additive:bits=32"]
    signed = run_json("c2pa", "sign", tmp_path / "photos", *target, *signing)
    assert signed["counts"]["accepted"] == 3
    rows = signed["results"]
    assert [row["serial"] for row in rows] == [f"order/{n:06}" for n in (1, 2, 3)]

    stripped = tmp_path / "stripped.jpg"
    Image.open(rows[1]["path"]).convert("RGB").save(stripped, quality=90)
    resolving += ["-w", "additive:bits=32"]
    answer = run_json("c2pa", "resolve", rows[0]["path"], stripped, *resolving)
    embedded, found = answer["results"]
    assert (embedded["how"], embedded["manifest_id"]) == ("embedded", rows[0]["manifest"])
    assert (found["how"], found["manifest_id"]) == ("mark", rows[1]["manifest"])
    assert found["softBindingsMatched"]
    assert (tmp_path / "found" / "stripped.c2pa").stat().st_size > 1000

    resolving[-1] = "hidden"
    run("c2pa", "resolve", stripped, *resolving, code=2)
