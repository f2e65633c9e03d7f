import math

import pytest

from tests.golden.answers import SUBJECTS, answers_of, golden, subject_of

pytest.importorskip("torch")

ROUNDED = {"psnr": 0.01, "pixels": 100}
"""By how much answers may differ, because another processor rounds differently."""


def check_answers_of(subject: tuple[str, str]) -> None:
    """Compare what a subject says now with what it said when the answers were written down."""
    found = list(answers_of(subject))
    wanted = [answer for answer in golden() if subject_of(answer) == subject]
    assert len(found) == len(wanted) > 0
    for answer, expected in zip(found, wanted, strict=True):
        probabilities = [each.pop("p_value", 1.0) for each in (answer, expected)]
        assert math.log(probabilities[0]) == pytest.approx(math.log(probabilities[1]), rel=0.02)
        for name, most in ROUNDED.items():
            assert answer.pop(name, 0) == pytest.approx(expected.pop(name, 0), abs=most)
        assert answer == expected


@pytest.mark.parametrize("subject", SUBJECTS[:3], ids=", ".join)
def test_answers_are_the_golden_ones(subject):
    check_answers_of(subject)


def test_the_golden_answers_are_many_and_of_both_kinds():
    assert len(golden()) >= 600
    assert {answer.get("accepted") for answer in golden()} == {True, False, None}
    assert tuple(dict.fromkeys(map(subject_of, golden()))) == SUBJECTS
