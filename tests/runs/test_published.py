"""Folders that ``transformers`` wrote are read, and what is in them computes the same."""

from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import tfzoo
from benchmarks.architectures import Batch, difference, peer_outputs
from tests.json_files import edit
from tests.published_folders import peer_of
from tfzoo.base import memory
from tfzoo.errors import BadOption, BadRun, TfzooError
from tfzoo.models.architectures import architecture, names
from tfzoo.models.architectures.config import READERS, read_config

TEXT = torch.tensor([[5, 9, 12, 7, 21, 3], [14, 6, 13, 8, 11, 17]])
SIZES = {"hidden_size": 18, "num_attention_heads": 3, "intermediate_size": 29}
SMALL = {**SIZES, "num_hidden_layers": 3, "vocab_size": 31, "max_position_embeddings": 19}
GROUPED = {**SMALL, "num_key_value_heads": 1, "head_dim": 10, "pad_token_id": 0}
SEQ2SEQ = {
    **{"d_model": 18, "vocab_size": 31, "encoder_layers": 1, "decoder_layers": 3},
    **{"encoder_attention_heads": 3, "decoder_attention_heads": 2, "encoder_ffn_dim": 29},
    **{"decoder_ffn_dim": 23, "max_position_embeddings": 19, "pad_token_id": 0},
    **{"decoder_start_token_id": 0, "eos_token_id": 3, "bos_token_id": 2},
}
GPT = {"n_embd": 18, "n_layer": 3, "n_head": 3, "n_inner": 29, "n_positions": 19, "vocab_size": 31}
T5 = {"d_model": 18, "d_kv": 5, "d_ff": 29, "num_heads": 3, "num_layers": 1, "vocab_size": 31}
MODERN = {"cls_token_id": 2, "sep_token_id": 3, "pad_token_id": 0, "bos_token_id": 2}
MODERNBERT = {**SMALL, **MODERN, "local_attention": 4}
APART = [
    {**SEQ2SEQ, "share_encoder_decoder_embeddings": False, **more}
    for more in ({"decoder_vocab_size": 37}, {"tie_word_embeddings": False})
]
"""A vocabulary for each language (Marian)."""


def rope(kind, **options):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 5e7, **options}}


ODD: dict[str, list[dict[str, Any]]] = {
    "gpt2": [GPT, {**GPT, "activation_function": "gelu", "tie_word_embeddings": False}],
    "gptj": [{**GPT, "rotary_dim": 4}, {**GPT, "rotary_dim": 2, "n_inner": None}],
    "gpt_neox": [{**SMALL, **rope("default", partial_rotary_factor=0.67)}],
    "llama": [
        {**GROUPED, **rope("default"), "tie_word_embeddings": True, "attention_bias": True},
        {**GROUPED, **rope("linear", factor=4.0), "mlp_bias": True},
        {
            **GROUPED,
            **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
            "rms_norm_eps": 1e-3,
        },
        {**GROUPED, **rope("yarn", factor=4.0), "max_position_embeddings": 76},
    ],
    "qwen3": [{**GROUPED, "sliding_window": 3, "max_window_layers": 1}],
    "olmo2": [{**SMALL, "num_key_value_heads": 3}],
    "gemma2": [{**GROUPED, "query_pre_attn_scalar": 7, "sliding_window": 3}],
    "gpt_oss": [
        {
            **{**GROUPED, "sliding_window": 3, "num_local_experts": 5, "num_experts_per_tok": 3},
            **rope("default"),
        }
    ],
    "bert": [{**SMALL, "type_vocab_size": 3, "hidden_act": "gelu_new", "layer_norm_eps": 1e-3}],
    "roberta": [{**SMALL, "type_vocab_size": 1}],
    "distilbert": [
        {"dim": 18, "n_layers": 3, "n_heads": 3, "hidden_dim": 29, "max_position_embeddings": 19}
        | {"vocab_size": 31}
    ],
    "modernbert": [{**SMALL, **MODERN, "local_attention": 4, "global_attn_every_n_layers": 2}],
    "fnet": [
        {key: one for key, one in SMALL.items() if key != "num_attention_heads"}
        | {"pad_token_id": 0}
    ],
    "marian": [{**SEQ2SEQ, "activation_function": "swish", "scale_embedding": True}, *APART],
    "bart": [{**SEQ2SEQ, "activation_function": "relu"}],
    "t5": [{**T5, "num_decoder_layers": 3, "relative_attention_num_buckets": 8}],
    "t5_v1_1": [{**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}],
}
for options in ODD["llama"][2:]:
    options["rope_parameters"]["original_max_position_embeddings"] = 19

