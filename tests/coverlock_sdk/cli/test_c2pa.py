from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys

import pytest
from PIL import Image

from tests.coverlock_sdk.cli.conftest import complaint, run, run_json

pytest.importorskip("c2pa")


@pytest.fixture
def certificates(tmp_path):
    return run_json("c2pa", "trial-certificates", tmp_path / "certificates")


@pytest.fixture
def signing(certificates, tmp_path):
    """Options with which pictures are signed."""
    run("keygen", tmp_path / "key.json")
    return [
        *("--cert", certificates["cert"], "--key", certificates["key"]),
        *("--repository", tmp_path / "kept", "-w", "additive"),
        *("--key-file", tmp_path / "key.json"),
    ]


@pytest.fixture
def resolving(certificates, tmp_path):
    kept, key = tmp_path / "kept", tmp_path / "key.json"
    return ["--repository", kept, "--key-file", key, "--trust", certificates["trust"]]


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
    assert found["altered_cells"] == 0
    assert (tmp_path / "found" / "stripped.c2pa").stat().st_size > 1000
    assert Image.open(tmp_path / "found" / "stripped.altered.png").size == Image.open(stripped).size


def test_an_unmarked_picture_is_rejected_with_a_reason(folder, signing, resolving, tmp_path):
    run("c2pa", "sign", folder / "a.png", "-o", tmp_path / "a.png", "--serial", "mine/1", *signing)
    shown = run("c2pa", "resolve", folder / "b.jpg", *resolving, code=1)
    assert "no mark that leads to one" in shown


def test_what_is_wrong_is_said_before_anything_is_signed(folder, signing, resolving, tmp_path):
    out = ("-o", tmp_path / "signed")
    assert "either --id or --serial" in complaint("c2pa", "sign", folder, *out, *signing)
    both = ("--serial", "a", "--id", "b")
    assert "either --id or --serial" in complaint("c2pa", "sign", folder, *out, *both, *signing)
    one = ("--serial", "a/1")
    assert "cannot stand for 3 pictures" in complaint("c2pa", "sign", folder, *out, *one, *signing)
    wrong = ["c2pa", "sign", folder, *out, "--id", "a", *signing, "--key", tmp_path / "key.json"]
    assert "is not an unencrypted private key" in complaint(*wrong)
    assert not (tmp_path / "signed").exists()
    elsewhere = ["c2pa", "resolve", folder, "--repository", tmp_path / "nowhere"]
    assert "is not a manifest repository" in complaint(*elsewhere)


def test_repositories_are_merged(folder, signing, tmp_path):
    run("c2pa", "sign", folder / "a.png", "-o", tmp_path / "a.png", "--id", "order", *signing)
    merge = ["c2pa", "merge", tmp_path / "kept", "--repository", tmp_path / "all"]
    assert run_json(*merge) == {"added": 1}
    assert run_json(*merge) == {"added": 0}


def test_entries_for_the_public_list(tmp_path):
    audit = tmp_path / "audit.json"
    audit.write_text(json.dumps({"command": "audit mbrs", "made": "2026-11-17T03:00:00Z"}))
    url = "https://example.com/audit.json"
    shown = run(
        *("c2pa", "entries", "--contact", "a@example.com", "--first", "50"),
        *("--audit", audit, "--audit-url", url, "--api", "https://example.com/v1"),
    )
    lock, *fingerprints = json.loads(shown)
    name = re.compile(
        r"[A-Za-z]{2,63}(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+"
    )  # the list's own
    assert all(name.fullmatch(entry["alg"]) for entry in (lock, *fingerprints))
    assert (lock["identifier"], lock["type"]) == (50, "watermark")
    assert [entry["type"] for entry in fingerprints] == ["fingerprint"] * len(fingerprints)
    [benchmark] = lock["entryMetadata"]["benchmarkingInformation"]
    digest = hashlib.sha256(audit.read_bytes()).hexdigest()
    assert benchmark["results"] == {"url": url, "sha256": digest}
    assert benchmark["benchmarkDate"] == "2026-11-17"
    assert "go together" in complaint("c2pa", "entries", "--contact", "a@b.c", "--audit", audit)
    audit.write_text("[]")
    unlike = ("--audit", audit, "--audit-url", url)
    assert "not the JSON of an audit" in complaint("c2pa", "entries", "--contact", "a@b.c", *unlike)


def test_without_the_package_one_sentence_says_what_to_install(folder, tmp_path):
    program = (
        "import sys\n"
        "sys.modules['c2pa'] = sys.modules['cryptography'] = None\n"
        "from coverlock_sdk.cli import main\n"
        f"sys.argv = ['coverlock', 'c2pa', 'trial-certificates', {str(tmp_path / 'x')!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'coverlock-sdk[c2pa]'" in done.stderr
    assert done.stderr.count("\n") == 1
