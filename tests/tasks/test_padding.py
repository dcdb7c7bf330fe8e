"""Lengths say what is padding, whatever its id: no text depends on those beside it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tfzoo
from tests.json_files import edit
from tests.published_folders import LINES, save
from tests.runs.test_published import GPT, GROUPED, SMALL
from tests.scored import values_of
from tests.tasks.test_special_ids import SIZES, Numbers
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data.batches import ClassificationDataset, ParallelDataset, WordDataset
from tfzoo.data.documents import DocumentDataset, MaskedDataset, Masking, prompt_batches
from tfzoo.data.prepare import Sentences
from tfzoo.data.tokenizer import TokenizerPair, Vocabulary
from tfzoo.learning.scoring import sums_by
from tfzoo.models.generation import generate
from tfzoo.search import Search
from tfzoo.tasks.classification import ClassificationTask
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.tasks.masked_language_modeling import MaskedLanguageModelingTask
from tfzoo.tasks.token_classification import TokenClassificationTask
from tfzoo.testing.samples import randomize

SPECIAL = {
    "none": SpecialIds(pad=None, bos=2, eos=3, unk=1, mask=4),
    "its own": SpecialIds(pad=29, bos=2, eos=3, unk=1, mask=4),
    "bos": SpecialIds(pad=2, bos=2, eos=3, unk=1, mask=4),
    "eos": SpecialIds(pad=3, bos=2, eos=3, unk=1, mask=4),
    "unk": SpecialIds(pad=1, bos=2, eos=3, unk=1, mask=4),
    "bos and eos": SpecialIds(pad=3, bos=3, eos=3, unk=1, mask=4),
    "none, bos is eos": SpecialIds(pad=None, bos=3, eos=3, unk=1, mask=4),
}
padding = pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL)
TEXTS = [[10, 11, 1, 12, 13], [14], [15, 3, 0], [16, 17, 18]]
"""With special ids inside, too."""
ROWS = range(len(TEXTS))


def made(task, model, special, labels=()):
    """A task with random weights in float64."""
    randomize(model.double().eval())
    found = task(model, Vocabulary(Numbers(special), [*labels]))
    found.optim.label_smoothing = 0.1
    return found.eval()


def assert_alike(together, alone):
    """Numbers of texts that are in one batch, and of each alone."""
    torch.testing.assert_close(together, torch.cat([*alone]), rtol=1e-9, atol=1e-12)


@padding
@pytest.mark.parametrize("packed", [False, True])
def test_the_loss_of_a_document_does_not_depend_on_its_company(special, packed):
    model = tfzoo.LanguageModel(30, **SIZES, position="rotary")
    task = made(LanguageModelingTask, model, special)

    def losses(rows):
        lines = [""] * len(rows)
        dataset = DocumentDataset(Sentences.of(rows), 8, special, lines, packed=packed)
        batch = dataset[range(len(dataset))]
        loss, nll, _ = task.loss(batch)
        order = np.argsort(batch.index)
        (each,) = sums_by(batch.owner, len(rows), nll)
        return loss, each[torch.tensor(order)]

    found = losses(TEXTS)
    assert_alike(found[1], [losses([text])[1] for text in TEXTS])
    torch.testing.assert_close(found[0], sum(losses([text])[0] for text in TEXTS))
    logits = model(torch.tensor([[special.bos, *TEXTS[2]]]))[0]
    wanted = F.cross_entropy(logits, torch.tensor([*TEXTS[2], special.eos]), reduction="sum")
    torch.testing.assert_close(found[1][2], wanted)


@padding
def test_smoothing_gives_mass_to_every_id_that_can_be_right(special):
    """So also to the end where it has the id of padding."""
    task = made(LanguageModelingTask, tfzoo.LanguageModel(30, **SIZES), special)
    batch = DocumentDataset(Sentences.of(TEXTS), 8, special, [""] * len(TEXTS))[ROWS]
    never = special.pad if special.pad in (29, special.bos) and special.pad != special.eos else None
    q = torch.full((len(batch.labels), 30), 0.1 / (29 if never is None else 28)).double()
    if never is not None:
        q[:, never] = 0.0
    q[torch.arange(len(q)), batch.labels] = 0.9
    wanted = -(q * task.logits(batch).log_softmax(-1)).sum()
    torch.testing.assert_close(task.loss(batch)[0], wanted)


@padding
@pytest.mark.parametrize("beam", [1, 3])
def test_prompts_are_continued_as_they_are_alone(special, beam):
    """Empty ones, those of special ids, and those that begin with BOS as all others do."""
    task = made(LanguageModelingTask, tfzoo.LanguageModel(30, **SIZES), special)
    prompts = ["10 11 12 13", "", "14", f"{special.bos} 15", f"{special.eos}", "0 0"]
    found = task.predict(prompts, max_new_tokens=6, beam=beam)
    assert len(found) == len(prompts)
    assert found == [task.predict([one], max_new_tokens=6, beam=beam)[0] for one in prompts]


@padding
def test_masked_tokens_are_found_as_alone(special):
    model = tfzoo.MaskedLanguageModel(30, **SIZES, norm="batch", residual="post")
    task = made(MaskedLanguageModelingTask, model, special)
    dataset = MaskedDataset(Sentences.of(TEXTS), 32, Masking(0.5, 1, special, 30))
    assert_alike(task.logits(dataset[ROWS]), [task.logits(dataset[[row]]) for row in ROWS])
    assert len(dataset[ROWS].tokens) == sum(task.loss(dataset[[row]])[3] > 0 for row in ROWS)


@padding
@pytest.mark.parametrize("pooling", tfzoo.list_components()["pooling"])
def test_texts_are_classified_as_alone(special, pooling):
    model = tfzoo.TransformerClassifier(30, 2, **SIZES, pooling=pooling)
    task = made(ClassificationTask, model, special, ["no", "yes"])
    dataset = ClassificationDataset(Sentences.of(TEXTS), np.zeros(len(TEXTS), np.int64), 9, special)
    assert_alike(task.logits(dataset[ROWS]), [task.logits(dataset[[row]]) for row in ROWS])
    assert int(dataset[ROWS].real_tokens()) == sum(map(len, TEXTS)) + len(TEXTS)


@padding
def test_words_are_labelled_as_alone(special):
    model = tfzoo.TransformerClassifier(30, 2, **SIZES, pooling=None)
    task = made(TokenClassificationTask, model, special, ["O", "X"])
    words = Sentences.of([[1] * len(text) for text in TEXTS])
    dataset = WordDataset(Sentences.of(TEXTS), words, None, 9, special)
    found = task.logits(dataset[ROWS])
    for row in ROWS:
        assert_alike(found[row, : len(TEXTS[row])], [task.logits(dataset[[row]])[0]])


@padding
def test_pairs_are_translated_and_scored_as_alone(special):
    tokenizer = Numbers(special)
    pair = TokenizerPair(tokenizer, tokenizer, "en", "de", "bytes")
    model = tfzoo.Transformer(30, **SIZES).double().eval()
    randomize(model)
    task = tfzoo.TranslationTask(model, pair, search=Search(beam=3)).eval()
    task.optim.label_smoothing = 0.1
    source, target = Sentences.of(TEXTS), Sentences.of(TEXTS[::-1])
    dataset = ParallelDataset(source, target, special)
    with torch.no_grad():
        alone = [task.loss(dataset[[row]]) for row in ROWS]
        together = task.loss(dataset[ROWS])
    for found, *wanted in zip(together, *alone, strict=True):
        every = sum(float(torch.as_tensor(one).sum()) for one in wanted)
        assert float(torch.as_tensor(found).sum()) == pytest.approx(every, rel=1e-9)
    assert together[2] == sum(map(len, TEXTS)) + len(TEXTS)
    lines = ["10 11 12 13", "", "14", "15 16"]
    best = task.predict(lines, n_best=3)
    for one, line in zip(best, lines, strict=True):
        (wanted,) = task.predict([line], n_best=3)
        assert [found.translation for found in one] == [found.translation for found in wanted]
        assert [found.score for found in one] == pytest.approx([found.score for found in wanted])


LONG = {"max_position_embeddings": 64}
FOLDERS = {
    "gpt2, pad = eos = bos": ("gpt2", "GPT2LMHeadModel", {**GPT, "n_positions": 64}),
    "gpt_neox, pad = eos = bos": ("gpt2", "GPTNeoXForCausalLM", {**SMALL, **LONG}),
    "llama, pad = bos": ("llama", "LlamaForCausalLM", {**GROUPED, **LONG}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_whose_padding_is_its_begin_is_read_as_transformers_reads_it(name, tmp_path):
    """Loss, perplexity and greedy ids, of documents and prompts of all lengths in one batch."""
    family, class_name, config = FOLDERS[name]
    peer, _ = save(family, class_name, config, tmp_path)
    peer = peer.double()
    for file in ("config.json", "generation_config.json"):
        edit(tmp_path / file, lambda said: said.update(pad_token_id=said["bos_token_id"]))
    task = LanguageModelingTask.load(tmp_path).double()
    special = task.tokenizer.special
    assert special.pad == special.bos
    assert (special.eos == special.bos) == (family == "gpt2")
    task.optim.label_smoothing = 0.0
    texts = [text[:n] for text, n in zip(LINES, (30, 3, 12, 1, 7), strict=True)]
    ids = task.tokenizer.tokenizer.encode(texts)
    read = [torch.tensor([[special.bos, *one]]) for one in ids]
    labels = [torch.tensor([*one, special.eos]) for one in ids]
    with torch.no_grad():
        wanted = [
            F.cross_entropy(peer(one).logits[0], label, reduction="sum")
            for one, label in zip(read, labels, strict=True)
        ]
    tokens = sum(one.numel() for one in read)
    for parts in ([range(5)], [[row] for row in range(5)]):
        dataset = DocumentDataset(Sentences.of(ids), 64, special, texts)
        with torch.no_grad():
            found = values_of(task, *(task.score(dataset[[*rows]]) for rows in parts))
        mean = float(sum(wanted)) / tokens
        assert found["loss"] == pytest.approx(mean, rel=1e-6)
        assert found["perplexity"] == pytest.approx(float(np.exp(mean)), rel=1e-5)
    prompts = [*texts, ""]
    (batch,) = prompt_batches(prompts, task.tokenizer)
    how = {"mask": batch.mask(), "stop": special.ends, "pad": special.pad}
    new = generate(task.model, batch.tokens, 12, **how)
    for row, line in enumerate(batch.index):
        begin = [special.bos] if special.prompt_bos and prompts[line] else []
        given = torch.tensor([[*begin, *[*ids, [special.bos]][line]]])
        theirs = peer.generate(
            input_ids=given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=12,
            do_sample=False,
            eos_token_id=special.eos,
            pad_token_id=special.pad,
        )[0, given.shape[1] :].tolist()
        assert new[row].tolist()[: len(theirs)] == theirs