CASES = [(name, config) for name, configs in ODD.items() for config in configs]


def saved(peer, folder, **options):
    peer.save_pretrained(folder, **options)
    return folder


CLASSIFIERS: list[tuple[str, dict[str, Any]]] = [
    ("BertForSequenceClassification", {**SMALL, "classifier_dropout": 0.3}),
    ("RobertaForSequenceClassification", {**SMALL, "pad_token_id": 1}),
    ("DistilBertForSequenceClassification", ODD["distilbert"][0]),
    ("ModernBertForSequenceClassification", {**SMALL, **MODERN, "local_attention": 4}),
    (
        "ModernBertForSequenceClassification",
        {**SMALL, **MODERN, "classifier_pooling": "mean", "norm_bias": True, "norm_eps": 1e-3},
    ),
    ("FNetForSequenceClassification", ODD["fnet"][0]),
]


TOKEN_CLASSIFIERS: list[tuple[str, dict[str, Any]]] = [
    ("BertForTokenClassification", {**SMALL, "classifier_dropout": 0.3}),
    ("RobertaForTokenClassification", {**SMALL, "pad_token_id": 1}),
    ("XLMRobertaForTokenClassification", {**SMALL, "pad_token_id": 1}),
    ("DistilBertForTokenClassification", ODD["distilbert"][0]),
    ("FNetForTokenClassification", ODD["fnet"][0]),
    ("ModernBertForTokenClassification", {**MODERNBERT, "classifier_dropout": 0.2}),
    (
        "ModernBertForTokenClassification",
        {**MODERNBERT, "classifier_dropout": 0.1, "norm_bias": True, "norm_eps": 1e-3},
    ),
]


@pytest.mark.parametrize(("class_name", "config"), [*CLASSIFIERS, *TOKEN_CLASSIFIERS])
def test_a_classifier_comes_with_its_trained_head(class_name, config, tmp_path):
    labels = {0: "O", 1: "B-PER", 2: "I-PER"}
    peer = peer_of(class_name, {**config, "id2label": labels})
    model = tfzoo.from_pretrained(saved(peer, tmp_path))
    assert isinstance(model, tfzoo.TransformerClassifier)
    assert difference(model(TEXT), peer(TEXT).logits) < 1e-7
    if (class_name, config) in TOKEN_CLASSIFIERS:
        own = ("classifier_dropout", "dropout", "hidden_dropout_prob")
        found = [getattr(peer.config, name, None) for name in own]
        assert model.pooled_dropout == next(filter(None, found))
        assert model.pooling is None


WRONG_LABELS: list[tuple[dict[str, Any], str]] = [
    ({"problem_type": "ranking"}, "problem_type is 'ranking'; tfzoo reads"),
    ({"problem_type": "regression"}, "regression, and it has 2 labels"),
    ({"problem_type": "single_label_classification", "id2label": {"0": "a"}}, "it has 1 labels"),
    ({"id2label": {}}, "must name each class"),
    (
        {"architectures": ["BertForTokenClassification"], "id2label": {"0": "a"}},
        "classifies words, and its problem_type would be regression",
    ),
]


@pytest.mark.parametrize(("said", "message"), WRONG_LABELS)
def test_labels_that_contradict_their_problem_are_refused(said, message):
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], **said}
    with pytest.raises(BadOption, match=message):
        read_config(config)


def test_shards_are_one_model(tmp_path):
    peer = peer_of("LlamaForCausalLM", ODD["llama"][0])
    one = tfzoo.from_pretrained(saved(peer, tmp_path / "one"))
    many = tfzoo.from_pretrained(saved(peer, tmp_path / "many", max_shard_size="12KB"))
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    assert all(map(torch.equal, one.parameters(), many.parameters()))


