from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.scaling.job import VerificationJob
from tests.coverlock_plugins.ray_cluster.conftest import rows_in
from tests.toy_bundle import write_toy_bundle

pytest.importorskip("pyarrow.parquet", reason="pip install 'coverlock-sdk[dev]'")

import pyarrow.fs

from coverlock_plugins.ray_cluster.inputs import asked_again
from coverlock_plugins.ray_cluster.results import Results, terms
from coverlock_sdk.bundles.bundle import seal
from coverlock_sdk.frames import Frame
from coverlock_sdk.locking.verdict import Verdict

TERMS = {"message": "alice"}


def row(name: str, status: str = "rejected") -> dict:
    return {"file": name, "status": status, "error": "because" if status == "error" else None}


def test_a_shard_whose_file_exists_is_done(tmp_path):
    out = tmp_path / "run=1"  # which some readers take for a column
    results = Results(out, TERMS)
    results.write(0, [row("a"), row("b", "error")])
    results.write(2, [row("e", "accepted")])
    again = Results(out, TERMS)
    assert [again.is_done(shard) for shard in range(3)] == [True, False, True]
    assert again.counts() == {"accepted": 1, "rejected": 1, "error": 1}
    assert [row["file"] for row in rows_in(out)] == ["a", "b", "e"]


def test_results_go_to_an_object_store_too(tmp_path, monkeypatch):
    (tmp_path / "bucket").mkdir()
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    asked: list[str] = []

    def resolved(uri):
        asked.append(uri)
        return store, "bucket/run"

    monkeypatch.setattr("coverlock_plugins.ray_cluster.results.resolved", resolved)
    uri = "s3://key:secret@bucket/run?endpoint_override=store:9000"
    Results(uri, TERMS).write(0, [row("a"), row("b", "accepted")])
    again = Results(uri, TERMS)
    assert asked == [uri, uri]
    assert [again.is_done(shard) for shard in range(2)] == [True, False]
    assert again.counts() == {"accepted": 1, "rejected": 1, "error": 0}
    with pytest.raises(CoverLockError, match=r"^s3://bucket/run holds the results of another job"):
        Results(uri, {"message": "bob"})
    (tmp_path / "bucket/run/part-000000.parquet").write_bytes(b"cut off")
    with pytest.raises(CoverLockError, match=r"^s3://bucket/run/part-000000.parquet is not a file"):
        again.counts()


def test_a_store_that_fails_for_a_moment_is_asked_again(monkeypatch):
    monkeypatch.setattr("coverlock_plugins.ray_cluster.inputs.PAUSES", (0, 0))
    answers = iter([OSError("slow down"), OSError("slow down"), b"here"])

    def ask():
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    assert asked_again(ask) == b"here"
    with pytest.raises(FileNotFoundError):
        asked_again(lambda: Path("/nowhere/at/all").read_bytes())


def test_a_folder_of_other_things_is_refused(tmp_path):
    Results(tmp_path, TERMS).write(0, [row("a")])
    (tmp_path / "part-000000.parquet").write_bytes(b"not parquet")
    with pytest.raises(CoverLockError, match="not a file of results"):
        Results(tmp_path, TERMS).counts()
    (tmp_path / "_job.json").write_text("no job")
    with pytest.raises(CoverLockError, match="does not describe a job"):
        Results(tmp_path, TERMS)
    (tmp_path / "_job.json").unlink()
    with pytest.raises(CoverLockError, match="results of an unknown job"):
        Results(tmp_path, TERMS)


def results_of(job: VerificationJob, out: Path) -> Results:
    return Results(out, terms(job, *job.checked()))


def test_all_of_a_verdict_is_kept(tmp_path):
    verdict = Verdict(
        True, 1e-9, 47, 48, 1e-6, "soft", 0.9, 0.8, 0.95, Frame(0.9, 0.45, 0.5), "test", "because"
    )
    Results(tmp_path, TERMS).write(0, [{**row("a", "accepted"), **verdict.to_dict()}])
    [kept] = rows_in(tmp_path)
    told = verdict.to_dict()
    assert told.pop("accepted")
    assert {name: kept[name] for name in told} == told


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A job with a key, of a bundle that any key may open."""
    folder = tmp_path_factory.mktemp("keyed")
    for name in ("one.json", "two.json"):
        CliRunner().invoke(build_cli(), ["keygen", str(folder / name)])
    write_toy_bundle(folder / "bundle")
    return VerificationJob(str(folder / "bundle"), "alice", str(folder / "one.json"))


FILES = ("key_file", "registry")


@pytest.mark.parametrize(
    ("term", "change"),
    [
        ("message", {"message": "bob"}),
        ("message", {"message": None}),
        ("keys", {"key_file": "two.json"}),
        ("keys", {"key_file": None}),
        ("fpr", {"fpr": 1e-3}),
        ("registry", {"registry": "pictures.registry"}),
        ("precision", {"precision": "int8"}),
    ],
)
def test_verdicts_of_another_job_are_never_taken_for_ones_own(keyed, tmp_path, term, change):
    results_of(keyed, tmp_path).write(0, [row("a")])
    change = {
        name: str(Path(keyed.bundle).with_name(value)) if name in FILES and value else value
        for name, value in change.items()
    }
    with pytest.raises(CoverLockError, match=f"another job \\(differing in {term}\\): choose"):
        results_of(replace(keyed, **change), tmp_path)


def test_the_same_job_in_other_words_goes_on(keyed, tmp_path):
    results_of(keyed, tmp_path).write(0, [row("a")])
    spelled_out = replace(keyed, fpr=1e-6, runtime="cpu", max_batch=7)
    assert results_of(spelled_out, tmp_path).is_done(0)


def test_another_bundle_is_another_job(keyed, tmp_path):
    results_of(keyed, tmp_path / "out").write(0, [row("a")])
    bundle = write_toy_bundle(tmp_path / "bundle")
    seal(bundle.path, replace(bundle.manifest, made={"time": "later"}))
    with pytest.raises(CoverLockError, match="differing in bundle"):
        results_of(replace(keyed, bundle=str(bundle.path)), tmp_path / "out")


def test_what_tells_jobs_apart_holds_neither_a_key_nor_the_message(keyed, tmp_path):
    results_of(keyed, tmp_path).write(0, [row("a")])
    told = (tmp_path / "_job.json").read_text()
    secret = Path(keyed.key_file).read_text().split('"secret": "')[1].split('"')[0]
    assert secret not in told
    assert "alice" not in told
