"""Every component can be chosen on the command line and trains, or is refused with its reason."""

import pytest

import tfzoo
from tests.daily import sampled
from tests.results import summary
from tests.tiny import numbers
from tfzoo.base.registry import describe
from tfzoo.commands.main import main

pytestmark = pytest.mark.usefixtures("no_pictures")
SMALL = numbers("--data.max_tokens 200 --trainer.max_steps 2", train=300, val=20, test=20, length=0)


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
