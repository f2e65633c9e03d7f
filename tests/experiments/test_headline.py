from coverlock_bench.ledger import Ledger, Session
from coverlock_bench.settings import PAPER
from coverlock_sdk.testing import natural_pictures
from experiments.headline import (
    CHANGES,
    HEADLINE,
    ROBUSTNESS,
    SPLIT,
    Cast,
    Scale,
    forgeries,
    label_of,
    measured,
)


def test_parts_share_no_picture():
    pictures = natural_pictures(12, (32, 32))
    cast = Cast.of(pictures, seed=0)
    dealt = [p.tobytes() for part in (cast.sources, cast.targets, cast.naturals) for p in part]
    assert len(set(dealt)) == len(dealt)
    assert len(cast.sources) == len(cast.targets)


def test_forgeries_and_genuine_pictures_stand_side_by_side(additive, monkeypatch):
    monkeypatch.setattr("experiments.headline.SCALES", {"gt": Scale(4, 3)})
    monkeypatch.setattr("experiments.headline.BARE", Scale(4, 3))
    pictures = natural_pictures(16, (128, 128))
    cells = {
        defense: measured(additive, defense, ("gt",), pictures, None, 2, 0, Session())
        for defense in ("none", "coverlock")
    }
    assert cells["none"]["attacks"]["gt"]["asr"]["rate"] == 1
    assert cells["coverlock"]["attacks"]["gt"]["asr"]["successes"] == 0
    assert cells["none"]["attacks"]["gt"]["asr"]["clusters"][0] == 4
    genuine = cells["coverlock"]["genuine"]
    assert set(genuine) == {"clean", *CHANGES}
    assert genuine["clean"]["tpr"]["successes"] == 2
    assert genuine["jpeg"]["error"]["hash"] is not None
    figures = {"additive": {"photos": cells}}
    bare, locked = HEADLINE.markdown(figures).splitlines()[2:]
    assert "| none | 12 of 12 [" in bare
    assert "| coverlock | 0 of 12 [0.00, " in locked
    assert "turn-3" in ROBUSTNESS.markdown(figures)
    assert SPLIT.markdown(figures).splitlines()[2].count("| - |") == 1  # no lock, no hash


def test_a_shorter_run_is_the_beginning_of_a_longer_one(additive, tmp_path, monkeypatch):
    pictures = natural_pictures(12, (64, 64))
    given = additive, "none", "gt", pictures, Scale(8, 2), 0
    whole = forgeries(*given, Session(Ledger(tmp_path / "kept.sqlite")))
    short = forgeries(*given, Session(), groups=3)
    assert short["asr"]["trials"] == 12
    monkeypatch.setattr("experiments.headline.forge", None)  # nothing is forged anew
    kept = Session(Ledger(tmp_path / "kept.sqlite"))
    assert forgeries(*given, kept, groups=3) == short
    assert forgeries(*given, kept) == whole


def test_tables_name_the_papers_method_and_its_hash():
    labels = {
        PAPER: "the paper's method, octave",
        f"{PAPER},hash=dinov2-s": "the paper's method, dinov2-s",
        "coverlock:hash=dinov2-s,floors=off,rule=hard,harden=false,rounds=1,key=none": "the "
        "paper's method, dinov2-s",
        "coverlock:hash=dinov2-s": "coverlock:hash=dinov2-s",
        "coverlock:registry=/somewhere/pictures.db": "coverlock, registry",
        "none": "none",
    }
    assert {setting: label_of(setting) for setting in labels} == labels
