"""What each tokenizer knows and does not know."""

import unicodedata

import pytest

from tfzoo.base.registry import create
from tfzoo.errors import BadOption

LINES = [
    "A man with a hat, (laughing) at 2 dogs.",
    "Ein Mann mit einem Hut.",
    "两个人在公园里。",
    "<pad> <0x41> pad unknown begin end",
] * 20

TEXTS = [
    "",
    " ",
    "   ",
    "  two spaces before, two  inside, two after  ",
    "no\u00a0break\u00a0space \u00a0 and\u2009thin",
    "a tab\there",
    "😀 a family 👨\u200d👩\u200d👧 and a flag 🇩🇪",
    "你好，世界！两个人 hello 在公园里",
    "ångström Ångström e\u0301",
    "▁ the sign that others use for a space ▁▁",
    "Ġ byte level's Ġ",
    "<pad> <unk> <s> </s> [PAD] pad unknown begin end",
    "<0x41><0xFF> <0x0A>",
    "next line \u0085 and \u2028 stay",
    "\x00 \x7f \ufffd \U0010ffff",
    "ﬁ ligature, ① and ½",
    "שלום עולם مرحبا",
]
WHOLE = ["bpe", "unigram", "character", "bytes"]
"""Those that lose nothing."""


def trained(name, **options):
    tokenizer = create("tokenizer", {"name": name, **options})
    tokenizer.train(LINES)
    return tokenizer


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_lost_that_training_never_saw(name):
    tokenizer = trained(name, **({} if name == "bytes" else {"vocab_size": 320}))
    for text in TEXTS:
        [back] = tokenizer.decode(tokenizer.encode([text]))
        assert unicodedata.normalize("NFC", back) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("name", [*WHOLE, "word"])
def test_no_text_reaches_the_special_ids_but_the_unknown(name):
    tokenizer = trained(name)
    lines = [*TEXTS, *LINES, "pad ", " pad  unknown ", " pad", " begin end"]
    ids = {id for sentence in tokenizer.encode(lines) for id in sentence}
    assert ids & {0, 1, 2, 3} == ({1} if name == "word" else set())
    assert max(ids) < len(tokenizer)


@pytest.mark.parametrize("name", [*WHOLE, "word"])
def test_line_ends_never_come_out(name):
    tokenizer = trained(name)
    [text] = tokenizer.decode([list(range(len(tokenizer)))])
    assert "\n" not in text
    assert "\r" not in text


def test_rare_words_are_unknown_and_frequent_ones_come_back():
    word = trained("word")
    assert word.encode(["A man with a zebra."])[0][-2] == 1
    assert word.decode(word.encode(["A man with a hat, (laughing) at 2 dogs."])) == [
        "A man with a hat, (laughing) at 2 dogs."
    ]
    assert len(trained("word", vocab_size=10)) == 10
    assert len(trained("word", min_count=1000)) == 4


def test_words_are_cut_at_signs_or_at_spaces_alone():
    text = "hat, (laughing)"
    assert len(trained("word").encode([text])[0]) == 5
    assert len(trained("word", cut="spaces").encode([text])[0]) == 2


def test_rare_characters_have_the_same_ids_in_every_training():
    pairs, states = create("dataset", {"name": "numbers", "train": 200}).splits(0)["train"], set()
    for _ in range(3):
        unigram = create("tokenizer", {"name": "unigram", "vocab_size": 300})
        unigram.train(text for pair in pairs for text in pair)
        states.add(unigram.state())
    assert len(states) == 1


@pytest.mark.parametrize("name", ["bpe", "unigram", "character", "word"])
def test_case_can_be_given_up(name):
    tokenizer, plain = trained(name, lowercase=True), trained(name)
    assert plain.encode(["A MAN"]) != plain.encode(["a man"])
    assert tokenizer.encode(["A MAN"]) == tokenizer.encode(["a man"])


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "bpe", "vocab_size": 259},
        {"name": "unigram", "vocab_size": 259},
        {"name": "character", "vocab_size": 259},
        {"name": "word", "vocab_size": 4},
        {"name": "word", "min_count": 0},
    ],
)
def test_a_vocabulary_without_room_is_refused(spec):
    with pytest.raises(BadOption, match=r"must be a whole number (at least|over)"):
        create("tokenizer", spec)
