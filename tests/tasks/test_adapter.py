"""Adapters: they alone are trained, no path through a model ignores them, and they are merged."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.testing import assert_close

import tfzoo
from tests.daily import sampled
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.commands.main import main
from tfzoo.errors import BadOption, TfzooError
from tfzoo.learning.adapter import METHODS, Adapter, is_adapted, merged
from tfzoo.tasks.language_modeling import LanguageModelingTask
from tfzoo.testing.samples import randomize

KINDS = ("attention", "mixer", "feedforward", "pooling", "residual", "norm", "position")
PARTS = [(kind, name) for kind in KINDS for name in registry(kind).own_names()]
SIZES: dict[str, Any] = {"dim": 16, "heads": 2, "layers": 2}
TEXT = torch.randint(1, 20, (2, 7), generator=torch.Generator().manual_seed(0))


def adapted(model, *targets, name="lora", **options):
    """A model with an adapter whose values are random, in float64."""
    Adapter(name, targets=[*targets], **options).apply(model.double().eval(), seed=1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.1)
    return model


def built(kind, name):
    """A classifier and a language model with a part; those that refuse it are left out."""
    found = []
    for make in (tfzoo.TransformerClassifier, tfzoo.LanguageModel):
        extra = {"classes": 3} if make is tfzoo.TransformerClassifier else {}
        try:
            model = make(20, **extra, **SIZES, **{kind: name})
        except (TfzooError, TypeError):
            continue
        randomize(model)
        found.append(model)
    return found


@pytest.mark.parametrize("part", sampled(PARTS, PARTS[::3]), ids="-".join)
def test_no_part_ignores_an_adapter(part):
    """What it computes beside a linear map is what the merged map computes."""
    for model in built(*part):
        before = model.double().eval()(TEXT)
        after = adapted(model, "*")(TEXT)
        whole = merged(model)
        assert not torch.allclose(after, before)
        close(whole(TEXT), after)


def test_a_translator_decodes_with_its_adapter():
    model = adapted(tfzoo.Transformer(20, **SIZES), "*")
    found, whole = (
        [one.decode_step(TEXT[:, i], cache) for i in range(3)]
        for one in (model, merged(model))
        for cache in [one.init_cache(TEXT)]
    )
    close(found, whole)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_merged_exactly(method):
    options = {"gralora": {"options": {"gralora_k": 2}, "rank": 4}}.get(method, {})
    model = adapted(tfzoo.LanguageModel(20, **SIZES), "query", "value", name=method, **options)
    names = {name for name, _ in tfzoo.LanguageModel(20, **SIZES).named_parameters()}
    whole = merged(model)
    close(whole(TEXT), model(TEXT))
    assert {name for name, _ in whole.named_parameters()} == names
    assert is_adapted(model)


def test_only_what_is_named_is_trained():
    model = tfzoo.TransformerClassifier(20, classes=2, **SIZES)
    Adapter("lora", rank=2, targets=["query"], train=["head"]).apply(model, seed=1)
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    layers = [f"encoder.layers.{i}.self_attention.inner.query.lora" for i in range(2)]
    assert trained == {"head.weight", "head.bias"} | {
        f"{layer}_{matrix}.default.weight" for layer in layers for matrix in "AB"
    }


def trained_beside(train, anew):
    """What is trained of a language model beside its adapter, where ``anew`` starts anew."""
    model = tfzoo.LanguageModel(20, **SIZES)
    Adapter("lora", targets=["query"], train=train).apply(model, 1, anew)
    named = model.named_parameters()
    return {name for name, one in named if one.requires_grad and "lora" not in name}


def test_what_starts_anew_is_trained_unless_the_recipe_says_otherwise():
    value = "decoder.layers.0.self_attention.inner.value.weight"
    query = "decoder.layers.1.self_attention.inner.query.weight"
    base = query.replace("query.", "query.base_layer.")
    assert trained_beside(None, []) == set()
    assert trained_beside(None, [value, query]) == {value, base}
    assert trained_beside([], [value]) == set()
    assert trained_beside(["embedding"], [value]) == {"embedding.weight"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["qeury"]}, "no linear map's name has 'qeury'. Did you mean 'query'"),
        ({"targets": ["embedding"]}, "no linear map's name has 'embedding'"),
        ({"targets": ["query"], "train": ["haed"]}, "train: no parameter's name has 'haed'"),
    ],
)
def test_a_name_that_the_model_lacks_is_refused(options, message):
    with pytest.raises(BadOption, match=message):
        Adapter("lora", **options).check_model(tfzoo.LanguageModel(20, **SIZES))


FIT = (
    *("fit", "language_modeling/agreement", "--data.dataset.train", "40", "--model.dim", "16"),
    *("--data.dataset.val", "8", "--data.dataset.test", "8", "--data.max_tokens", "256"),
    *("--trainer.max_steps", "3", "--trainer.val_check_interval", "3", "--model.layers", "1"),
)
LORA = ("--adapter.name", "lora", "--adapter.rank", "2", "--adapter.targets", "[query, value]")


def test_a_run_trains_the_adapter_alone_and_everything_reads_it_merged(
    own_folder, capsys, no_pictures
):
    assert main([*FIT, "--run", "first"]) == 0
    assert main([*FIT, "--run", "tuned", "--from", "first", *LORA, "--optim.lr", "0.1"]) == 0
    assert "128 of them trained" in capsys.readouterr().err
    before = LanguageModelingTask.load("first").state_dict()
    task = LanguageModelingTask.load("tuned")
    for name, value in task.state_dict().items():
        changed = name.endswith(("query.weight", "value.weight"))
        assert torch.equal(value, before[name]) != changed, name
    stored = torch.load(own_folder / "tuned/checkpoints/last.ckpt", weights_only=True)
    whole = LanguageModelingTask.from_checkpoint(stored)
    beside = LanguageModelingTask.from_checkpoint(stored, keep_adapter=True)
    assert_close(whole.model(TEXT), beside.model(TEXT))
    assert len(stored["optimizer_states"][0]["state"]) == 4
    assert main(["export", "tuned", "--to", "safetensors", "--output", "shared"]) == 0
    assert load_file("shared/model.safetensors").keys() == before.keys()
    assert main([*FIT, "--run", "again", "--from", "tuned", "--optim.lr", "1e-12"]) == 0
    assert f"{len(before)} of {len(before)} tensors" in capsys.readouterr().out


def test_a_run_that_goes_on_trains_what_started_anew_as_one_that_was_not_stopped(
    own_folder, capsys, no_pictures
):
    begun = (*FIT, "--from", "first", *LORA, "--model.layers", "2")
    assert main([*FIT, "--run", "first"]) == 0
    assert main([*begun, "--run", "whole", "--trainer.max_steps", "4"]) == 0
    assert "anew and frozen" not in capsys.readouterr().out
    assert main([*begun, "--run", "parts", "--trainer.max_steps", "2"]) == 0
    assert main([*begun, "--run", "parts", "--trainer.max_steps", "4"]) == 0
    first, whole, parts = (
        torch.load(f"{run}/checkpoints/last.ckpt", weights_only=True)
        for run in ("first", "whole", "parts")
    )
    assert_close(parts["state_dict"], whole["state_dict"], rtol=0, atol=0)
    assert len(parts["optimizer_states"][0]["state"]) == len(whole["optimizer_states"][0]["state"])
    assert "model.decoder.layers.1.feedforward.inner.inner.weight" in whole["tfzoo"]["anew"]
    fed = "model.decoder.layers.0.feedforward.inner.inner.weight"
    assert torch.equal(whole["state_dict"][fed], first["state_dict"][fed])
