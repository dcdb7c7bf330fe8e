"""Tokenizers of published models give the ids that ``transformers`` gives."""

import json
import sys
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor

from tests.data.test_sentencepiece import library
from tests.json_files import edit
from tests.published_folders import LINES, TOKENIZERS, mixed_lines, save_tokenizer
from tfzoo.base.registry import create
from tfzoo.data.classification import ClassificationData
from tfzoo.data.tokenizer import found_in, restored, state_of
from tfzoo.errors import BadRun, TfzooError


@pytest.fixture(params=TOKENIZERS)
def name(request):
    return str(request.param)


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_ids_are_those_of_transformers_in_four_scripts(name, count, tmp_path):
    peer = save_tokenizer(name, tmp_path)
    ours = create("tokenizer", {"name": "pretrained", "folder": str(tmp_path)})
    ours.train(LINES)
    texts = [*LINES, "", " two  spaces ", "\ttab", "🙂 ﬁ Å", *("x" * n for n in range(5))]
    texts += mixed_lines(count)
    theirs = peer(texts, add_special_tokens=False).input_ids
    assert ours.encode(texts) == theirs
    assert ours.decode(theirs[:5]) == peer.batch_decode(theirs[:5], skip_special_tokens=True)


def test_the_configuration_of_the_model_says_more(tmp_path):
    save_tokenizer("t5", tmp_path)
    config = {"vocab_size": 999, "decoder_start_token_id": 0, "pad_token_id": 7}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [9, 5]}', "utf-8")
    tokenizer = restored("pretrained", state_of(tmp_path))
    special = tokenizer.special
    assert (special.start, special.pad, special.ends) == (0, 7, (9, 5))
    assert len(tokenizer) == 999


def test_the_name_of_a_special_token_is_text(name, tmp_path):
    save_tokenizer(name, tmp_path)
    tokenizer = restored("pretrained", state_of(tmp_path))
    never = tokenizer.special.every - {tokenizer.special.unk}
    for ids in tokenizer.encode([f"a {one} b" for one in TOKENIZERS[name][1].values()]):
        assert not never & {*ids}
        assert ids


def changed(change):
    return lambda folder: edit(folder / "tokenizer.json", change)


REFUSED: list[tuple[Any, str]] = [
    (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json, "),
    (lambda folder: (folder / "tokenizer.json").write_text("[1", "utf-8"), "refused"),
    (changed(lambda state: state.update(model={"type": "Code"})), "refused"),
    (changed(lambda state: state["model"].update(vocab={})), "refused"),
    (lambda folder: (folder / "config.json").write_text('{"vocab_size": 9}'), "a model of 9"),
    (
        lambda folder: (folder / "config.json").write_text('{"eos_token_id": 50256}'),
        r"the special id 50256 is outside of the vocabulary of \d+ tokens",
    ),
]


@pytest.mark.parametrize(("spoil", "says"), REFUSED)
def test_a_hostile_tokenizer_is_refused_in_one_line(spoil, says, tmp_path):
    save_tokenizer("gpt2", tmp_path)
    spoil(tmp_path)
    with pytest.raises(BadRun, match=says) as raised:
        state_of(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.fixture
def t5(tmp_path):
    """A folder with T5's file of SentencePiece alone."""
    model = library(LINES, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (tmp_path / "spiece.model").write_bytes(model)
    config = {"model_type": "t5", "vocab_size": 400, "decoder_start_token_id": 0}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    return tmp_path


def test_transformers_makes_a_tokenizer_of_other_files(t5):
    name, state = found_in(t5)
    ours = restored(name, state)
    peer = SentencePieceProcessor(model_file=str(t5 / "spiece.model"))
    texts = [*LINES, "", " two  spaces ", "🙂 ﬁ Å", *("x" * n for n in range(4))]
    assert ours.encode(texts) == peer.encode(texts)
    assert ours.decode([[399, *ids, 1] for ids in ours.encode(LINES)]) == LINES
    special = ours.special
    assert (special.pad, special.eos, special.unk, special.start) == (0, 1, 2, 0)
    assert (name, len(ours)) == ("pretrained", 400)


def test_other_files_than_a_tokenizers_are_refused_in_one_line(t5, monkeypatch):
    def refused(match):
        with pytest.raises(BadRun, match=match) as raised:
            found_in(t5)
        assert "\n" not in str(raised.value)

    (t5 / "spiece.model").write_bytes(b"\xff" * 100)
    refused(r"has no tokenizer\.json, .* is refused: .")
    (t5 / "spiece.model").unlink()
    refused(r"has no tokenizer\.json, ")
    code = {"auto_map": {"AutoTokenizer": ["evil.Evil", None]}, "tokenizer_class": "Evil"}
    (t5 / "tokenizer_config.json").write_text(json.dumps(code), "utf-8")
    (t5 / "evil.py").write_text("raise SystemExit('code ran')", "utf-8")
    refused(r"has no tokenizer\.json, ")
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused("is refused: .*transformers")


@pytest.mark.parametrize("folder", [None, "nowhere"])
def test_a_tokenizer_without_its_folder_is_refused_before_text_is_read(folder):
    tokenizer = {"name": "pretrained", "folder": folder}
    data = ClassificationData(train="no/such/file.csv", tokenizer=tokenizer)
    with pytest.raises(TfzooError, match=folder or "needs the option 'folder'"):
        data.prepare_data()


OWN = {
    "no JSON": lambda text: "[1",
    "no text": lambda text: 5,
    "merges of nothing": lambda text: text.replace('"merges":[', '"merges":["x",'),
}


@pytest.mark.parametrize("name", OWN)
def test_a_hostile_tokenizer_of_a_checkpoint_is_refused_in_one_line(name):
    tokenizer = create("tokenizer", {"name": "bpe", "vocab_size": 300})
    tokenizer.train(LINES)
    text = tokenizer.state()
    assert restored("bpe", text).encode(LINES) == tokenizer.encode(LINES)
    assert OWN[name](text) != text
    with pytest.raises(BadRun, match=r"its tokenizer is refused: .") as raised:
        restored("bpe", OWN[name](text))
    assert "\n" not in str(raised.value)
