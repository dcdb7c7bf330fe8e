"""An adapter that is written alone computes in ``transformers`` what it computes here."""

from pathlib import Path

import pytest
import torch
import transformers
from peft import PeftModel
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

import tfzoo
from benchmarks.architectures import PEERS, batch, difference, peer_outputs
from tests.published_folders import LINES, peer_of, save
from tests.runs.test_published import CASES, SMALL
from tfzoo.commands.main import main
from tfzoo.errors import BadOption
from tfzoo.exporting.peft import export, write
from tfzoo.learning.adapter import Adapter
from tfzoo.models.architectures import architecture
from tfzoo.tasks.regression import RegressionTask

ONE_EACH = dict(reversed(CASES))


def adapted(folder, *targets, **options):
    """The model of a folder with a random adapter."""
    model = tfzoo.from_pretrained(folder)
    Adapter("lora", rank=3, targets=[*targets], **options).apply(model, seed=1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.1)
    return model


@pytest.mark.parametrize("name", sorted(ONE_EACH))
def test_peft_adds_it_to_the_model_that_training_began_with(name, tmp_path):
    peer = peer_of(architecture(name).transformers, ONE_EACH[name])
    if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
        peer.lm_head.weight = nn.Parameter(torch.randn_like(peer.lm_head.weight))
    peer.save_pretrained(tmp_path / "there")
    # gpt_oss's router and FNet's head are not maps that PEFT knows, and FNet's mixer has none
    targets = {"gpt_oss": ["query", "value"], "fnet": ["feedforward.*"]}.get(name, ["layers.*"])
    model = adapted(tmp_path / "there", *targets)
    write(model, tmp_path / "adapter", [], pad=peer.config.pad_token_id)
    theirs = PeftModel.from_pretrained(peer, str(tmp_path / "adapter"))
    given = batch(model, padded=False)
    outputs = peer_outputs(theirs.base_model.model, given)
    assert difference(model(*given.arguments), outputs) < PEERS[name].bound
    merged = peer_outputs(theirs.merge_and_unload(), given)
    assert difference(outputs, merged) < 1e-9


def test_a_head_that_was_trained_beside_it_comes_along(tmp_path):
    config = {**SMALL, "max_position_embeddings": 256, "id2label": {0: "a", 1: "b", 2: "c"}}
    peer, _ = save("bert", "BertForSequenceClassification", config, tmp_path / "there")
    model = adapted(tmp_path / "there", "value", train=["head"])
    write(model, tmp_path / "adapter", ["a", "b", "c"], str(tmp_path / "there"))
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "there")
    text = torch.tensor([[5, 9, 12, 7, 21, 3]])
    wanted = model(text)
    assert not torch.allclose(peer(text).logits, wanted)
    found = PeftModel.from_pretrained(theirs, str(tmp_path / "adapter")).eval()
    assert_close(found(text).logits, wanted, rtol=1e-5, atol=1e-6)


def regression(there, *targets, train=()):
    """A task of a published model with a random adapter, whose labels are about 30."""
    config = {**SMALL, "max_position_embeddings": 256, "num_labels": 1}
    save("bert", "BertForSequenceClassification", {**config, "problem_type": "regression"}, there)
    task = RegressionTask.load(there)
    task.model = adapted(there, *targets, train=[*train])
    task.mean.fill_(30.0)
    task.std.fill_(7.0)
    return task


@pytest.mark.parametrize("train", [[], ["head"]])
def test_an_adapter_of_a_regression_gives_numbers_in_their_own_unit(train, tmp_path):
    there = tmp_path / "there"
    task = regression(there, "value", train=train)
    export(task, tmp_path / "adapter")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(there)
    found = PeftModel.from_pretrained(theirs, str(tmp_path / "adapter")).eval()
    ids = transformers.AutoTokenizer.from_pretrained(there)(LINES[0], return_tensors="pt").input_ids
    (answer,) = task.answers([LINES[0]])
    assert float(found(ids).logits) == pytest.approx(answer.value, rel=1e-5)


def test_an_adapter_of_a_regressions_head_is_refused_and_the_whole_model_is_written(tmp_path):
    task = regression(tmp_path / "there", "value", "head")
    with pytest.raises(BadOption, match=r"the head has an adapter, .*adapter\.train: \[head\]"):
        export(task, tmp_path / "adapter")
    found = task.model_to_export()(torch.tensor([[5, 9, 12]]))
    assert_close(found, 7.0 * task.model(torch.tensor([[5, 9, 12]])) + 30.0)


