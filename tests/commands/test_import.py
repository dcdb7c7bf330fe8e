"""A folder that ``transformers`` wrote is a run that all commands take, and so is its export."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

import tfzoo
from tests.data.test_sentencepiece import marian
from tests.json_files import edit
from tests.published_folders import LINES, peer_of, save
from tests.runs.test_published import GPT, GROUPED, MODERN, SEQ2SEQ, SMALL, T5, rewrite
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.data.tokenizer import SENTENCEPIECE, VOCABULARIES
from tfzoo.errors import BadOption, BadRun
from tfzoo.exporting import export
from tfzoo.exporting.model import name_of
from tfzoo.learning.trained_run import TrainedRun
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.tasks.token_classification import TokenClassificationTask

pytestmark = pytest.mark.usefixtures("no_pictures")
LONG = {**SMALL, "max_position_embeddings": 256}
PROMPTS = ["the dog", "a small cat"]
ONES = torch.ones(18)
LANGUAGE_MODELS = {
    "gpt2": ("GPT2LMHeadModel", {**GPT, "n_positions": 256}),
    "llama": ("LlamaForCausalLM", {**GROUPED, "max_position_embeddings": 256}),
}
TRANSLATORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "marian": ("marian", "MarianMTModel", {**SEQ2SEQ, "max_position_embeddings": 256}),
    "bart": (
        "marian",
        "BartForConditionalGeneration",
        {**SEQ2SEQ, "forced_eos_token_id": None, "max_position_embeddings": 256},
    ),
    "t5": ("t5", "T5ForConditionalGeneration", T5),
}


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model_goes_on_with_the_same_tokens(name, tmp_path):
    class_name, config = LANGUAGE_MODELS[name]
    peer, tokenizer = save(name, class_name, config, tmp_path / "there")
    assert main(["export", str(tmp_path / "there"), "--output", str(tmp_path / "here")]) == 0
    for run in ("here", "there"):
        task = LanguageModelingTask.load(tmp_path / run)
        found = [one.continuation for one in task.predict(PROMPTS, max_new_tokens=12)]
        for text, ours in zip(PROMPTS, found, strict=True):
            ids = tokenizer(text, return_tensors="pt").input_ids
            theirs = peer.generate(input_ids=ids, max_new_tokens=12, do_sample=False)
            new = tokenizer.decode(theirs[0][ids.shape[1] :], skip_special_tokens=True)
            assert ours == new.replace("\n", " ").replace("\r", " ")


def assert_same_translations(task, peer, tokenizer, start):
    """By greedy search, which never writes ``start``, the padding; returns the peer's ids."""
    found = []
    for text, ours in zip(LINES[:3], task.translate(LINES[:3], beam=1), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        theirs = peer.generate(
            **{"input_ids": ids, "max_new_tokens": 2 * ids.shape[1] + 10, "num_beams": 1},
            **{"do_sample": False, "bad_words_ids": [[start]], "use_cache": False},
        )
        assert ours == tokenizer.decode(theirs[0], skip_special_tokens=True)
        found.append(theirs[0])
    return found


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_translator_writes_the_same_tokens(name, tmp_path):
    family, class_name, config = TRANSLATORS[name]
    start = {"marian": 2, "t5": 0}[family]
    config = {**config, "decoder_start_token_id": start}
    peer, tokenizer = save(family, class_name, config, tmp_path)
    task = tfzoo.TranslationTask.load(tmp_path)
    assert_same_translations(task, peer, tokenizer, start)


def test_a_translation_begins_with_the_forced_token_as_generate_writes_and_training_learns_it(
    tmp_path,
):
    config = {**TRANSLATORS["bart"][2], "decoder_start_token_id": 0}
    family = "BartForConditionalGeneration"
    peer, tokenizer = save("marian", family, config, tmp_path / "there")
    peer.generation_config.forced_bos_token_id = 7
    peer.generation_config.save_pretrained(tmp_path / "there")
    task, peer = tfzoo.TranslationTask.load(tmp_path / "there").double(), peer.double()
    word = tokenizer.convert_ids_to_tokens(7).strip("\u2581")
    assert all(one.startswith(word) for one in task.translate(LINES, beam=3))
    found = assert_same_translations(task, peer, tokenizer, 2)
    assert all(ids[1] == 7 for ids in found)
    ids = tokenizer(LINES[0], add_special_tokens=False).input_ids
    batch = tfzoo.ParallelBatch.collate([(ids, ids), (ids[:3], ids[:2])], task.tokenizer.special)
    task.optim.label_smoothing = 0.0
    loss, _, count = task.loss(batch)
    labels = torch.full_like(batch.target[:, 1:], -100)
    for row, text in enumerate((ids, ids[:2])):
        labels[row, : len(text) + 2] = torch.tensor([7, *text, 0])
    given = {"input_ids": batch.source, "attention_mask": (batch.source != 2).long()}
    torch.testing.assert_close(loss / count, peer(**given, labels=labels).loss)
    export(task, tmp_path / "back", to="transformers")
    back = transformers.GenerationConfig.from_pretrained(tmp_path / "back")
    assert back.forced_bos_token_id == 7
    with pytest.raises(BadOption, match="nothing like the special tokens"):
        export(task, tmp_path / "other", to="ctranslate2")


def test_settings_of_generate_that_no_search_has_are_named(tmp_path, capsys):
    save("marian", "BartForConditionalGeneration", TRANSLATORS["bart"][2], tmp_path)
    path = tmp_path / "generation_config.json"
    edit(path, lambda config: config.update(min_length=0, repetition_penalty=1.0))
    assert TrainedRun(tmp_path).content
    assert "no search of tfzoo" not in capsys.readouterr().err
    changes = {"forced_bos_token_id": 5, "no_repeat_ngram_size": 3, "length_penalty": 2.0}
    edit(path, lambda config: config.update(changes))
    assert TrainedRun(tmp_path).content
    line = "use no_repeat_ngram_size: 3, length_penalty: 2.0, which"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("apart", [False, True])
def test_marians_files_of_sentencepiece_are_read_and_trained_on(apart, own_folder, capsys):
    """With one vocabulary, and with one for each language."""
    there = own_folder / "there"
    there.mkdir()
    tokenizer = marian(there, apart)
    said = json.loads((there / "config.json").read_text("utf-8"))
    config = {**SEQ2SEQ, **said, "forced_eos_token_id": None, "max_position_embeddings": 256}
    peer = peer_of("MarianMTModel", config).float()
    peer.final_logits_bias.normal_()
    peer.save_pretrained(there)
    task = tfzoo.TranslationTask.load(there)
    start = said["decoder_start_token_id"]
    assert_same_translations(task, peer, tokenizer, start)
    for side in (task.tokenizer.source, task.tokenizer.target):
        names = [name_of(side, one) or str(one) for one in range(len(side))]
        assert len(set(names)) == len(side), "each id has a name of its own"
    assert main(["export", "there", "--to", "transformers", "--output", "back"]) == 0
    again = transformers.AutoTokenizer.from_pretrained("back")
    assert again(LINES, text_target=LINES) == tokenizer(LINES, text_target=LINES)
    files = {*SENTENCEPIECE, *VOCABULARIES[: 1 + apart]}
    for file in files:
        assert Path("back", file).read_bytes() == (there / file).read_bytes()
    before, after = (load_file(Path(one, "model.safetensors")) for one in ("there", "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], value) for key, value in after.items())
    Path("train.tsv").write_text("en\tde\n" + "a small cat\tder Hund\n" * 9, "utf-8")
    Path("val.tsv").write_text("en\tde\nthe dog\tder Hund\n", "utf-8")
    data = ("--data.dataset", "null", "--data.root", ".", "--data.source", "en")
    steps = ("--trainer.max_steps", "1", "--trainer.accelerator", "cpu", "--trainer.devices", "1")
    options = (*data, "--data.target", "de", *steps, "--search.max_length", "0.2")
    assert main(["fit", "translation/numbers", "--from", "there", "--run", "run", *options]) == 0
    tuned = tfzoo.TranslationTask.load("run").tokenizer
    table = capsys.readouterr().out
    assert "kept" in table
    assert "another one" not in table
    assert tuned.joint is not apart
    assert tuned.target.encode(LINES) == task.tokenizer.target.encode(LINES)


TAGGERS: list[tuple[str, str, dict[str, Any]]] = [
    ("bert", "BertForTokenClassification", SMALL),
    ("roberta", "RobertaForTokenClassification", {**SMALL, "type_vocab_size": 1}),
    ("bert", "DistilBertForTokenClassification", {"dim": 18, "n_heads": 3, "n_layers": 2}),
    ("bert", "ModernBertForTokenClassification", {**SMALL, **MODERN, "norm_bias": True}),
]
LABELS = ["O", "B-PER", "I-PER"]


@pytest.mark.parametrize(("family", "class_name", "config"), TAGGERS)
def test_words_get_the_labels_of_the_same_model_in_and_out(family, class_name, config, tmp_path):
    config = {**config, "id2label": dict(enumerate(LABELS)), "max_position_embeddings": 256}
    peer, tokenizer = save(family, class_name, config, tmp_path / "there")
    assert main(["export", str(tmp_path / "there"), "--output", str(tmp_path / "run")]) == 0
    back = str(tmp_path / "back")
    assert main(["export", str(tmp_path / "run"), "--to", "transformers", "--output", back]) == 0
    loaded = transformers.AutoModelForTokenClassification.from_pretrained(back).eval()
    assert type(loaded) is type(peer)
    for run in ("there", "run"):
        found = TokenClassificationTask.load(tmp_path / run).predict(LINES)
        for text, ours in zip(LINES, found, strict=True):
            inputs = tokenizer(text, return_tensors="pt")
            kept = {key: one for key, one in inputs.items() if key != "token_type_ids"}
            logits = peer(**kept).logits[0]
            torch.testing.assert_close(loaded(**kept).logits[0], logits)
            places = [
                inputs.char_to_token(max(at - 1, 0)) or inputs.char_to_token(at)  # with its space
                for at in (one.start() for one in re.finditer(r"\S+", text))
            ]
            assert ours.labels == [LABELS[k] for k in logits.argmax(-1)[places].tolist()]


def test_a_head_for_words_is_trained_on_and_replaced(own_folder, capsys):
    labels = {"id2label": dict(enumerate(LABELS))}
    save("bert", "BertForTokenClassification", {**LONG, **labels}, own_folder / "tagger")
    save("bert", "BertForMaskedLM", LONG, own_folder / "masked")
    steps = ("--trainer.max_steps", "1", "--trainer.accelerator", "cpu", "--trainer.devices", "1")
    few = (word for split in ("train", "val", "test") for word in (f"--data.dataset.{split}", "40"))
    words = ["fit", "token_classification/entities", *steps, *few]
    assert main([*words, "--from", "tagger", "--run", "one"]) == 0
    assert main([*words, "--from", "masked", "--run", "two"]) == 0
    assert re.search(r"started anew .*: head", capsys.readouterr().out)
    classification(own_folder)
    assert main(["fit", "mine.yaml", "--from", "tagger", "--run", "three"]) == 0
    assert tfzoo.ClassificationTask.load("three").recipe["model"]["pooling"] == "pooler"


def test_what_has_no_tokenizer_is_refused(tmp_path, capsys):
    save("gpt2", "GPT2LMHeadModel", GPT, tmp_path / "there")
    (tmp_path / "there/tokenizer.json").unlink()
    assert main(["predict", str(tmp_path / "there")]) == 2
    assert "has no tokenizer.json" in capsys.readouterr().err


def test_weights_keep_their_dtype_and_are_in_memory_once(tmp_path):
    peer, _ = save("llama", "LlamaForCausalLM", GROUPED, tmp_path / "there")
    peer.bfloat16().save_pretrained(tmp_path / "there")
    assert main(["export", str(tmp_path / "there"), "--output", str(tmp_path / "here")]) == 0
    for place in ("there", "here"):
        run = TrainedRun(tmp_path / place)
        task = run.load()
        assert task.predict(PROMPTS, max_new_tokens=3)
        for name, found in task.state_dict().items():
            read = run.content["state_dict"][name]
            assert found.dtype == torch.bfloat16
            assert found.data_ptr() == read.data_ptr()


RECIPE = """\
task: classification
model: {dim: 16, heads: 2, layers: 1, norm: rms, feedforward: swiglu}
data: {root: data, tokenizer: character}
optim: {lr: 1.0e-9, schedule: {name: constant, warmup: 0}}
trainer: {max_steps: 2, accelerator: cpu, val_check_interval: 2, check_val_every_n_epoch: null}
"""


def classification(folder):
    """Texts with labels, and ``mine.yaml``, a recipe that trains a classifier on them."""
    (folder / "data").mkdir()
    for split in ("train", "val"):
        rows = [f"{line}\t{number % 2}" for number, line in enumerate(LINES * 4)]
        (folder / f"data/{split}.tsv").write_text("text\tlabel\n" + "\n".join(rows), "utf-8")
    (folder / "mine.yaml").write_text(RECIPE, "utf-8")


def test_training_starts_with_a_published_model_and_parts_are_changed_on_top(own_folder, capsys):
    peer, _ = save("bert", "BertForMaskedLM", LONG, own_folder / "bert")
    classification(own_folder)
    trained = ["fit", "mine.yaml", "--from", "bert"]
    assert main([*trained, "--run", "same"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"kept +\d+ of \d+ tensors", table)
    assert re.search(r"started anew .*: head.*pooling.linear.weight", table)
    assert re.search(r"dropped .*: .*head_norm.weight", table)
    assert "another one" not in table
    task = tfzoo.ClassificationTask.load("same")
    assert task.recipe["model"]["pooling"] == "pooler"
    theirs = peer.get_input_embeddings().weight
    torch.testing.assert_close(task.model.embedding.weight, theirs, rtol=0, atol=1e-6)
    assert main([*trained, "--run", "rms", "--model.norm", "rms"]) == 0
    assert tfzoo.ClassificationTask.load("rms").recipe["model"]["norm"] == "rms"
    assert main(["export", "rms", "--to", "safetensors", "--output", "rms-shared"]) == 0
    assert main([*trained, "--run", "rms", "--model.norm", "rms", "--trainer.max_steps", "3"]) == 0
    assert main(["export", "rms", "--to", "safetensors", "--output", "rms-later"]) == 0
    for folder in ("rms-shared", "rms-later"):  # and after training went on
        card = (own_folder / folder / "README.md").read_text("utf-8")
        assert "- It began with the weights of bert." in card
        assert re.search(r"- Kept: \d+ of \d+ tensors", card)
        assert re.search(r"- Dropped: .*head_norm", card)
        assert "- Swapped: norm: layer is now rms." in card
    assert main(["fit", "mine.yaml", "--from", "same", "--run", "again", "--model.dim", "8"]) == 0


BARE = [
    ("bert", "BertModel", "BertForSequenceClassification", SMALL),
    ("bert", "BertModel", "BertForMaskedLM", SMALL),
    ("gpt2", "GPT2Model", "GPT2LMHeadModel", {**GPT, "n_positions": 256}),
    ("llama", "LlamaModel", "LlamaForCausalLM", GROUPED),
    ("marian", "MarianModel", "MarianMTModel", SEQ2SEQ),
    ("marian", "BartModel", "BartForConditionalGeneration", SEQ2SEQ),
]


@pytest.mark.parametrize(("family", "class_name", "whole", "config"), BARE)
def test_a_model_without_a_head_gives_its_layers_and_applies_to_nothing(
    family, class_name, whole, config, tmp_path, capsys
):
    peer, _ = save(family, class_name, config, tmp_path / "bare")
    same, _ = save(family, whole, config, tmp_path / "whole")
    trunk = getattr(same, same.base_model_prefix)
    trunk.load_state_dict(peer.state_dict(), strict=False)  # a pooler is the classifier's
    same.save_pretrained(tmp_path / "whole")
    found = TrainedRun(tmp_path / "bare").content["state_dict"]
    wanted = TrainedRun(tmp_path / "whole").content["state_dict"]
    poolers = {name for name in found.keys() - wanted.keys() if "pooling" in name}
    assert all(torch.equal(found[name], wanted[name]) for name in found.keys() - poolers)
    heads = ("model.head", "model.projection", "model.output_bias", "class_weights")
    assert all(name.startswith(heads) for name in wanted.keys() - found.keys())
    why = f"holds {class_name}, a model without a head"
    with pytest.raises(BadRun, match=why):
        tfzoo.from_pretrained(tmp_path / "bare")
    assert main(["export", str(tmp_path / "bare"), "--output", str(tmp_path / "run")]) == 2
    assert why in capsys.readouterr().err


def test_a_bare_encoder_is_fine_tuned_with_a_new_head(own_folder, capsys):
    save("bert", "BertModel", LONG, own_folder / "bert")
    classification(own_folder)
    assert main(["fit", "mine.yaml", "--from", "bert", "--run", "run"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"started anew +2 of .*: head\.", table)
    assert "dropped" not in table


def test_a_pooler_beside_the_head_for_masked_words_is_used(own_folder, capsys):
    """``bert-base-cased`` says ``BertForMaskedLM``, and has BERT's pooler."""
    save("bert", "BertForMaskedLM", LONG, own_folder / "bert")
    pooler = {"bert.pooler.dense.weight": torch.randn(18, 18), "bert.pooler.dense.bias": ONES}
    rewrite(own_folder / "bert", lambda state: {**state, **pooler})
    classification(own_folder)
    task = registry("task").entry("masked_language_modeling").cls
    assert not hasattr(task.load(own_folder / "bert").model, "pooling")
    assert main(["export", "bert", "--output", "imported"]) == 0
    task.load("imported").save_pretrained("again")
    wanted = {name.replace("bert.pooler.dense", "model.pooling.linear") for name in pooler}
    for run in ("bert", "imported", "again"):
        found = TrainedRun(own_folder / run).content["beside"]
        assert found.keys() == wanted
        assert torch.equal(found["model.pooling.linear.bias"], ONES)
    for run in ("bert", "again"):
        assert main(["fit", "mine.yaml", "--from", run, "--run", f"of_{run}"]) == 0
        assert "pooling" not in capsys.readouterr().out
        pooling = tfzoo.ClassificationTask.load(f"of_{run}").model.pooling
        for name, theirs in pooler.items():
            ours = getattr(pooling.linear, name.rpartition(".")[2])
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_a_recipe_says_the_same_under_from(own_folder, capsys):
    """It replaces model and tokenizer of its bases, and its own keys are on top."""
    save("bert", "BertForMaskedLM", LONG, own_folder / "bert")
    (own_folder / "mine.yaml").write_text(RECIPE, "utf-8")
    ours = "base: mine.yaml\nfrom: bert\nmodel: {norm: rms}\n"
    (own_folder / "ours.yaml").write_text(ours, "utf-8")
    assert main(["fit", "ours.yaml", "--print_config"]) == 0
    said = capsys.readouterr().out
    given = ["fit", "mine.yaml", "--from", "bert", "--model.norm", "rms", "--print_config"]
    assert main(given) == 0
    assert capsys.readouterr().out == said
    assert "norm: rms" in said
    assert "pooling: pooler" in said
    assert main(["fit", "ours.yaml", "--print_config", "--from", "null"]) == 0
    assert "pooling: pooler" not in capsys.readouterr().out
    (own_folder / "bert").rename(own_folder / "bert-7")
    seeded = ["--from", "bert-{seed}", "--seed", "7"]
    assert main(["fit", "mine.yaml", "--print_config", *seeded]) == 0
    assert "pooling: pooler" in capsys.readouterr().out
    for wrong, message in (("[bert]", "names a run, folder or repository"), ("brt", "no run at")):
        assert main(["fit", "mine.yaml", "--print_config", "--from", wrong]) == 2
        assert message in capsys.readouterr().err
