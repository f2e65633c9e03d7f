from __future__ import annotations

import math

import pytest

from tests.golden.answers import answers, golden

pytest.importorskip("torch")

ROUNDED = {"psnr": 0.01, "pixels": 100}
"""By how much answers may differ, because another processor rounds differently."""


def test_answers_are_the_golden_ones() -> None:
    found = list(answers())
    assert len(found) == len(golden())
    for answer, expected in zip(found, golden(), strict=True):
        probabilities = [each.pop("p_value", 1.0) for each in (answer, expected)]
        assert math.log(probabilities[0]) == pytest.approx(math.log(probabilities[1]), rel=0.02)
        for name, most in ROUNDED.items():
            assert answer.pop(name, 0) == pytest.approx(expected.pop(name, 0), abs=most)
        assert answer == expected


def test_the_golden_answers_are_many_and_of_both_kinds() -> None:
    assert len(golden()) >= 600
    assert {answer.get("accepted") for answer in golden()} == {True, False, None}
