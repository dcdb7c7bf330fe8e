"""What is exported for ``transformers`` is loaded by it, and computes the same."""

import json
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import processors
from torch.testing import assert_close

import tfzoo
from benchmarks.architectures import PEERS, batch, difference, loaded_export, peer_outputs
from tests.exporting.tasks import tokenizer, translator
from tests.json_files import edit
from tests.published_folders import LINES, peer_of, save
from tests.runs.test_published import CASES, GPT, GROUPED, SEQ2SEQ, SMALL, T5
from tfzoo.commands.main import main
from tfzoo.data.tokenizer import Vocabulary, restored, state_of
from tfzoo.exporting.transformers import config_of, export, tensors_of
from tfzoo.models.architectures import architecture
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.tasks.multilabel_classification import MultilabelClassificationTask
from tfzoo.tasks.regression import RegressionTask
from tfzoo.testing.samples import randomize

RUNS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("gpt2", "GPT2LMHeadModel", "AutoModelForCausalLM", {**GPT, "n_positions": 256}),
    ("llama", "LlamaForCausalLM", "AutoModelForCausalLM", GROUPED),
    (
        "bert",
        "BertForSequenceClassification",
        "AutoModelForSequenceClassification",
        {**SMALL, "max_position_embeddings": 256, "id2label": {0: "a", 1: "b", 2: "c"}},
    ),
    (
        "marian",
        "MarianMTModel",
        "AutoModelForSeq2SeqLM",
        {**SEQ2SEQ, "max_position_embeddings": 256, "decoder_start_token_id": 2},
    ),
]
REWRITTEN = {
    "roberta": {"roberta.embeddings.position_embeddings.weight"},  # rows of padding, never read
    "bart": {f"model.{side}coder.embed_positions.weight" for side in ("en", "de")},
    "t5": {"shared.weight"},  # times and by a root, which rounds
}
ELSEWHERE = {"fnet": "fnet.pooler", "bart": "final_logits_bias"}
"""Tensors that are not written: of another head, zeros."""


ASKED = {"modernbert": {"layers": 4}, "fnet": {"heads": 1}}
"""Options that ``like`` leaves out, and without which no model of theirs is the same."""


@pytest.mark.parametrize("name", sorted(PEERS))
def test_sizes_that_were_not_given_are_exported(name):
    said = architecture(name)
    bounded = {"max_length": 32} if "max_length" in said.stack else {}
    sizes = {"dim": 16, "heads": 2, "layers": 2, **bounded, **ASKED.get(name, {})}
    model = getattr(tfzoo, said.model)(31, like=name, **sizes)
    randomize(model.double())
    given = batch(model.eval(), padded=False)
    theirs = peer_outputs(loaded_export(model, 1 if name == "roberta" else 0), given)
    assert difference(model(*given.arguments), theirs) < PEERS[name].bound


def test_a_translator_whose_sides_differ_in_depth_is_exported():
    sizes = {"dim": 16, "heads": 2, "max_length": 32, "decoder": {"layers": 2}}
    model = tfzoo.Transformer(31, like="marian", layers=1, **sizes)
    given = batch(randomize(model.double()).eval(), padded=False)
    theirs = peer_outputs(loaded_export(model), given)
    assert difference(model(*given.arguments), theirs) < PEERS["marian"].bound


@pytest.mark.parametrize("scaling", ["yarn", "llama3", "linear"])
def test_options_of_a_scaling_that_were_not_given_are_exported(scaling):
    position = {"name": "rotary", "layout": "half", "scaling": scaling}
    model = tfzoo.LanguageModel(31, like="llama", dim=16, heads=2, layers=1, position=position)
    randomize(model.double())
    peer = loaded_export(model.eval())
    ids = torch.arange(4, 24)[None]
    assert difference(model(ids), peer(ids).logits) < 1e-5


@pytest.mark.parametrize(("family", "class_name", "auto", "config"), RUNS)
def test_a_round_trip_changes_nothing(family, class_name, auto, config, tmp_path):
    peer, tokenizer = save(family, class_name, config, tmp_path / "there")
    assert main(["export", str(tmp_path / "there"), "--output", str(tmp_path / "run")]) == 0
    back = str(tmp_path / "back")
    assert main(["export", str(tmp_path / "run"), "--to", "transformers", "--output", back]) == 0
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("there", "back"))
    assert all(torch.equal(before[key], value) for key, value in after.items() if key in before)
    text = (tmp_path / "there/tokenizer.json").read_bytes()
    assert (tmp_path / "back/tokenizer.json").read_bytes() == text
    card = (tmp_path / "back/README.md").read_text("utf-8")
    assert f"model = {class_name}.from_pretrained" in card
    assert "- Not trained by tfzoo." in card
    loaded = getattr(transformers, auto).from_pretrained(back, attn_implementation="eager").eval()
    ids = transformers.AutoTokenizer.from_pretrained(back)(LINES[0], return_tensors="pt")
    assert ids.input_ids.tolist() == tokenizer([LINES[0]]).input_ids
    ids = {"input_ids": ids.input_ids}
    if auto == "AutoModelForSeq2SeqLM":
        ids["decoder_input_ids"] = ids["input_ids"]
    with torch.no_grad():
        assert_close(loaded(**ids).logits, peer(**ids).logits, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("family", "start"), [("marian", 2), ("t5", 0)])
