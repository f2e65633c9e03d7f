from __future__ import annotations

import json
import math

import pytest

from coverlock_sdk.errors import MissingModelError
from tests.golden.answers import FETCHED, FILE, SHIPPED, answers

EXACT = ("picture", "hash", "key", "rule", "message", "accepted", "matches", "code", "payload")


@pytest.mark.parametrize(
    "watermark", [*SHIPPED, *(pytest.param(name, marks=pytest.mark.slow) for name in FETCHED)]
)
def test_answers_are_the_golden_ones(watermark: str) -> None:
    golden = json.loads(FILE.read_text())[watermark]
    try:
        found = list(answers(watermark))
    except MissingModelError as error:
        pytest.skip(str(error))
    assert len(found) == len(golden)
    for answer, expected in zip(found, golden, strict=True):
        assert {name: answer[name] for name in EXACT} == {name: expected[name] for name in EXACT}
        # Weights of the soft rule are rounded: another processor may round one of them otherwise.
        assert math.log(answer["p_value"]) == pytest.approx(math.log(expected["p_value"]), rel=0.02)
        assert answer["psnr"] == pytest.approx(expected["psnr"], abs=0.01)


def test_the_golden_answers_are_many_and_of_both_kinds() -> None:
    golden = [answer for rows in json.loads(FILE.read_text()).values() for answer in rows]
    assert len(golden) >= 300
    assert {answer["accepted"] for answer in golden} == {True, False}