def test_what_peft_could_not_read_is_refused(tmp_path):
    peer_of("GPT2LMHeadModel", ONE_EACH["gpt2"]).save_pretrained(tmp_path)
    model = tfzoo.from_pretrained(tmp_path)
    with pytest.raises(BadOption, match="no adapter"):
        write(model, tmp_path / "new", [])
    model = adapted(tmp_path, "query", options={"use_dora": True})
    with pytest.raises(BadOption, match="only a plain lora is written"):
        write(model, tmp_path / "new", [])


def test_a_run_with_an_adapter_is_written_merged_and_alone(own_folder, no_pictures):
    config = {**SMALL, "max_position_embeddings": 256, "id2label": {0: "0", 1: "1"}}
    save("bert", "BertForSequenceClassification", config, own_folder / "bert")
    for split in ("train", "val"):
        rows = [f"{line}\t{number % 2}" for number, line in enumerate(LINES * 4)]
        (own_folder / f"{split}.tsv").write_text("text\tlabel\n" + "\n".join(rows), "utf-8")
    (own_folder / "mine.yaml").write_text(RECIPE, "utf-8")
    assert main(["fit", "mine.yaml", "--run", "run"]) == 0
    for to in ("transformers", "peft"):
        assert main(["export", "run", "--to", to, "--output", to]) == 0
    assert "an adapter, lora of rank 2, beside query" in Path("transformers/README.md").read_text()
    auto = transformers.AutoModelForSequenceClassification
    base = auto.from_pretrained("bert")
    ids = transformers.AutoTokenizer.from_pretrained("transformers")(LINES[0], return_tensors="pt")
    before = base(**ids).logits
    found = PeftModel.from_pretrained(base, "peft").eval()(**ids).logits
    assert_close(auto.from_pretrained("transformers")(**ids).logits, found, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(before, found, atol=1e-4)


BARE = {"num_hidden_layers": 2, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def begun_from_a_bert_without_pooler(folder, targets):
    """A run of a classifier whose pooler and head are new; the pooler, frozen, is not trained."""
    config = {**SMALL, **BARE, "max_position_embeddings": 256}
    peer, _ = save("bert", "BertModel", config, folder / "bert")
    (folder / "bert" / "model.safetensors").unlink()
    state = {key: one for key, one in peer.state_dict().items() if not key.startswith("pooler")}
    save_file(state, folder / "bert" / "model.safetensors", metadata={"format": "pt"})
    for split in ("train", "val"):
        rows = [f"{line}\t{number % 2}" for number, line in enumerate(LINES * 4)]
        (folder / f"{split}.tsv").write_text("text\tlabel\n" + "\n".join(rows), "utf-8")
    recipe = RECIPE.replace("targets: [query]", f"targets: {targets}")
    (folder / "mine.yaml").write_text(recipe, "utf-8")
    assert main(["fit", "mine.yaml", "--run", "run"]) == 0


def test_what_began_anew_is_written_with_the_adapter_trained_or_not(own_folder, no_pictures):
    begun_from_a_bert_without_pooler(own_folder, "[query]")
    task = tfzoo.ClassificationTask.load("run")
    assert "model.pooling.linear.weight" in task.anew
    assert main(["export", "run", "--to", "peft", "--output", "peft"]) == 0
    ids = transformers.AutoTokenizer.from_pretrained("bert")(LINES[0], return_tensors="pt")
    for seed in (1, 2):  # what their model draws for the pooler that it misses
        torch.manual_seed(seed)
        base = transformers.AutoModelForSequenceClassification.from_pretrained("bert")
        found = PeftModel.from_pretrained(base, "peft").eval().double()(**ids).logits
        assert_close(found, task.model.double()(ids.input_ids), rtol=1e-9, atol=1e-9)


def test_an_adapter_beside_a_map_that_began_anew_is_refused(own_folder, no_pictures, capsys):
    begun_from_a_bert_without_pooler(own_folder, '[query, "pooling.*"]')
    assert main(["export", "run", "--to", "peft", "--output", "peft"]) == 2
    assert "pooling.linear.weight began anew and has an adapter" in capsys.readouterr().err


RECIPE = """\
task: classification
from: bert
data: {root: .}
adapter: {name: lora, rank: 2, targets: [query], train: [head]}
optim: {lr: 0.1, schedule: {name: constant, warmup: 0}}
trainer: {max_steps: 2, accelerator: cpu, val_check_interval: 2, check_val_every_n_epoch: null}
"""
