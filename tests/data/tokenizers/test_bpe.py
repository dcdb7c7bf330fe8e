"""Byte pair encoding loses nothing, and text cannot reach the special ids."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata

import pytest

from tfzoo.data.library import SMALLEST
from tfzoo.data.tokenizers.bpe import BPE
from tfzoo.errors import BadOption

LINES = [
    "Ein Mann mit einem Hut.",
    "A man with a hat, (laughing) at 2 dogs.",
    "两个人在公园里。",
    "<pad> <0x41> pad unknown begin end",
] * 20

TEXTS = [
    "Ein Mann mit einem Hut.",
    "  two spaces before, two  inside, two after  ",
    " ",
    "   ",
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


@pytest.fixture(scope="module")
def bpe() -> BPE:
    tokenizer = BPE(vocab_size=400)
    tokenizer.train(LINES)
    return tokenizer


@pytest.mark.parametrize("text", ["", *TEXTS])
def test_decoding_gives_back_the_text_in_normal_form(bpe: BPE, text: str) -> None:
    assert bpe.decode(bpe.encode([text])) == [unicodedata.normalize("NFC", text)]


def test_a_tokenizer_that_saw_nothing_of_a_language_loses_nothing_of_it() -> None:
    small = BPE(vocab_size=SMALLEST)
    small.train(["abc"])
    assert small.decode(small.encode(TEXTS)) == [
        unicodedata.normalize("NFC", text) for text in TEXTS
    ]


def test_no_text_becomes_a_special_id(bpe: BPE) -> None:
    ids = {
        token
        for sentence in bpe.encode([*TEXTS, *LINES, " pad", " unknown", " begin end", "a pad"])
        for token in sentence
    }
    assert min(ids) > 3
    assert max(ids) < len(bpe)


def test_training_on_the_names_of_special_ids_and_bytes_does_not_make_them_text() -> None:
    tokenizer = BPE(vocab_size=600)
    tokenizer.train([" pad", "pad ", "<0x41>", " <0x41>", " begin end unknown "] * 1000)
    texts = ["pad", " pad", "pad ", "<0x41>", "A", "begin end"]
    assert tokenizer.decode(tokenizer.encode(texts)) == texts
    assert min(token for sentence in tokenizer.encode(texts) for token in sentence) > 3


def test_special_ids_leave_no_trace_in_decoded_text(bpe: BPE) -> None:
    [ids] = bpe.encode(["Ein Hut."])
    assert bpe.decode([[2, *ids[:1], 1, *ids[1:], 3, 0, 0]]) == ["Ein Hut."]


def test_what_is_decoded_is_always_one_line(bpe: BPE) -> None:
    assert bpe.decode(bpe.encode(["a\nb\rc"])) == ["a b c"]


def test_chinese_gets_no_spaces(bpe: BPE) -> None:
    [ids] = bpe.encode(["两个人在公园里。"])
    assert len(ids) > 1
    assert bpe.decode([ids]) == ["两个人在公园里。"]


def test_a_first_word_is_the_same_token_as_an_inner_one(bpe: BPE) -> None:
    [first], [inner] = bpe.encode(["man"]), bpe.encode(["man man"])
    assert inner == [*first, *first]


def test_the_vocabulary_is_as_large_as_asked_where_the_text_allows(bpe: BPE) -> None:
    tokenizer = BPE(vocab_size=290)
    tokenizer.train(LINES)
    assert len(tokenizer) == 290


def test_more_characters_than_fit_become_bytes() -> None:
    tokenizer = BPE(vocab_size=300)
    text = "".join(chr(0x4E00 + i) for i in range(1000))
    tokenizer.train([text])
    assert len(tokenizer) <= 300
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_lowercase_is_an_option(bpe: BPE) -> None:
    lower = BPE(vocab_size=400, lowercase=True)
    lower.train(LINES)
    assert lower.decode(lower.encode(["Ein MANN, ÜBER"])) == ["ein mann, über"]
    assert bpe.encode(["Mann"]) != bpe.encode(["mann"])


def test_a_state_restores_everything(bpe: BPE) -> None:
    other = BPE(vocab_size=400)
    other.restore(bpe.state())
    assert other.encode(TEXTS) == bpe.encode(TEXTS)
    assert other.decode(bpe.encode(TEXTS)) == bpe.decode(bpe.encode(TEXTS))
    assert len(other) == len(bpe)


def test_too_small_a_vocabulary_is_refused() -> None:
    with pytest.raises(BadOption, match="260"):
        BPE(vocab_size=SMALLEST - 1)


def test_an_untrained_tokenizer_says_so() -> None:
    with pytest.raises(BadOption, match="train"):
        BPE().encode(["a"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_neither_warns_nor_hangs() -> None:
    code = """
import os
from tfzoo.data.tokenizers.bpe import BPE
bpe = BPE(vocab_size=300)
bpe.train(["a b"] * 100)
bpe.encode(["a b"] * 1000)
child = os.fork()
if child == 0:
    bpe.encode(["a b"] * 1000)
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status, "TOKENIZERS_PARALLELISM" in os.environ)
"""
    environment = {
        name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"
    }
    # Python 3.12 and later warn of every fork of a process with threads
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["7", "False"], "")