def rewrite(folder, change):
    """Change the names of a folder's tensors."""
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


def test_names_of_older_files_are_known(tmp_path):
    """GPT-2's without prefix, and BERT's gamma, beta and further heads."""

    def old_gpt2(state):
        named = {key.removeprefix("transformer."): one for key, one in state.items()}
        return {**named, "h.0.attn.bias": torch.ones(1, 1, 19, 19).bool()}

    def old_bert(state):
        named = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): one
            for key, one in state.items()
        }
        words = named["bert.embeddings.word_embeddings.weight"].clone()
        extra = {"bert.pooler.dense.weight": torch.ones(18, 18)}
        return {**named, **extra, "cls.predictions.decoder.weight": words}

    for class_name, config, change in (
        ("GPT2LMHeadModel", GPT, old_gpt2),
        ("BertForMaskedLM", SMALL, old_bert),
    ):
        folder = saved(peer_of(class_name, config), tmp_path / class_name)
        before = tfzoo.from_pretrained(folder)
        rewrite(folder, change)
        after = tfzoo.from_pretrained(folder)
        assert all(map(torch.equal, before.parameters(), after.parameters()))


OLDER = {
    "llama": {
        "rope_theta": 123.0,
        "rope_scaling": {"type": "linear", "factor": 3.0},
        "pretraining_tp": 1,
    },
    "gpt_neox": {"rotary_emb_base": 123, "rotary_pct": 0.67},
    "modernbert": {"global_rope_theta": 321.0, "local_rope_theta": 123.0, "local_attention": 4},
}


@pytest.mark.parametrize("name", OLDER)
def test_words_of_older_configurations_are_known(name, tmp_path):
    folder = saved(peer_of(architecture(name).transformers, ODD[name][0]), tmp_path)
    newer = ("rope_parameters", "layer_types", "global_attn_every_n_layers")
    edit(folder / "config.json", lambda config: [config.pop(key, None) for key in newer])
    config_with(**OLDER[name])(folder)
    peer = getattr(transformers, architecture(name).transformers).from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    model = tfzoo.from_pretrained(folder)
    assert difference(model(TEXT), peer.eval()(TEXT).logits) < 1e-5


YARN = {"rope_type": "yarn", "factor": 4.0}
HALF = {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}
HONOURED: list[tuple[str, dict[str, Any]]] = [
    ("roberta", {"hidden_act": "gelu_new"}),  # the head has another one
    ("llama", {"rope_parameters": YARN, "max_position_embeddings": 8}),  # the length of training
    ("llama", {"partial_rotary_factor": 1.0}),
    ("llama", {"rope_parameters": HALF, "rope_scaling": {"type": "linear", "factor": 2.0}}),
    ("gemma2", {"use_sliding_window": False}),  # is Qwen's
    ("gpt_oss", {"use_sliding_window": False}),
    ("gpt_oss", {"rope_parameters": None}),  # YaRN
    ("gpt_oss", {"rope_parameters": None, "rope_theta": 123}),
    ("gpt_oss", {"rope_parameters": {**YARN, "original_max_position_embeddings": 8}}),
    ("gpt_neox", {"rope_parameters": None, "rotary_pct": 0.67, "partial_rotary_factor": 0.5}),
    ("gpt_neox", {"rope_parameters": None, "rotary_emb_base": 500, "rope_theta": 1e4}),
    ("t5_v1_1", {"dense_act_fn": "gelu", "tie_word_embeddings": False}),
]


@pytest.mark.parametrize(("name", "changes"), HONOURED)
def test_a_key_says_what_it_says_in_transformers(name, changes, tmp_path):
    peer = peer_of(architecture(name).transformers, ODD[name][0])
    if name == "t5_v1_1":  # its checkpoints untie what the constructor ties
        peer.lm_head.weight = torch.nn.Parameter(torch.randn_like(peer.lm_head.weight))
    config_with(**changes)(saved(peer, tmp_path))
    options = {"dtype": torch.float64, "attn_implementation": "eager"}
    if name == "gpt_oss":
        options["experts_implementation"] = "eager"
    peer = type(peer).from_pretrained(tmp_path, **options).eval()
    model = tfzoo.from_pretrained(tmp_path)
    given = Batch((TEXT, TEXT) if isinstance(model, tfzoo.Transformer) else (TEXT,), TEXT > 0)
    assert difference(model(*given.arguments), peer_outputs(peer, given)) < 1e-5


