"""tfzoo architectures [NAME]: published architectures as sums of parts."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.models import architectures


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "architectures",
        "List published architectures with their model and paper, or print the parts of one.",
        "Use one by `like: NAME` under `model:` in a recipe, --model.like NAME, or "
        'tfzoo.Transformer(..., like="NAME").',
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this architecture")
    return parser


def run(given: Namespace) -> int:
    """List architectures with their model and paper, or print one."""
    if given.name is not None:
        print_result(architectures.text(given.name).rstrip())
        return 0
    names = architectures.names()
    found = {name: architectures.architecture(name) for name in names}
    width, models = max(map(len, names)), max(len(one.model) for one in found.values())
    for name, one in found.items():
        print_result(f"{name:<{width}}  {one.model:<{models}}  {one.title}  [{one.paper}]")
    return 0
