"""What byte pair encoding has that others have not; see test_all.py."""

import os
import subprocess
import sys

import pytest

from tests.data.tokenizers.test_all import LINES
from tfzoo.data.tokenizers import BPE


def test_training_on_the_names_of_special_ids_and_bytes_does_not_make_them_text():
    tokenizer = BPE(vocab_size=600)
    tokenizer.train([" pad", "pad ", "<0x41>", " <0x41>", " begin end unknown "] * 1000)
    texts = ["pad", " pad", "pad ", "<0x41>", "A", "begin end"]
    assert tokenizer.decode(tokenizer.encode(texts)) == texts
    assert min(token for sentence in tokenizer.encode(texts) for token in sentence) > 3


def test_the_vocabulary_is_as_large_as_asked_where_the_text_allows():
    tokenizer = BPE(vocab_size=290)
    tokenizer.train(LINES)
    assert len(tokenizer) == 290


def test_more_characters_than_fit_become_bytes():
    tokenizer = BPE(vocab_size=300)
    text = "".join(chr(0x4E00 + i) for i in range(1000))
    tokenizer.train([text])
    assert len(tokenizer) <= 300
    assert tokenizer.decode(tokenizer.encode([text])) == [text]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_neither_warns_nor_hangs(monkeypatch):
    code = """
import os
from tfzoo.data.tokenizers import BPE
bpe = BPE(vocab_size=300)
bpe.train(["a b"] * 100)
bpe.encode(["a b"] * 1000)
child = os.fork()
if child == 0:
    bpe.encode(["a b"] * 1000)
    os._exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(status)
"""
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    # Python 3.12 and later warn of every fork of a process with threads
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.split(), done.stderr) == (["7"], "")
