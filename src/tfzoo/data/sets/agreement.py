"""Sentences of a small grammar in which verbs agree with distant nouns: a generated data set whose
entropy is known.
"""

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from random import Random

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row

NOUNS = (
    *("dog", "cat", "bird", "duck", "horse", "girl"),
    *("boy", "king", "queen", "baker", "sailor", "poet"),
)
ALONE = ("sleep", "run", "sing", "fall", "laugh", "wait")
WITH_OBJECT = ("see", "hear", "like", "chase", "follow", "know")
RELATIVE = 0.3
"""The probability of a relative clause after a noun, while the depth allows one."""
DEEPEST = 10

Next = Mapping[str, float]
"""The probability of each word that may be next."""


@register("dataset", "agreement")
@dataclass(kw_only=True)
class Agreement(Drawn):
    """Documents of sentences such as ``the dogs that the cat hears sleep .``: the verb of a noun
    agrees with it, however much stands between them.

    A document has 2 to ``sentences`` sentences, each number with the same probability. A noun is
    one of 12 in the singular or plural, with equal probability. It is followed by a relative clause
    with probability 0.3, down to ``depth`` of them inside each other. The verb of a relative clause
    takes an object; that of the sentence is one of 12, of which 6 do, with equal probability. The
    label of a document is the depth of its deepest relative clause.

    >>> from tfzoo.base.registry import create
    >>> create("dataset", "agreement").splits(seed=3)["test"][0]
    ('the cats that the girl knows sleep . the king laughs . the girl likes the queens .', '1')
    """

    sentences: int = 4
    depth: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("sentences", ge=2, le=1000)
        self.check("depth", ge=0, le=DEEPEST)
        self.labels = [str(depth) for depth in range(self.depth + 1)]

    def bits(self, document: str) -> float:
        """``-log2 p`` of a document, its end included."""
        words, bits = self._document(), 0.0
        following = next(words)
        for word in document.split(" "):
            bits -= math.log2(following[word])
            following = words.send(word)
        return bits - math.log2(following[""])

    def draw(self, split: str, random: Random) -> Row:
        words, text = self._document(), []
        deepest = depth = 0
        following = next(words)
        while word := random.choices(list(following), [*following.values()])[0]:
            text.append(word)
            depth = 0 if word == "." else depth + (word == "that")
            deepest = max(deepest, depth)
            following = words.send(word)
        return " ".join(text), str(deepest)

    def _document(self) -> Generator[Next, str, None]:
        """Yields what may be next, and is sent what it is; the end of the document is ``""``."""
        for done in range(self.sentences):
            end = 1 / (self.sentences - done + 1) if done > 1 else 0.0
            yield from self._sentence({"the": 1 - end, "": end})
        yield {"": 1.0}

    def _sentence(self, first: Next) -> Generator[Next, str, None]:
        verb = yield from self._clause(first, ALONE + WITH_OBJECT, self.depth)
        if verb in forms(WITH_OBJECT):
            yield {"the": 1.0}
            yield likely(forms(NOUNS))
        yield {".": 1.0}

    def _clause(self, first: Next, verbs: tuple[str, ...], depth: int) -> Generator[Next, str, str]:
        """``the NOUN [that CLAUSE] VERB``; returns the verb."""
        yield first
        noun = yield likely(forms(NOUNS))
        # A noun takes -s in the plural, and a verb in the singular.
        agreeing = verbs if noun.endswith("s") else singular(verbs)
        relative = RELATIVE if depth else 0.0
        following = likely(agreeing, 1 - relative)
        word = yield {**following, "that": relative}
        if word == "that":
            yield from self._clause({"the": 1.0}, WITH_OBJECT, depth - 1)
            word = yield likely(agreeing)
        return word


@cache
def forms(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words with and without -s."""
    return tuple(chain.from_iterable((word, f"{word}s") for word in words))


@cache
def singular(verbs: tuple[str, ...]) -> tuple[str, ...]:
    """Verbs with -s."""
    return tuple(f"{verb}s" for verb in verbs)


@cache
def likely(words: tuple[str, ...], together: float = 1.0) -> Next:
    """Words of equal probability, and their sum."""
    return dict.fromkeys(words, together / len(words))
