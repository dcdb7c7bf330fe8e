"""Files of SentencePiece give the ids that ``transformers`` gives."""

import json
import sys
from io import BytesIO

import pytest
import transformers
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from tests.published_folders import LINES, mixed_lines
from tfzoo.base.registry import create
from tfzoo.data.tokenizer import TokenizerPair, found_in, restored
from tfzoo.errors import BadOption, BadRun, TfzooError

TEXTS = [
    *LINES,
    *("", " two  spaces ", "\ttab", "🙂 ﬁ Å", "</s> <unk> <pad>", "a << b", ">>", "▁"),
    *("x" * n for n in range(4)),
]
OTHER = ["eine kleine Katze saß auf der Matte", "der Hund sah sie", *LINES[1:]]


def library(lines, **options):
    """A model of SentencePiece."""
    written = BytesIO()
    options |= {"sentence_iterator": iter(lines * 20), "model_writer": written, "vocab_size": 150}
    SentencePieceTrainer.train(hard_vocab_limit=False, minloglevel=2, **options)
    return written.getvalue()


def marian(folder, apart=False):
    """Write Marian's files, with one vocabulary or two; returns the peer's tokenizer."""
    sides = []
    for name, lines in (("source.spm", LINES), ("target.spm", OTHER)):
        model = library(lines)
        (folder / name).write_bytes(model)
        made = SentencePieceProcessor(model_proto=model)
        sides.append({made.id_to_piece(one) for one in range(3, made.get_piece_size())})
    found = sides if apart else [sides[0] | sides[1]]
    first = ["</s>", "<unk>", "<pad>"]
    named = [[*first, *sorted(pieces)[:-5], ">>fra<<"] for pieces in found]  # some are unknown
    for file, names in zip(("vocab.json", "target_vocab.json"), named, strict=False):
        content = {name: number for number, name in enumerate(names)}
        (folder / file).write_text(json.dumps(content, indent=2), "utf-8")
    config = {"model_type": "marian", "vocab_size": len(named[0]), "pad_token_id": 2}
    config |= {"bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 2}
    if apart:
        config |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": len(named[1])}
        (folder / "tokenizer_config.json").write_text('{"separate_vocabs": true}')
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return transformers.MarianTokenizer.from_pretrained(folder)


def pair_of(folder):
    """As a translator reads them from a checkpoint."""
    name, state = found_in(folder)
    assert name == "sentencepiece"
    found = {"languages": ["en", "de"], "tokenizer": name, "states": [state]}
    return TokenizerPair.restore(json.loads(json.dumps(found)))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_marians_ids_are_those_of_transformers(count, apart, tmp_path):
    peer, pair = marian(tmp_path, apart), pair_of(tmp_path)
    never = {*peer.all_special_ids} - {peer.unk_token_id}
    lines = [*TEXTS, *mixed_lines(count), ">>fra<< a small cat", ">>eng<<a cat"]
    plain = [line for line in lines if not any(one in line for one in peer.all_special_tokens)]
    for ours, theirs in (
        (pair.source, peer(plain, add_special_tokens=False)),
        (pair.target, peer(text_target=plain, add_special_tokens=False)),
    ):
        ids = ours.encode(plain)
        assert ids == theirs.input_ids
        assert not never & {one for line in ours.encode(lines) for one in line}
    assert pair.source.encode(LINES) != pair.target.encode(LINES)
    assert pair.target.decode(ids) == peer.batch_decode(ids, skip_special_tokens=True)
    assert pair.joint is not apart
    assert len(pair.source) == len(peer)
    assert len(pair.target) == len(peer.target_encoder if apart else peer)


def test_marians_special_ids_are_used_as_they_are(tmp_path):
    peer, special = marian(tmp_path), pair_of(tmp_path).special
    wanted = (peer.pad_token_id, peer.eos_token_id, peer.unk_token_id, peer.pad_token_id)
    assert (special.pad, special.eos, special.unk, special.start) == wanted


@pytest.mark.parametrize("apart", [False, True])
def test_a_checkpoint_holds_both_sides(apart, tmp_path):
    marian(tmp_path, apart)
    pair = pair_of(tmp_path)
    again = TokenizerPair.restore(pair.state())
    assert again.joint is not apart
    assert again.source.encode(TEXTS) == pair.source.encode(TEXTS)
    assert again.target.encode(TEXTS) == pair.target.encode(TEXTS)


def test_the_pieces_of_both_languages_in_a_checkpoint_are_tried(tmp_path):
    marian(tmp_path)
    state = json.loads(found_in(tmp_path)[1])
    state["models"][1] = "/////w=="
    with pytest.raises(BadRun, match="its tokenizer is refused"):
        restored("sentencepiece", json.dumps(state))


@pytest.mark.parametrize("name", ["pretrained", "sentencepiece"])
def test_a_tokenizer_of_a_published_model_needs_its_folder(name):
    with pytest.raises(BadOption, match=f"'{name}' needs the option 'folder'"):
        create("tokenizer", name).train(LINES)


def test_that_its_library_is_missing_is_said_before_text_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(TfzooError, match=r"pip install 'tfzoo\[sentencepiece\]'"):
        create("tokenizer", "sentencepiece")


def spoilt(name, data, apart=False):
    def spoil(folder):
        marian(folder, apart)
        (folder / name).write_bytes(data)

    return spoil


OTHER_PAD = b'{"<unk>": 1, "</s>": 0, "<pad>": 3}'
TWO_SIZES = b'{"vocab_size": 900, "decoder_vocab_size": 9}'
REFUSED = [
    (spoilt("source.spm", b""), "refused"),
    (spoilt("target.spm", b"\xff" * 1000), "refused"),
    (spoilt("vocab.json", b'{"<unk>": "1"}'), "refused"),
    (spoilt("vocab.json", b'{"a": 1}'), "refused: '<unk>'"),
    (spoilt("config.json", b'{"vocab_size": 9}'), "a model of 9"),
    (spoilt("tokenizer_config.json", b'{"separate_vocabs": true}'), "refused: .*target_vocab"),
    (spoilt("target_vocab.json", OTHER_PAD, apart=True), "another id for <pad>"),
    (spoilt("config.json", TWO_SIZES, apart=True), "a model of 9$"),
]


@pytest.mark.parametrize(("spoil", "says"), REFUSED)
def test_a_damaged_folder_is_refused_in_one_line(spoil, says, tmp_path):
    spoil(tmp_path)
    with pytest.raises(BadRun, match=says) as raised:
        found_in(tmp_path)
    assert "\n" not in str(raised.value)
