"""Words, names and numbers for drawn pictures: made-up words to train on, English to judge by."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from coverlock_training.kinds.fonts import Split

ENGLISH = """
the of and to in is that for it as was with be by
on not he his but at are this have from or had an they
which one you were all her she there would their we him been has
when who will no more if out so said what up its about into
than them can only other time new some could these two may first then
do any like my now over such our man me even most made after
also did many before must through years where much your way well down should
because each just those people how too little state good very make world still
see own work men day get here between both life being under three never
know same last another while us off might great go come since against right
came take used himself few house american use place during high without again home
around small however found school part once general upon say every don does got
united left number course war until always away something fact water less public put
think almost hand enough far took head yet government system set told nothing night
end why called didn eyes find going look asked later knew point next program
city business give group toward young days let room within children side social given
order early form cost company market report price interest figure account summary total
"""
"""Words of evaluation pictures."""

SEED = 11
ONSETS = "b c d f g h j k l m n p r s t v w st tr pl ch sh"
NUCLEI = "a e i o u ai ea ou"
CODAS = "   n r s t l m nd st"
"""Parts of made-up syllables; many end without a consonant."""


class Words:
    """Draws words from a list, and numbers from digits."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def word(self, rng: np.random.Generator) -> str:
        """One word in lower case."""
        return self.words[int(rng.integers(len(self.words)))]

    def title(self, rng: np.random.Generator, count: int = 1) -> str:
        """Words with capitals, as names and headings have them."""
        return " ".join(self.word(rng).capitalize() for _ in range(count))

    def line(self, rng: np.random.Generator, letters: int) -> str:
        """Words that fill about ``letters`` letters, but no more."""
        text = self.word(rng)
        while len(text) < letters:
            text += " " + self.word(rng)
        return text[:letters].rstrip()

    def number(self, rng: np.random.Generator, digits: int = 4) -> str:
        """A number of so many digits."""
        return "".join(str(d) for d in rng.integers(0, 10, digits))

    def amount(self, rng: np.random.Generator) -> str:
        """An amount of money."""
        return f"{rng.integers(1, 10 ** int(rng.integers(1, 5)))}.{rng.integers(0, 100):02}"

    def date(self, rng: np.random.Generator) -> str:
        """A day in figures."""
        return f"{rng.integers(1, 29):02}.{rng.integers(1, 13):02}.{rng.integers(1950, 2030)}"


@lru_cache(maxsize=2)
def words_of(split: Split) -> Words:
    """The words that pictures of ``split`` are made of."""
    if split == "evaluation":
        return Words(ENGLISH.split())
    rng = np.random.RandomState(SEED)
    return Words([_made_up(rng) for _ in range(3000)])


def _made_up(rng: np.random.RandomState) -> str:
    syllables = rng.choice([1, 2, 3, 4], p=[0.35, 0.35, 0.2, 0.1])
    parts = [part.split(" ") for part in (ONSETS, NUCLEI, CODAS)]
    return "".join(str(rng.choice(part)) for _ in range(syllables) for part in parts)
