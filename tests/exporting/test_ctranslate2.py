"""A translator in CTranslate2 translates as the model does, or is refused with the part's name."""

import re
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from ctranslate2.converters import TransformersConverter
from transformers import AutoTokenizer

import tfzoo
from tests.exporting.tasks import LINES, classifier, refusal, tokenizer, translator
from tfzoo.base.registry import REGISTRIES
from tfzoo.commands.main import main
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.errors import BadOption, Clash
from tfzoo.exporting.ctranslate2 import ACTIVATIONS, export
from tfzoo.exporting.transformers import export as to_transformers
from tfzoo.tasks.language_modeling import LanguageModelingTask

KINDS = ("attention", "weighting", "norm", "position", "feedforward", "mixer", "residual")
PARTS = [(kind, name) for kind in KINDS for name in REGISTRIES[kind].names()]

FAITHFUL: list[dict[str, Any]] = [
    {},
    {"joint": False, "tie": "target"},
    {"like": "marian", "max_length": 64},
    {"position": "rotary", "feedforward": "swiglu", "residual": "post", "norm": "rms"},
    {"position": {"name": "rotary", "layout": "half", "fraction": 0.5}, "kv_heads": 1, "heads": 4},
    {"position": "none", "attention": "dot_product", "temperature": 2.0},
    {"position": "learned", "max_length": 48, "head_dim": 6, "feedforward": "geglu"},
    {"position": {"name": "sinusoidal", "order": "concatenated"}, "share_query_key": True},
    {"bias": False, "scale_embeddings": False, "head_bias": True},
    {
        "norm": {"name": "layer", "bias": False, "eps": 1e-3},
        "encoder": {"layers": 1, "norm": {"name": "rms", "eps": 1e-3}},
    },
]
"""Each is exported, which compares translations and log probabilities with the model's."""

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"attention": "additive"}, "attention 'additive'"),
    ({"weighting": "entmax"}, "weighting 'entmax'"),
    ({"feedforward": "relu_squared"}, "feedforward 'relu_squared'"),
    ({"norm": "dyt"}, "norm 'dyt'"),
    ({"residual": "rezero"}, "residual 'rezero'"),
    ({"mixer": "linear_attention"}, "mixer 'linear_attention'"),
    ({"mixer": "gru"}, "mixer 'gru': its ct2-transformers-converter reads what --to transformers"),
    ({"feedforward": "none"}, "a layer without feed-forward layer"),
    ({"mixer": "none"}, "a layer without self-attention"),
    ({"position": "alibi"}, "position 'alibi'"),
    ({"embedding_norm": "layer"}, "embedding_norm"),
    ({"encoder": {"position": "unit_interval"}}, "position 'unit_interval'"),
    ({"position": {"name": "rotary", "scaling": "yarn"}}, "position 'rotary'"),
    ({"cap": 5.0}, "cap"),
    ({"gate": True}, "gate"),
    ({"window": 3}, "window"),
    ({"query_key_norm": {"norm": "rms"}}, "query_key_norm"),
    ({"value_head_dim": 4}, "value_head_dim"),
    ({"pattern": [{"feedforward": "relu"}, {"feedforward": "gelu"}]}, "pattern"),
    ({"encoder": {"norm": {"name": "layer", "eps": 0.1}}}, "differs from the model's by"),
    ({"layers": 0}, "without layers"),
]


@pytest.mark.parametrize("parts", FAITHFUL, ids=str)
def test_a_translator_is_exported_faithfully(parts, tmp_path):
    export(translator(**parts), tmp_path / "model")
    assert ctranslate2.contains_model(str(tmp_path / "model"))


@pytest.mark.parametrize(("parts", "says"), REFUSED, ids=str)
def test_a_part_that_ctranslate2_lacks_is_named(parts, says, tmp_path):
    with pytest.raises(BadOption, match=re.escape(says)) as error:
        export(translator(**parts), tmp_path / "model")
    assert "\n" not in str(error.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_every_part_is_exported_faithfully_or_refused_by_name(kind, name, tmp_path):
    allow = ["leaky-norm"]
    try:
        task = translator(**{kind: name}, allow=allow)
    except Clash:
        task = translator(encoder={kind: name})
    said = refusal(export, task, tmp_path / "model")
    assert not said or f"{kind} {name!r}" in said or "a layer without" in said


def test_the_files_translate_text_with_the_tokenizer_beside_them(tmp_path):
    """As docs/export.md does it."""
    from tokenizers import Tokenizer

    task = translator(position="rotary")
    export(task, tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    model = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32")
    batch = [encoding.tokens for encoding in tokenizer.encode_batch(list(LINES))]
    best = [one.hypotheses[0] for one in model.translate_batch(batch, beam_size=1)]
    ids = [[tokenizer.token_to_id(token) for token in one] for one in best]
    wanted = task.translate(LINES, beam=1)
    found = tokenizer.decode_batch(ids)
    assert [a[: len(b)] for a, b in zip(found, wanted, strict=True)] == wanted


def test_what_computes_something_else_is_not_written(tmp_path, monkeypatch):
    """The comparison is what counts, whatever the table says."""
    monkeypatch.setitem(ACTIVATIONS, "GELU", torch.relu)
    monkeypatch.delitem(ACTIVATIONS, "RELU")
    with pytest.raises(BadOption, match="differs from the model's by"):
        export(translator(feedforward="relu"), tmp_path / "model")
    assert not any(tmp_path.iterdir())


def test_its_own_converter_reads_what_is_written_for_transformers(tmp_path):
    task = translator(like="t5", max_length=64)
    with pytest.raises(BadOption, match="position 'relative_bias': its ct2-transformers-converter"):
        export(task, tmp_path / "ours")
    to_transformers(task, tmp_path / "there")
    made = TransformersConverter(str(tmp_path / "there")).convert(str(tmp_path / "made"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "there")
    batch = [tokenizer.convert_ids_to_tokens(one) for one in tokenizer([*LINES]).input_ids]
    given = {"beam_size": 1, "suppress_sequences": [["pad "], ["begin "]]}
    found = ctranslate2.Translator(made).translate_batch(batch, max_decoding_length=100, **given)
    ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
    wanted = task.translate(LINES, beam=1)
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    assert [text[: len(own)] for text, own in zip(texts, wanted, strict=True)] == wanted
    assert any(wanted)


def test_another_task_is_refused_with_the_format_that_takes_it(tmp_path):
    model = tfzoo.LanguageModel(270, dim=16, heads=2, layers=1)
    for task in (classifier(), LanguageModelingTask(model, Vocabulary(tokenizer(), []))):
        with pytest.raises(BadOption, match=f"{task.entry.name}'.*--to onnx"):
            export(task, tmp_path / "model")


def test_padding_and_bos_are_never_generated(tmp_path):
    task = translator(tie="none")
    task.model.projection.data[0] = 100 * task.model.projection.data[4]
    export(task, tmp_path / "model")  # which compares translations, and refuses those that differ
    assert (tmp_path / "model" / "model.bin").exists()


def test_the_command_writes_the_folder(tmp_path, capsys):
    translator().save_pretrained(tmp_path / "run")
    place = str(tmp_path / "model")
    assert main(["export", str(tmp_path / "run"), "--to", "ctranslate2", "--output", place]) == 0
    assert {path.name for path in Path(place).iterdir()} == {
        *("model.bin", "config.json", "shared_vocabulary.json"),
        "tokenizer.json",
    }