NOT_READ: list[tuple[str, dict[str, Any], str]] = [
    ("gpt2", {"is_causal": False}, "is_causal: False"),
    ("llama", HALF, "partial_rotary_factor: 0.5"),
    ("olmo2", {"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5"),
    ("qwen3", {"rotary_pct": 0.5}, "rotary_pct: 0.5"),
    ("qwen3", {"use_sliding_window": True}, "use_sliding_window: True"),
    ("llama", {"rotary_emb_base": 500}, "rotary_emb_base: 500"),
    ("llama", {"rope_parameters": YARN}, "no original_max_position_embeddings"),
    ("llama", {"rope_scaling": {"type": "linear"}}, "no factor for rope_type linear"),
    ("gemma2", {"query_pre_attn_scalar": -1}, "query_pre_attn_scalar=-1"),
    ("t5", {"dense_act_fn": "silu"}, "dense_act_fn: silu"),
    ("t5", {"is_gated_act": True}, "is_gated_act: True"),
    ("t5", {"is_encoder_decoder": False}, "is_encoder_decoder: False"),
    ("t5", {"feed_forward_proj": "gated-gelu"}, "transformers scales the outputs"),
    ("modernbert", {"rope_parameters": {"full_attention": [1]}}, "a mapping for each kind"),
]


@pytest.mark.parametrize(("name", "changes", "message"), NOT_READ)
def test_a_key_that_transformers_reads_otherwise_is_refused_by_name(name, changes, message):
    kind = architecture(name).config["type"]
    with pytest.raises(BadOption, match=message):
        read_config({"model_type": kind if isinstance(kind, str) else kind[0], **changes})


@pytest.mark.parametrize("name", [one for one in names() if architecture(one).config])
def test_what_a_missing_key_means_is_what_transformers_takes(name):
    said = architecture(name)
    theirs = getattr(transformers, said.transformers).config_class()
    heads = [*said.classifier.get("keys", {}).items()]
    heads += said.token_classifier.get("keys", {}).items()
    for key, entry in [*said.config["keys"].items(), *heads]:
        if "default" in entry and hasattr(theirs, key) and name != "t5_v1_1":
            computed = {"num_key_value_heads", "head_dim", "num_decoder_layers"}  # from others
            assert getattr(theirs, key) == entry["default"] or key in computed, key


def config_with(**changes):
    return lambda folder: edit(folder / "config.json", lambda config: config.update(changes))


def without_a_tensor(folder):
    rewrite(folder, lambda state: dict(list(state.items())[1:]))


def with_a_tensor(folder):
    rewrite(folder, lambda state: {**state, "model.extra.weight": torch.ones(2)})


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def quantised(folder):
    rewrite(folder, lambda state: {key: one.to(torch.float8_e4m3fn) for key, one in state.items()})


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def long_header(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)


REFUSED: list[tuple[Any, str]] = [
    (config_with(auto_map={"AutoModel": "code.Model"}), "code of its own"),
    (config_with(model_type="mamba"), "model_type 'mamba' is no architecture"),
    (config_with(architectures=["LlamaForTokenClassification"]), "has another head"),
    (
        config_with(model_type="modernbert", architectures=["ModernBertForQuestionAnswering"]),
        "has another head",
    ),
    (config_with(architectures="LlamaForCausalLM"), "must be a list"),
    (config_with(quantization_config={"bits": 4}), "says quantization_config"),
    (config_with(hidden_act="relu"), "says hidden_act: relu"),
    (config_with(new_idea=3), "says new_idea: 3"),
    (config_with(rope_parameters={"rope_type": "longrope"}), "rope_type: longrope"),
    (config_with(rope_parameters={"rope_type": "default", "twist": 2}), "says twist: 2"),
    (config_with(rope_parameters=[1]), "which is no mapping"),
    (config_with(hidden_size="18"), "which is no number"),
    (config_with(hidden_size=20), "its weights are"),
    (config_with(num_hidden_layers=4), "no parameter 'model.layers.3"),
    (config_with(num_hidden_layers=2), "has no place for"),
    (config_with(num_hidden_layers=10**9), "the most is 1,000"),
    (config_with(vocab_size=10**10), "the most is 10,000,000"),
    (config_with(num_attention_heads=0), "config.json's heads=0"),
    (config_with(hidden_size=0), "config.json's dim=0"),
    (lambda folder: (folder / "config.json").unlink(), "cannot read"),
    (lambda folder: (folder / "config.json").write_text("[1", "utf-8"), "damaged"),
    (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights"),
    (pickled, "pytorch_model.bin, which can hold code"),
    (quantised, r"is quantised \(torch.float8_e4m3fn\)"),
    (cut_short, "cut short or damaged"),
    (long_header, "damaged"),
    (without_a_tensor, "no parameter"),
    (with_a_tensor, "has no place for model.extra.weight"),
]


def index_with(change):
    name = "model.safetensors.index.json"
    return lambda folder: edit(folder / name, lambda index: change(index["weight_map"]))


def last_shard(folder):
    return sorted(folder.glob("*.safetensors"))[-1]


SHARDS: list[tuple[Any, str]] = [
    (index_with(lambda where: where.pop("model.norm.weight")), "does not name 'model.norm.weight'"),
    (index_with(lambda where: where.update({"x": next(iter(where.values()))})), "not hold 'x'"),
    (index_with(lambda where: where.update({"x": "../model.safetensors"})), "no file beside it"),
    (index_with(lambda where: where.clear()), "no weight_map"),
    (lambda folder: last_shard(folder).unlink(), "cannot read"),
    (lambda folder: last_shard(folder).write_bytes(b""), "cut short or damaged"),
]


@pytest.mark.parametrize(
    ("spoil", "says", "shard"),
    [*((*row, "5GB") for row in REFUSED), *((*row, "12KB") for row in SHARDS)],
)
def test_what_is_damaged_or_no_model_of_tfzoo_is_refused_in_one_line(spoil, says, shard, tmp_path):
    peer = peer_of("LlamaForCausalLM", ODD["llama"][1])
    folder = saved(peer, tmp_path, max_shard_size=shard)
    spoil(folder)
    with pytest.raises(BadRun, match=says) as raised:
        tfzoo.from_pretrained(folder)
    assert "\n" not in str(raised.value)


VALUES = ["x", None, -1, 0.5, ["x"], {"x": 5}]
ALWAYS = (
    "id2label",
    "problem_type",
    "architectures",
    "pad_token_id",
    "layer_types",
    "rope_scaling",
)


def configurations(name):
    """That of a small model, and of a classifier where the architecture has one."""
    said = architecture(name)
    config = peer_of(said.transformers, ODD[name][0]).config.to_dict()
    labels = {"id2label": {"0": "a", "1": "b"}}
    classes = [said.transformers, *said.classifier.get("classes", [])[:1]]
    return [{**config, **labels, "architectures": [cls]} for cls in classes]


@pytest.mark.parametrize("name", ODD)
def test_every_key_of_a_wrong_type_is_read_or_refused_in_one_line(name):
    said = architecture(name).config
    of_readers = (key for reader in said.get("readers", ()) for key in READERS[reader].keys)
    for config in configurations(name):
        for key in {*config, *said["keys"], *of_readers, *ALWAYS}:
            for value in VALUES:
                try:
                    found = read_config({**config, key: value})
                    if key in said["keys"]:
                        memory.check_model(found.model, found.options, BadRun)
                except TfzooError as error:
                    lines = str(error).splitlines()
                except Exception as error:
                    pytest.fail(f"{key}: {value!r} ends in {error!r}")
                else:
                    lines = ["a model"]
                assert len(lines) == 1