def test_generate_is_told_how_a_translator_searches(family, start, tmp_path):
    class_name = {"marian": "MarianMTModel", "t5": "T5ForConditionalGeneration"}[family]
    config = {"marian": {**SEQ2SEQ, "max_position_embeddings": 256}, "t5": T5}[family]
    config = {**config, "decoder_start_token_id": start}
    peer, tokenizer = save(family, class_name, config, tmp_path / "there")
    peer.generation_config.num_beams = 3
    peer.generation_config.save_pretrained(tmp_path / "there")
    task = tfzoo.TranslationTask.load(tmp_path / "there")
    export(task, tmp_path / "back")
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "back").eval()
    said = loaded.generation_config
    assert said.num_beams == 3
    assert said.max_length == 1024
    for text, ours in zip(LINES, task.translate(LINES, beam=1), strict=True):
        ids = tokenizer(text, return_tensors="pt").input_ids
        new = 2 * ids.shape[1] + 10  # as tfzoo's search
        theirs = loaded.generate(input_ids=ids, num_beams=1, max_new_tokens=new)
        assert ours == tokenizer.decode(theirs[0], skip_special_tokens=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tensors_go_out_in_the_dtype_they_came_in(dtype, tmp_path):
    for family, class_name, _, config in RUNS:
        there, run, back = (tmp_path / class_name / one for one in ("there", "run", "back"))
        peer, _ = save(family, class_name, config, there)
        peer.to(dtype).save_pretrained(there)
        assert main(["export", str(there), "--output", str(run)]) == 0
        assert main(["export", str(run), "--to", "transformers", "--output", str(back)]) == 0
        before, after = (load_file(one / "model.safetensors") for one in (there, back))
        assert {one.dtype for one in after.values()} == {dtype}
        assert all(torch.equal(before[key], value) for key, value in after.items() if key in before)
        said = json.loads((back / "config.json").read_text("utf-8"))
        assert said["dtype"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize(("name", "config"), CASES)
def test_every_architecture_of_odd_sizes_is_read_and_written_as_it_was(name, config, tmp_path):
    peer = peer_of(architecture(name).transformers, config)
    if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
        peer.lm_head.weight = torch.nn.Parameter(torch.randn_like(peer.lm_head.weight))
    if name == "marian":  # published ones have a bias
        peer.final_logits_bias.normal_()
    peer.save_pretrained(tmp_path)
    model = tfzoo.from_pretrained(tmp_path)
    like, _ = config_of(model, [], pad=peer.config.pad_token_id)
    found = tensors_of(like, model)
    assert like == name
    for key, value in load_file(tmp_path / "model.safetensors").items():
        if key in REWRITTEN.get(name, ()):
            assert found[key].shape == value.shape
        elif not key.startswith(ELSEWHERE.get(name, " ")):
            assert torch.equal(found[key], value), key
    given = batch(model, padded=False)
    ours = model(*given.arguments)
    for one in (peer, loaded_export(model, peer.config.pad_token_id)):
        assert difference(ours, peer_outputs(one, given)) < PEERS[name].bound


PROBLEMS: list[tuple[str, Any, list[str]]] = [
    ("single_label_classification", tfzoo.ClassificationTask, ["a", "b"]),
    ("multi_label_classification", MultilabelClassificationTask, ["a", "b", "c"]),
    ("multi_label_classification", MultilabelClassificationTask, ["a"]),
    ("regression", RegressionTask, []),
]


@pytest.mark.parametrize(("problem", "task_class", "labels"), PROBLEMS)
def test_a_pipeline_gives_the_probabilities_or_the_number_of_the_task(
    problem, task_class, labels, tmp_path
):
    save("bert", "BertModel", {**SMALL, "max_position_embeddings": 256}, tmp_path / "bert")
    vocabulary = Vocabulary(restored("pretrained", state_of(tmp_path / "bert")), labels, "x")
    model = tfzoo.TransformerClassifier(
        len(vocabulary.tokenizer),
        len(labels) or 1,
        like="bert",
        dim=16,
        heads=2,
        layers=1,
        feedforward={"name": "gelu", "hidden": 32},
    )
    task = task_class(randomize(model), vocabulary).eval()
    if problem == "regression":
        task.mean.fill_(30.0)
        task.std.fill_(7.0)
    export(task, tmp_path / "out")
    again = task_class.load(tmp_path / "out")
    apply = transformers.pipeline("text-classification", str(tmp_path / "out"), top_k=None)
    assert apply.model.config.problem_type == problem
    for mine in (task, again):
        for answer, theirs in zip(mine.predict(LINES), apply(LINES), strict=True):
            found = {one["label"]: one["score"] for one in theirs}
            ours = getattr(answer, "probabilities", None) or {"LABEL_0": answer.value}
            assert found == pytest.approx(ours, rel=1e-5, abs=1e-6)


def test_a_pair_has_the_types_and_the_logits_that_training_had(tmp_path):
    config = {**SMALL, "max_position_embeddings": 256}
    _, tokenizer = save("bert", "BertForSequenceClassification", config, tmp_path / "there")
    ends = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.backend_tokenizer.post_processor = processors.BertProcessing(*ends)
    tokenizer.save_pretrained(tmp_path / "there")
    task = tfzoo.ClassificationTask.load(tmp_path / "there")
    export(task, tmp_path / "out")
    pair = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")(
        "a small cat", "the dog", return_tensors="pt"
    )
    assert set(pair["token_type_ids"][0].tolist()) == {0, 1}
    loaded = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    ours = task.model(pair["input_ids"], pair["token_type_ids"])
    assert_close(loaded(**pair).logits, ours, rtol=1e-5, atol=1e-6)


def test_what_read_pairs_reads_them_again(tmp_path):
    config = {**SMALL, "max_position_embeddings": 256}
    save("bert", "BertForSequenceClassification", config, tmp_path / "there")
    path, names = tmp_path / "there/config.json", ["question", "answer"]
    edit(path, lambda said: said.update(task_specific_params={"tfzoo": {"texts": names}}))
    task = tfzoo.ClassificationTask.load(tmp_path / "there")
    export(task, tmp_path / "out")
    again = tfzoo.ClassificationTask.load(tmp_path / "out")
    assert task.text_names == again.text_names == names
    pair = ("a small cat", "the dog")
    (ours,), (theirs,) = task.predict([pair]), again.predict([pair])
    assert ours.probabilities == theirs.probabilities


SPOKEN = ("one two three", "the pad is here", "", "naïve 你好")
"""One text spells the name of a special token."""


@pytest.mark.parametrize("spec", ["bpe", "unigram", "word", "character"])
@pytest.mark.parametrize("like", ["marian", "t5"])
def test_a_translator_trained_here_goes_out_with_its_own_tokenizer(like, spec, tmp_path):
    task = translator(like=like, spec=spec, max_length=64)
    task.model.double()
    export(task, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    own, special = task.tokenizer.source, task.tokenizer.special
    for text in SPOKEN:
        ids = own.encode([text])[0]
        assert tokenizer(text).input_ids == [*ids, special.eos]
        assert (
            tokenizer.decode([*ids, special.eos], skip_special_tokens=True) == own.decode([ids])[0]
        )
        given = torch.tensor([[*ids, special.eos]]), torch.tensor([[special.start, *ids]])
        theirs = loaded(input_ids=given[0], decoder_input_ids=given[1]).logits
        assert difference(task.model(*given), theirs) < PEERS[like].bound
    new = 2 * len(ids) + 12
    found = loaded.generate(input_ids=given[0], num_beams=1, max_new_tokens=new)
    assert tokenizer.decode(found[0], skip_special_tokens=True) == task.translate([text], beam=1)[0]
    again = tfzoo.TranslationTask.load(tmp_path / "out")
    assert again.translate(SPOKEN, beam=2) == task.translate(SPOKEN, beam=2)


def test_a_language_model_trained_here_goes_out_with_its_own_tokenizer(tmp_path):
    model = tfzoo.LanguageModel(270, like="gpt2", dim=16, heads=2, layers=1, max_length=32)
    task = LanguageModelingTask(randomize(model.double()), Vocabulary(tokenizer(), [])).eval()
    export(task, tmp_path / "out")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("one two").input_ids
    assert ids == [2, *tokenizer().encode(["one two"])[0]]
    given = torch.tensor([ids])
    assert_close(loaded(given).logits, model(given), rtol=1e-9, atol=1e-9)


def test_a_part_that_transformers_has_not_is_refused_by_name():
    model = tfzoo.LanguageModel(20, like="llama", dim=16, heads=2, layers=1, attention="cosine")
    with pytest.raises(
        tfzoo.errors.BadOption, match=r"these options: attention\. Train anew with --model"
    ):
        config_of(model, [])
    sides = {"encoder": {"norm": "rms"}, "decoder": {"layers": 2}}
    model = tfzoo.Transformer(
        20, like="marian", dim=16, heads=2, layers=1, max_length=8, feedforward="swiglu", **sides
    )
    with pytest.raises(tfzoo.errors.BadOption, match=r"options: encoder\.norm, feedforward\. "):
        config_of(model, [])
    model = tfzoo.LanguageModel(20, dim=16, heads=2, layers=1, norm="rms", position="rotary")
    with pytest.raises(
        tfzoo.errors.BadOption,
        match=r"Train anew with --model\.like llama and without them",
    ):
        config_of(model, [])
