"""The other half of the golden answers, in a file of its own so that it runs at the same time."""

import pytest

from tests.golden.answers import SUBJECTS
from tests.golden.test_golden import check_answers_of


@pytest.mark.parametrize("subject", SUBJECTS[3:], ids=", ".join)
def test_answers_are_the_golden_ones(subject):
    check_answers_of(subject)
