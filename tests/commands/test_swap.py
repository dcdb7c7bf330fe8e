"""Every component can be chosen on the command line and trains, or is refused with its reason."""

from itertools import product

import pytest

import tfzoo
from tests.daily import sampled
from tests.results import summary
from tests.tiny import numbers
from tfzoo.base.registry import describe
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("no_pictures")
SMALL = numbers("--data.max_tokens 200 --trainer.max_steps 2", train=300, val=20, test=20, length=0)
WORDS = ["red", "green", "blue", "one", "two", "three"]


def refused_in_decoder(kind, name):
    """The rule by which a translator with this component is refused, from its traits."""
    traits = describe(kind, name).traits
    if traits & {"mixes_tokens:always", "mixes_tokens:training"}:
        return "leaky-norm"
    return "unknown-length" if "needs_length" in traits else None


KINDS = ("attention", "norm", "position", "feedforward")
REFUSED = [
    (kind, name)
    for kind in KINDS
    for name in tfzoo.list_components()[kind]
    if refused_in_decoder(kind, name)
]


def rows(*kinds, without=()):
    """The fewest models in which every component occurs: each has another one of each kind."""
    names = {
        kind: [name for name in tfzoo.list_components()[kind] if (kind, name) not in without]
        for kind in kinds
    }
    return [
        {kind: known[number % len(known)] for kind, known in names.items()}
        for number in range(max(map(len, names.values())))
    ]


def chosen(parts):
    """The options that choose components; any attention with any position."""
    options = [word for kind, name in parts.items() for word in (f"--model.{kind}", name)]
    return [*options, "--model.allow", "[unrotatable-attention]"]


SWAPPED = rows(*KINDS, without=REFUSED)


@pytest.mark.parametrize(
    "parts", sampled(SWAPPED, SWAPPED[::3]), ids=lambda parts: "-".join(parts.values())
)
def test_components_are_swapped_in_by_name(parts, own_folder):
    args = ["fit", "translation/numbers", "--run", "run", *SMALL, *chosen(parts)]
    assert main(args) == 0
    assert summary("run")["fit"]["steps"] == 2
    model = tfzoo.TranslationTask.load("run").model
    assert {kind: model.config[kind] for kind in parts} == parts


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A recipe of a classifier and its text."""
    folder = tmp_path_factory.mktemp("labelled")
    rows = [
        f"{a} {b} {c}\t{'colour' if a in WORDS[:3] else 'NUM'}\n"
        for a, b, c in product(WORDS, repeat=3)
    ]
    (folder / "train.tsv").write_text(f"text\tlabel\n{''.join(rows)}", "utf-8")
    (folder / "test.tsv").write_text(f"text\tlabel\n{''.join(rows[::7])}", "utf-8")
    (folder / "toy.yaml").write_text(
        "task: classification\nmodel: {dim: 16, heads: 2, layers: 1}\ntrainer: {max_steps: 2}\n",
        "utf-8",
    )
    return folder


def is_constant(parts):
    """Whether a classifier would give every text one class."""
    centred = "centres_texts" in describe("norm", parts["norm"]).traits
    return centred and "averages" in describe("pooling", parts["pooling"]).traits


CLASSIFIERS = [
    one
    for parts in rows(*KINDS, "pooling")
    for one in (
        [{**parts, "norm": "rms"}, {**parts, "pooling": "max"}] if is_constant(parts) else [parts]
    )
]


@pytest.fixture
def classify(labelled, own_folder):
    """Train a classifier of these parts; returns the exit code."""
    data = ["--data.root", str(labelled), "--data.tokenizer.vocab_size", "280"]
    given = ["fit", str(labelled / "toy.yaml"), *data, "--run", "run"]
    return lambda parts: main([*given, *chosen(parts)])


NOT_IN_A_DECODER = [parts for parts in CLASSIFIERS if not parts.items().isdisjoint(REFUSED)]


@pytest.mark.parametrize(
    "parts", sampled(CLASSIFIERS, NOT_IN_A_DECODER), ids=lambda parts: "-".join(parts.values())
)
def test_components_are_swapped_into_a_classifier_by_name(parts, classify):
    """By day those that a decoder cannot have."""
    assert classify(parts) == 0
    assert summary("run")["fit"]["steps"] == 2
    assert 0 <= summary("run")["fit"]["best"]["val/accuracy"] <= 1
    model = tfzoo.ClassificationTask.load("run").model
    assert {kind: model.config[kind] for kind in parts} == parts
