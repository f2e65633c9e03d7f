"""A lock compares each picture with those that it was given before."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from coverlock_sdk import load_hash, wrap
from coverlock_sdk.cli import build_cli
from coverlock_sdk.errors import CrowdFileError, LookalikeWarning
from coverlock_sdk.hashing import own_crowd
from coverlock_sdk.hashing.own_crowd import OwnCrowd, Trace
from tests.conftest import AdditiveMark


@pytest.fixture(scope="module")
def cards(photos):
    """Three pictures that differ in a small field each, as cards of one template do."""
    cards = np.repeat(photos[:1], 3, axis=0)
    for row, card in enumerate(cards):
        card[8 : 12 + 2 * row, 8:40] = 60 * row
    return cards


def lock_of(**settings):
    return wrap(AdditiveMark(), hash="nano", harden=False, **settings)


def traces(count, seed=0):
    rng = np.random.default_rng(seed)
    return [Trace(rng.bytes(8), rng.bytes(32)) for _ in range(count)]


@pytest.mark.parametrize("keyed", [False, True])
def test_each_picture_is_compared_with_those_before(cards, photos, key, keyed):
    lock = lock_of(key=key if keyed else None)
    lock.mark(photos[5], "studio")
    found = [lock.mark(card, "studio").lookalikes for card in cards]
    assert [each.own_count for each in found] == [0, 1, 2]
    assert [each.own_crowd for each in found] == [1, 2, 3]
    assert str(found[2]).startswith("2 of your 3 other pictures ")
    assert lock.mark(photos[6], "studio").lookalikes.own_count == 0


def test_the_same_picture_is_no_lookalike_of_itself(cards):
    lock = lock_of()
    for name in ("studio", "studio", "another"):
        found = lock.mark(cards[0], name).lookalikes
        assert (found.own, found.own_crowd) == (0, 0)
    changed = cards[0].copy()
    changed[0, 0, 0] ^= 1  # which no hash can tell
    found = lock.mark(changed, "studio").lookalikes
    assert (found.own_count, found.closest) == (1, 1.0)
    assert "your other picture would pass for this one" in str(found)
    assert "coverlock train templates" in str(found)


def test_in_a_batch_the_first_is_warned_about_too(cards, photos):
    with pytest.warns(LookalikeWarning) as caught:
        lock_of().embed([*cards, photos[5]], "studio")
    assert len([w for w in caught if "2 of your 3 other pictures" in str(w.message)]) == 3


def test_pictures_are_remembered_without_being_marked(cards, tmp_path):
    lock = lock_of()
    Image.fromarray(cards[0]).save(tmp_path / "card.png")
    [trace] = lock.remember(tmp_path / "card.png")
    assert (len(trace.digest), len(trace.code)) == (8, 32)
    assert lock.mark(cards[0], "studio").lookalikes.own_crowd == 0
    assert lock.mark(cards[1], "studio").lookalikes.own_count == 1


def test_a_hash_without_a_crowd_compares_ones_own(cards):
    lock = wrap(AdditiveMark(), hash="dct", harden=False)
    first, second = (lock.mark(card, "studio").lookalikes for card in cards[:2])
    assert (first.crowd, first.closest, bool(first)) == (0, 0.0, False)
    assert second.own_count == 1


def test_a_file_keeps_codes_and_nothing_else(cards, tmp_path):
    file = tmp_path / "pictures.crowd"
    lock_of(crowd=file).mark(cards[0], "a-secret-name")
    assert lock_of(crowd=file).mark(cards[1], "studio").lookalikes.own_count == 1
    assert lock_of(crowd=file).mark(cards[1], "studio").lookalikes.own_crowd == 1
    assert b"secret" not in file.read_bytes()
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT digest, code FROM pictures").fetchall()
    connection.close()
    assert [(len(digest), len(code)) for digest, code in rows] == [(8, 32)] * 2


def test_those_who_share_a_file_learn_from_one_another(tmp_path):
    image_hash, (a, b, c) = load_hash("dct"), traces(3)
    one, two = (OwnCrowd.open(tmp_path / "crowd", image_hash) for _ in range(2))
    one.add([a, b])
    two.add([b, c])
    one.add([])
    assert one.traces() == two.traces() == [a, b, c]


def test_a_file_that_cannot_be_used_is_refused(tmp_path):
    OwnCrowd.open(tmp_path / "crowd", load_hash("dct"))
    with pytest.raises(CrowdFileError, match="codes of another hash than 'nano'"):
        lock_of(crowd=tmp_path / "crowd")
    (tmp_path / "text").write_text("no database, however long " * 100)
    for bad in (tmp_path / "text", tmp_path, tmp_path / "nowhere" / "crowd"):
        with pytest.raises(CrowdFileError, match="cannot be used"):
            lock_of(crowd=bad)
    with sqlite3.connect(tmp_path / "crowd") as connection:
        connection.execute("INSERT INTO pictures (digest, code) VALUES ('short', 'shorter')")
    connection.close()
    with pytest.raises(CrowdFileError, match="another length"):
        OwnCrowd.open(tmp_path / "crowd", load_hash("dct"))


def test_threads_lose_nothing(tmp_path):
    for crowd in (OwnCrowd(), OwnCrowd.open(tmp_path / "crowd", load_hash("dct"))):
        parts = [traces(5, seed) for seed in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(crowd.add, [*parts, *parts]))
        assert sorted(crowd.traces()) == sorted(trace for part in parts for trace in part)


@pytest.mark.parametrize("kept", [False, True])
def test_memory_is_bounded(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(own_crowd, "MOST", 4)
    crowd = OwnCrowd.open(tmp_path / "crowd", load_hash("dct")) if kept else OwnCrowd()
    given_to_it = traces(7)
    for trace in given_to_it:
        crowd.add([trace])
    assert crowd.traces() == given_to_it[-4:]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), max_size=12))
def test_a_crowd_is_a_set_and_a_picture_is_not_in_that_of_its_others(order):
    every, crowd = traces(6), OwnCrowd()
    for row in order:
        crowd.add([every[row]])
    assert set(crowd.traces()) == {every[row] for row in order}
    assert len(crowd) == len(set(order))
    for trace in every:
        assert len(crowd.others(trace)) == len(crowd) - (trace in crowd.traces())


@pytest.fixture
def folder(tmp_path, cards, photos):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, picture in zip("abz", [*cards[:2], photos[5]], strict=True):
        Image.fromarray(picture).save(folder / f"{name}.png")
    (folder / "broken.png").write_bytes(b"nothing")
    return folder


def run(source, out, *options):
    line = ["embed", str(source), "-w", "additive", "--hash", "nano", "--no-harden"]
    line += ["--id", "studio", "-o", str(out), *options]
    result = CliRunner().invoke(build_cli(), [*line, "--json"])
    return result, json.loads(result.stdout) if result.stdout else None


@pytest.mark.usefixtures("additive_plugin")
def test_the_command_line_compares_all_of_a_folder(folder, tmp_path):
    (folder / "broken.png").unlink()
    result, answer = run(folder, tmp_path / "out")
    assert result.exit_code == 0
    assert [row["lookalikes"]["own_crowd"] for row in answer["results"]] == [2, 2, 2]
    said = [any("1 of your 2 other" in w for w in row["warnings"]) for row in answer["results"]]
    assert said == [True, True, False]


@pytest.mark.usefixtures("additive_plugin")
def test_strict_refuses_all_that_pass_for_one_another(folder, tmp_path):
    result, answer = run(folder, tmp_path / "out", "--strict")
    assert result.exit_code == 2
    errors = [row.get("error", "") for row in answer["results"]]
    assert ["1 of your 2 other" in error for error in errors] == [True, True, False, False]
    assert "broken.png" in errors[2]  # and said once
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["z.marked.png"]


@pytest.mark.usefixtures("additive_plugin")
def test_a_run_is_compared_with_earlier_ones(folder, tmp_path):
    crowd = ["--crowd", str(tmp_path / "pictures.crowd")]
    assert run(folder / "a.png", tmp_path / "a.marked.png", *crowd)[0].exit_code == 0
    again = run(folder / "a.png", tmp_path / "again.png", "--strict", *crowd)
    assert again[0].exit_code == 0  # the same picture
    result, answer = run(folder / "b.png", tmp_path / "b.marked.png", "--strict", *crowd)
    assert result.exit_code == 2
    assert "your other picture would pass for this one" in answer["results"][0]["error"]
    (tmp_path / "text").write_text("no database, however long " * 100)
    result, answer = run(folder, tmp_path / "out", "--crowd", str(tmp_path / "text"))
    assert result.exit_code == 2
    assert "cannot be used" in answer["error"]  # once, and not of each picture
