"""Masked language modelling: what is masked, scores, texts with masks."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tfzoo
from tests.published_folders import save_tokenizer
from tests.scored import values_of
from tests.tasks.test_language_modeling import trained_on_agreement
from tfzoo.base.registry import create
from tfzoo.base.special_ids import OWN, SpecialIds
from tfzoo.data.documents import (
    MaskedData,
    MaskedDataset,
    Masking,
    begins_word,
    joins_words,
    text_with_masks_batches,
    with_masks,
)
from tfzoo.data.prepare import Sentences
from tfzoo.data.tokenizer import Vocabulary, restored, state_of, token_texts
from tfzoo.errors import BadOption
from tfzoo.tasks.masked_language_modeling import MaskedLanguageModelingTask

V = 40
BERT = SpecialIds(pad=0, unk=5, bos=6, cls=6, eos=7, mask=8)
WORDS = {"name": "word", "cut": "spaces"}
LINES = ["the dogs that the cat hears sleep .", "the queen laughs .", "a b c d e f g h"]


def random_ids(count, n, special=OWN, seed=0):
    ordinary = np.array(special.ordinary(V - len(special.every)))
    return ordinary[np.random.default_rng(seed).integers(0, len(ordinary), (count, n))]


def documents(special=OWN):
    draw = np.random.default_rng(1)
    lengths = draw.integers(1, 30, 20)
    return Sentences.of([random_ids(1, n, special, n)[0].tolist() for n in lengths] + [[]])


def small(vocab_size=V, **options):
    torch.manual_seed(0)
    given = {"dim": 16, "heads": 2, "layers": 1, "dropout": 0.0, "position": "rotary", **options}
    return tfzoo.MaskedLanguageModel(vocab_size, **given).double().eval()


def vocabulary(name=WORDS):
    tokenizer = create("tokenizer", name)
    tokenizer.train(LINES)
    return Vocabulary(tokenizer, [], name)


def test_of_the_tokens_to_find_8_of_10_are_masked_and_1_is_another_one():
    ids = random_ids(500, 100, BERT)
    masked, chosen = Masking(0.15, 3, BERT, V)(ids, np.arange(500), 0)
    assert (chosen.sum(1) == 15).all()
    assert (masked[~chosen] == ids[~chosen]).all()
    now, before = masked[chosen], ids[chosen]
    ordinary = V - len(BERT.every)
    assert abs((now == BERT.mask).mean() - 0.8) < 0.02
    assert abs((now == before).mean() - 0.1 - 0.1 / ordinary) < 0.015
    others = Counter(now[(now != BERT.mask) & (now != before)].tolist())
    assert set(others) == set(BERT.ordinary(ordinary))
    assert max(others.values()) < 3 * min(others.values())
    places = chosen.mean(0)
    assert 0.08 < places.min() < places.max() < 0.22


@pytest.mark.parametrize("begins", [None, np.arange(V) % 3 == 0])
def test_masks_are_a_function_of_seed_epoch_text_and_place_alone(begins):
    ids, masking = random_ids(20, 30), Masking(0.15, 7, OWN, V, begins)
    whole, chosen = masking(ids, np.arange(20), 2)
    some = np.array([11, 3])
    padded = np.pad(ids[some], ((0, 0), (0, 9)), constant_values=OWN.pad)
    again, same = masking(padded, some, 2)
    assert (again[:, :30] == whole[some]).all()
    assert (same[:, :30] == chosen[some]).all()
    assert not same[:, 30:].any()
    for other in (masking(ids, np.arange(20), 3), replace(masking, seed=8)(ids, np.arange(20), 2)):
        assert 0.02 < (other[1] & chosen).sum() / chosen.sum() < 0.4  # as chance has it


def test_words_are_masked_whole():
    begins = np.random.default_rng(0).random(V) < 0.4
    ids = random_ids(200, 40)
    ids[:, -1], ids[:, 20] = OWN.eos, OWN.unk
    _, chosen = Masking(0.15, 0, OWN, V, begins)(ids, np.arange(200), 0)
    assert not chosen[:, [20, 39]].any()
    for row, here in zip(ids, chosen, strict=True):
        inside = np.flatnonzero(~begins[row] & ~np.isin(row, [*OWN.every]))
        inside = inside[~np.isin(inside, [0, 21])]
        assert (here[inside] == here[inside - 1]).all()
    assert (chosen.sum(1) >= 6).all()
    assert chosen.sum(1).mean() < 6 + 2.5  # the last word of a text has some more


def test_a_space_a_sign_and_a_character_of_chinese_begin_words():
    bpe = create("tokenizer", {"name": "bpe", "vocab_size": 320})
    bpe.train(["walking talking walked talked, walks 两个人 talks"] * 30)
    begins = begins_word(bpe)
    for text in ("walking, talked", "talks"):
        (ids,) = bpe.encode([text])
        words = "".join(
            "|" * int(begin) + bpe.decode([[3, one]])[0]
            for one, begin in zip(ids, begins[ids], strict=True)
        )
        assert words.replace(" ", "").lstrip("|") == text.replace(" ", "|").replace(",", "|,")
    texts = token_texts(bpe, range(len(bpe)))
    assert begins[[id for id, text in enumerate(texts) if text[:1] in ("两", "个", "人")]].all()
    begins = begins_word(create("tokenizer", "bytes"))
    assert [one for one in range(4, 132) if begins[one] and chr(one - 4).isalnum()] == []
    assert begins[[4 + ord(" "), 4 + ord(",")]].all()
    assert not begins[4 + 0xC3]


@pytest.mark.parametrize("special", [OWN, BERT])
@pytest.mark.parametrize("whole", [True, False])
def test_a_batch_holds_every_token_once_framed_and_what_its_masks_hide(special, whole):
    sequences = documents(special)
    lines = [str(row) for row in range(len(sequences))] if whole else []
    dataset = MaskedDataset(sequences, 8, Masking(0.3, 1, special, V), lines)
    assert dataset.documents == 20
    batch = dataset[range(len(dataset))]
    assert special.every.isdisjoint(batch.labels.tolist())
    restored = batch.tokens.flatten().index_copy(0, batch.places, batch.labels)
    rows = restored.view_as(batch.tokens).tolist()
    read = {}
    begin = [] if special.cls is None else [special.cls]
    for row, owner in zip(rows, batch.rows, strict=True):
        kept = [one for one in row if one != special.pad]
        assert kept[: len(begin)] == begin
        assert kept[-1] == special.eos
        read.setdefault(batch.index[owner], []).extend(kept[len(begin) : -1])
    wanted = np.split(sequences.ids, sequences.offsets[1:-1])
    assert read == {row: one.tolist() for row, one in enumerate(wanted) if len(one)}
    row_of = (batch.places // batch.tokens.shape[1]).tolist()
    assert batch.owner.tolist() == [batch.rows[row] for row in row_of]
    assert batch.source_text == ([lines[row] for row in batch.index] if whole else [])
    total, longest = dataset.lengths()
    assert int(total.sum()) + len(total) == sum(one != special.pad for row in rows for one in row)
    assert int(longest.max()) + 1 == batch.tokens.shape[1] <= 8


def test_loss_and_scores_are_those_of_the_logits_at_the_masks():
    found = vocabulary()
    task = MaskedLanguageModelingTask(small(len(found.tokenizer)), found)
    task.optim.label_smoothing = 0.0
    ids = Sentences.of(found.tokenizer.encode(LINES))
    masking = Masking(0.4, 1, OWN, len(found.tokenizer))
    batch = MaskedDataset(ids, 32, masking, LINES)[[0, 1, 2]]
    with torch.no_grad():
        logits = task.model(batch.tokens, mask=batch.mask()).flatten(0, 1)[batch.places]
        each = [task.score(MaskedDataset(ids, 32, masking, LINES)[[item]]) for item in range(3)]
        rows = task.rows(batch)
    wanted = F.cross_entropy(logits, batch.labels)
    right = logits.argmax(-1) == batch.labels
    values = values_of(task, *each)
    assert float(values["loss"]) == pytest.approx(float(wanted), rel=1e-6)
    assert float(values["perplexity"]) == pytest.approx(float(wanted.exp()), rel=1e-6)
    assert float(values["accuracy"]) == pytest.approx(float(right.double().mean()), rel=1e-6)
    for owner, row in enumerate(rows):
        of_row = right[batch.owner == owner]
        assert row.get("accuracy", 0.0) == pytest.approx(float(of_row.sum()) / max(len(of_row), 1))
        assert row["text"] == LINES[owner]


def test_a_mask_in_a_text_stands_for_one_token():
    words = vocabulary().tokenizer
    ids, places = with_masks("the [MASK] that unheard [MASK]", words, joins=True)
    assert [ids[0], ids[2]] == words.encode(["the that"])[0]
    assert (places, len(ids)) == ([1, 4], 5)
    assert ids[1] == ids[3] == ids[4] == OWN.unk  # a word that is unknown is no mask
    letters = create("tokenizer", "bytes")
    ids, places = with_masks("c[MASK]t [MASK]", letters, joins=False)
    assert letters.decode([ids]) == ["ct "]
    assert places == [1, 4]


@pytest.mark.parametrize("family", ["roberta", "bert"])
def test_ids_around_a_mask_are_those_of_transformers(family, tmp_path):
    peer = save_tokenizer(family, tmp_path)
    ours = restored("pretrained", state_of(tmp_path))
    for line in ("the [MASK] sat on", "[MASK] cat", "a[MASK]s, [MASK] [MASK] dog ", " [MASK]"):
        theirs = peer(line.strip().replace("[MASK]", peer.mask_token), add_special_tokens=False)
        assert with_masks(line, ours, joins_words(ours))[0] == theirs.input_ids, line


def test_masks_are_filled_alike_in_any_company():
    found = vocabulary()
    model = small(len(found.tokenizer), position="learned", max_length=8)
    task = MaskedLanguageModelingTask(model, found)
    texts = ["the [MASK] sleep .", "", "[MASK]", "no mask", f"{'the ' * 7}[MASK]"]
    with pytest.warns(UserWarning, match="longer than the 7 tokens"):
        together = task.predict(texts)
    assert [len(one.masks) for one in together] == [1, 0, 1, 0, 0]
    for text, one in zip(texts[:4], together, strict=False):
        (alone,) = task.predict([text])
        assert alone.filled == one.filled
        for first, second in zip(alone.masks, one.masks, strict=True):
            assert first == pytest.approx(second)
    best = next(iter(together[0].masks[0]))
    assert together[0].filled == f"the {best} sleep ."
    assert together[4].filled == texts[4]
    assert task.facts(together[0])["masks"].startswith(f"{best} 0.")
    (batch,) = text_with_masks_batches(["the [MASK] sleep ."], found)
    logits = task.model(batch.tokens)[0, 1]
    logits[[*OWN.every]] = -torch.inf
    assert best == found.tokenizer.decode([[int(logits.argmax())]])[0]
    assert [*map(task.output_line, together[:4])] == [one.filled for one in together[:4]]


def test_what_cannot_be_masked_is_refused():
    with pytest.raises(BadOption, match=r"data\.mask must be"):
        MaskedData(dataset="agreement", mask="letters")
    with pytest.raises(BadOption, match=r"data.mask_share=0 must be"):
        MaskedData(dataset="agreement", mask_share=0)
    with pytest.raises(BadOption, match="no id of a mask"):
        Masking(0.15, 0, SpecialIds(pad=0, bos=1, eos=2), V)


@pytest.mark.nightly
def test_training_finds_more_than_neighbours_say(tmp_path):
    _, scores = trained_on_agreement(MaskedLanguageModelingTask, tmp_path, steps=400)
    assert scores["test/accuracy"] > 0.48  # the most frequent word between the same two has 0.457
