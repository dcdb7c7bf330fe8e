"""Models are copied, pickled, called with other parameters, compiled and exported."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch

import tfzoo
from tests.daily import sampled
from tests.exact import close
from tfzoo.base.registry import registry
from tfzoo.testing.samples import randomize
from tfzoo.testing.subject import mask_of

TINY: dict[str, Any] = {"dim": 8, "heads": 2, "layers": 2, "dropout": 0.0}
SOURCE = torch.tensor([[5, 6, 7, 3, 8], [8, 9, 3, 0, 0]])
TARGET = torch.tensor([[2, 5, 6, 7], [2, 8, 0, 0]])


def translator(**options):
    torch.manual_seed(0)
    model = tfzoo.Transformer(20, **{**TINY, **options})
    randomize(model)
    return model.double().eval()


def classifier(**options):
    torch.manual_seed(0)
    model = tfzoo.TransformerClassifier(20, 3, **{**TINY, **options})
    randomize(model)
    return model.double().eval()


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved])
def test_a_copy_computes_the_same(copied):
    for model, given in ((translator(), (SOURCE, TARGET)), (classifier(), (SOURCE,))):
        other = copied(model)
        close(other(*given), model(*given))
        assert other.config == model.config
        with torch.no_grad():
            next(other.parameters()).add_(1.0)
        assert not torch.equal(other(*given), model(*given))


def test_a_model_runs_with_parameters_given_from_outside():
    model, other = translator(), translator()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1)
    given = dict(other.named_parameters())
    close(torch.func.functional_call(model, given, (SOURCE, TARGET)), other(SOURCE, TARGET))


@pytest.mark.parametrize("model", [translator, classifier])
def test_the_stored_arguments_build_the_same_model(model):
    one = model(norm="rms", heads=4, kv_heads=2)
    other = type(one)(**one.config).double().eval()
    other.load_state_dict(one.state_dict())
    given = (SOURCE, TARGET) if isinstance(one, tfzoo.Transformer) else (SOURCE,)
    close(other(*given), one(*given))
    assert other.config == one.config


PARTS = [
    {},
    {"norm": "rms", "position": "rotary"},
    {"attention": "additive", "position": "alibi"},
    {"attention": "euclidean", "position": "relative_bias"},
    {"attention": "cosine", "position": "learned", "max_length": 64},
    {"attention": "bilinear", "position": "none", "norm": "none"},
]


@pytest.mark.parametrize("parts", sampled(PARTS, [PARTS[3]]), ids=str)
def test_a_layer_is_compiled_in_one_graph_for_all_lengths(parts):
    """One graph, and not another one for each length."""
    model = classifier(layers=1, **parts)
    run, graphs = counted(model.encode)
    for n in (5, 9, 15, 16, 17, 33):
        text = torch.randint(4, 20, (2, n))
        text[1, n // 2 :] = 0
        close(run(text), model.encode(text))
    assert len(graphs) == 1


KINDS = ("attention", "norm", "position", "feedforward")
PADDINGS = ("none", "right", "left")
READS = "mixture"
"""Its experts are told how many tokens each has."""
NAMES = {kind: [name for name in registry(kind).names() if name != READS] for kind in KINDS}
TOGETHER = [
    {kind: names[number % len(names)] for kind, names in NAMES.items()}
    for number in range(max(map(len, NAMES.values())))
]
"""Models with another component of each kind, in which every component occurs."""
TOGETHER += [
    {kind: name} for kind in ("weighting", "mixer", "residual") for name in registry(kind).names()
]


def on_the_device(**options):
    """A model and ids on ``meta``, which stands for a GPU: reading a value is an error."""
    options |= {"dropout": 0.1, "attention_dropout": 0.1, "max_length": 8, "layers": 1}
    with torch.device("meta"):
        model = tfzoo.Transformer(20, **{**TINY, **options, "allow": ["unrotatable-attention"]})
    return model, SOURCE.to("meta"), TARGET.to("meta")


def each_with_a_padding():
    """Models and paddings: by day each model with one of them, in turn."""
    pairs = [
        (number % len(PADDINGS) == place, parts, padding)
        for number, parts in enumerate(TOGETHER)
        for place, padding in enumerate(PADDINGS)
    ]
    return [
        pytest.param(
            *(parts, padding),
            id="-".join([*parts.values(), padding]),
            marks=[] if by_day else [pytest.mark.nightly],
        )
        for by_day, parts, padding in pairs
    ]


@pytest.mark.parametrize(("parts", "padding"), each_with_a_padding())
def test_an_encoder_reads_no_tensor_on_the_host(parts, padding):
    model, source, _ = on_the_device(encoder=parts)
    model.train().encode(source, mask=mask_of(source, padding)).sum().backward()
    with torch.no_grad():
        model.eval().encode(source, mask=mask_of(source, padding))


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_step_of_a_translator_reads_no_tensor_on_the_host(padding):
    model, source, target = on_the_device()
    out = model.train()(source, target, source_mask=mask_of(source, padding))
    out.sum().backward()
    with torch.no_grad():
        cache = model.eval().init_cache(source, mask=mask_of(source, padding))
        model.decode_step(target[:, 0], cache)


@pytest.mark.parametrize("parts", TOGETHER, ids=lambda parts: "-".join(parts.values()))
def test_nothing_is_changed_in_place_through_a_view(parts):
    """The backward would copy what the view is of, and its gradient twice."""
    options = {**TINY, "max_length": 8, "layers": 1, "allow": ["unrotatable-attention"]}
    model = tfzoo.Transformer(20, **options, encoder=parts)
    reached, names = [model.train().encode(SOURCE).grad_fn], set[str]()
    for node in reached:
        names.add(node.name())
        reached += {one for one, _ in node.next_functions if one is not None} - {*reached}
    assert not {name for name in names if "CopySlices" in name}


def counted(function: Any, fullgraph: bool = True) -> tuple[Any, list[Any]]:
    """A function, or a module, whose graphs run as they were traced, and the list of them."""
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, fullgraph=fullgraph, dynamic=True, backend=backend), graphs
