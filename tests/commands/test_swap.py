"""Every component of a translator can be chosen on the command line, trains and is loaded again."""

import pytest

import tfzoo
from tests.daily import sampled
from tests.results import summary
from tests.testing.rules import refused_by
from tests.tiny import numbers
from tfzoo.commands.main import main

KINDS = ("attention", "norm", "position", "feedforward")
SMALL = numbers("--data.max_tokens 200 --trainer.max_steps 2", train=300, val=20, test=20, length=0)


def rows():
    """The fewest models in which every component occurs that is not refused by itself."""
    known = [
        [
            (kind, name)
            for name in tfzoo.list_components()[kind]
            if not refused_by({"side": "translator", kind: name})
        ]
        for kind in KINDS
    ]
    return [dict(one[row % len(one)] for one in known) for row in range(max(map(len, known)))]


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    "parts", sampled(rows(), rows()[::4]), ids=lambda parts: "-".join(parts.values())
)
def test_components_are_swapped_in_by_name(parts, own_folder):
    chosen = [f"--model.{kind}={name}" for kind, name in parts.items()]
    chosen.append("--model.allow=[unrotatable-attention]")  # any attention with any position
    assert main(["fit", "translation/numbers", "--run", "run", *SMALL, *chosen]) == 0
    assert summary("run")["fit"]["steps"] == 2
    model = tfzoo.TranslationTask.load("run").model
    assert {kind: model.config[kind] for kind in parts} == parts
