"""Names of people, places and companies in sentences: a generated data set with a label for each
word.
"""

from dataclasses import dataclass
from random import Random

from tfzoo.base.registry import register
from tfzoo.data.sets import Drawn, Row

KINDS = ("LOC", "ORG", "PER")
FORMS = (
    "PER sings in LOC",
    "ORG sells shares in LOC",
    "PER , who left LOC , sings",
    "ORG , which left LOC , sells shares",
    "PER , who joined ORG , sings",
    "ORG , which left LOC and PER , sells shares",
    "the lake near LOC froze when PER joined ORG",
    "PER and PER asked ORG about LOC",
    "the river from LOC to LOC is long",
    "PER asked PER about the old O",
    "the new O of ORG broke near LOC",
)
"""Sentences in which each of :data:`KINDS` stands for a name, and ``O`` for a word of names."""
START, END = ("b", "d", "k", "l", "m", "n", "r", "s", "t", "v"), ("ala", "eno", "ira", "oba", "umi")
WORDS = tuple(start + end for start in START for end in END)


@register("dataset", "entities", paper="arXiv:cs/0306050")
@dataclass(kw_only=True)
class Entities(Drawn):
    """Named entities: ``bala reno , who left kumi , sings`` is ``B-PER I-PER O O O B-LOC O O``.

    A name has one to three of ``words`` words that are drawn anew for every sentence, so that no
    word says what it belongs to: a person sings, asks or joins, whatever stands between the
    name and the verb. Labels are in the scheme BIO (Tjong Kim Sang and De Meulder 2003).

    >>> from tfzoo.base.registry import create
    >>> made = create("dataset", {"name": "entities", "words": 9, "train": 9})
    >>> made.splits(seed=1)["val"][0]
    ('dira , which left bala , sells shares', 'B-ORG O O O B-LOC O O O')
    """

    labels = ("B-LOC", "B-ORG", "B-PER", "I-LOC", "I-ORG", "I-PER", "O")

    words: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("words", le=len(WORDS))
        self.known = WORDS[: self.words]

    def draw(self, split: str, random: Random) -> Row:
        words: list[str] = []
        labels: list[str] = []
        for word in random.choice(FORMS).split(" "):
            if word in KINDS:
                name = random.choices(self.known, k=random.randint(1, 3))
                words += name
                labels += [f"B-{word}", *[f"I-{word}"] * (len(name) - 1)]
            else:
                words.append(random.choice(self.known) if word == "O" else word)
                labels.append("O")
        return " ".join(words), " ".join(labels)
