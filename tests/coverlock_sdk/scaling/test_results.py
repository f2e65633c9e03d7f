from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from coverlock_sdk.bundles.bundle import seal
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CoverLockError
from coverlock_sdk.hashing.frames import Frame
from coverlock_sdk.locking.verdict import Verdict
from coverlock_sdk.scaling.job import VerificationJob
from tests.coverlock_sdk.scaling.conftest import rows_in
from tests.toy_bundle import write_toy_bundle

pq = pytest.importorskip("pyarrow.parquet", reason="pip install 'coverlock-sdk[dev]'")

from coverlock_sdk.scaling.results import Results  # noqa: E402 (needs pyarrow)

TERMS = {"message": "alice"}


def row(name: str, status: str = "rejected") -> dict:
    return {"file": name, "status": status, "error": "because" if status == "error" else None}


def statuses(out: Path) -> dict[str, str]:
    """By name; a picture that is there twice is an error."""
    rows = rows_in(out)
    found = {row["file"]: row["status"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_results_hold_a_picture_once_and_go_on_where_they_were(tmp_path):
    with Results(tmp_path / "out", TERMS, rows_per_file=3) as results:
        results.add([row("a"), row("b")])
        results.add([row("b"), row("c"), row("d")])
    assert list(statuses(tmp_path / "out")) == ["a", "b", "c", "d"]
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2
    with Results(tmp_path / "out", TERMS) as again:
        assert again.done() == {(name, None) for name in "abcd"}
        again.add([row("d"), row("e")])
    assert again.counts() == {"accepted": 0, "rejected": 5, "error": 0}


def test_a_driver_that_is_killed_loses_a_few_seconds_of_work(tmp_path, monkeypatch):
    """It lost up to 10,000 rows, which were written only when they filled a file."""
    monkeypatch.setattr("coverlock_sdk.scaling.results.SECONDS_PER_WRITE", 0)
    out = tmp_path / "out"
    results = Results(out, TERMS, rows_per_file=3)
    results.__enter__()
    for count, name in enumerate("abcdefgh", start=1):
        results.add([row(name)])
        assert len(statuses(out)) == count  # though nobody left the results in order
    assert [len(rows) for rows in parts(out)] == [3, 3, 2]  # and files are as full as before
    with Results(out, TERMS, rows_per_file=3) as again:
        assert len(again.done()) == 8


def parts(out: Path) -> list[list]:
    return [pq.ParquetFile(path).read().to_pylist() for path in sorted(out.glob("*.parquet"))]


def test_errors_are_tried_again_and_what_comes_of_it_replaces_them(tmp_path):
    out = tmp_path / "run=1"  # which some readers take for a column
    with Results(out, TERMS, rows_per_file=2) as results:
        results.add([row("a"), row("b", "error"), row("c", "error"), row("d", "error")])
    with Results(out, TERMS, rows_per_file=2) as again:
        assert again.done() == {("a", None)}
        again.add([row("b", "accepted"), row("c", "error"), row("e")])
    assert statuses(out) == {
        "a": "rejected",
        "b": "accepted",
        "c": "error",
        "d": "error",  # nobody came back to it
        "e": "rejected",
    }
    assert again.counts() == {"accepted": 1, "rejected": 2, "error": 2}
    schemas = {tuple(pq.ParquetFile(part).schema_arrow.names) for part in out.glob("*.parquet")}
    assert len(schemas) == 1


def test_finished_work_is_kept_when_a_job_is_interrupted(tmp_path):
    with contextlib.suppress(KeyboardInterrupt), Results(tmp_path, TERMS) as results:
        results.add([row("a")])
        raise KeyboardInterrupt
    assert list(statuses(tmp_path)) == ["a"]


def test_a_folder_of_other_things_is_refused(tmp_path):
    with Results(tmp_path, TERMS) as results:
        results.add([row("a")])
    (tmp_path / "part-000000.parquet").write_bytes(b"not parquet")
    with pytest.raises(CoverLockError, match="not a file of results"):
        Results(tmp_path, TERMS)
    (tmp_path / "job.json").write_text("no job")
    with pytest.raises(CoverLockError, match="does not describe a job"):
        Results(tmp_path, TERMS)
    (tmp_path / "job.json").unlink()
    with pytest.raises(CoverLockError, match="results of an unknown job"):
        Results(tmp_path, TERMS)


def test_a_folder_that_was_not_used_belongs_to_nobody(tmp_path):
    Results(tmp_path, {"message": "a typo, found before the job began"})
    Results(tmp_path, TERMS)


def results_of(job: VerificationJob, out: Path) -> Results:
    return Results(out, job.terms(*job.checked()))


def test_all_of_a_verdict_is_kept(tmp_path):
    verdict = Verdict(
        True, 1e-9, 47, 48, 1e-6, "soft", 0.9, 0.8, 0.95, Frame(0.9, 0.45, 0.5), "test", "because"
    )
    with Results(tmp_path, TERMS) as results:
        results.add([{**row("a", "accepted"), **verdict.to_dict()}])
    [kept] = rows_in(tmp_path)
    told = verdict.to_dict()
    assert told.pop("accepted")
    assert {name: kept[name] for name in told} == told


@pytest.fixture(scope="module")
def keyed(tmp_path_factory) -> VerificationJob:
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
        ("message", {"message": (0, 1) * 24}),
        ("message", {"message": None}),
        ("keys", {"key_file": "two.json"}),
        ("keys", {"key_file": None}),
        ("fpr", {"fpr": 1e-3}),
        ("registry", {"registry": "pictures.registry"}),
        ("precision", {"precision": "int8"}),
    ],
)
def test_verdicts_of_another_job_are_never_taken_for_ones_own(keyed, tmp_path, term, change):
    with results_of(keyed, tmp_path) as results:
        results.add([row("a")])
    change = {
        name: str(Path(keyed.bundle).with_name(value)) if name in FILES and value else value
        for name, value in change.items()
    }
    with pytest.raises(CoverLockError, match=f"another job \\(differing in {term}\\): choose"):
        results_of(replace(keyed, **change), tmp_path)


def test_the_same_job_in_other_words_goes_on(keyed, tmp_path):
    with results_of(keyed, tmp_path) as results:
        results.add([row("a")])
    spelled_out = replace(keyed, fpr=1e-6, runtime="cpu", max_batch=7)
    assert results_of(spelled_out, tmp_path).done() == {("a", None)}


def test_another_bundle_is_another_job(keyed, tmp_path):
    with results_of(keyed, tmp_path / "out") as results:
        results.add([row("a")])
    bundle = write_toy_bundle(tmp_path / "bundle")
    seal(bundle.path, replace(bundle.manifest, made={"time": "later"}))
    with pytest.raises(CoverLockError, match="differing in bundle"):
        results_of(replace(keyed, bundle=str(bundle.path)), tmp_path / "out")


def test_what_tells_jobs_apart_holds_neither_a_key_nor_the_message(keyed, tmp_path):
    with results_of(keyed, tmp_path):
        pass
    told = (tmp_path / "job.json").read_text()
    secret = Path(keyed.key_file).read_text().split('"secret": "')[1].split('"')[0]
    assert secret not in told
    assert "alice" not in told
