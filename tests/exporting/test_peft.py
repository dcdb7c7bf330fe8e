"""An adapter that is written alone computes in ``transformers`` what it computes here."""

from pathlib import Path

import pytest
import torch
import transformers
from peft import PeftModel
from torch import nn
from torch.testing import assert_close

import tfzoo
from benchmarks.architectures import PEERS, batch, difference, peer_outputs
from tests.published_folders import LINES, peer_of, save
from tests.runs.test_published import CASES, SMALL
from tfzoo.commands.main import main
from tfzoo.errors import BadOption
from tfzoo.exporting.peft import write
from tfzoo.learning.adapter import Adapter
from tfzoo.models.architectures import architecture

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


RECIPE = """\
task: classification
from: bert
data: {root: .}
adapter: {name: lora, rank: 2, targets: [query], train: [head]}
optim: {lr: 0.1, schedule: {name: constant, warmup: 0}}
trainer: {max_steps: 2, accelerator: cpu, val_check_interval: 2, check_val_every_n_epoch: null}
"""
