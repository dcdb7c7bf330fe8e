"""tfzoo completion SHELL: print a completion script."""

from argparse import ArgumentParser, Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.loading import require
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.main import COMMANDS, command
from tfzoo.config.config import class_names, sections
from tfzoo.config.recipe import CLASSES, TOP, packaged_recipes, packaged_sweeps
from tfzoo.models import architectures

SHELLS = ("bash", "zsh", "tcsh")
EPILOG = """\
  tfzoo completion bash > ~/.local/share/bash-completion/completions/tfzoo
  tfzoo completion zsh > ~/.zsh/completions/_tfzoo

Commands, their options, packaged recipes, keys of recipes and names of components are completed.
"""


def completion_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "completion", run, "Print a script that completes tfzoo's words.", EPILOG
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return parser


def run(given: Namespace) -> int:
    """Print the script of a shell."""
    shtab = require("shtab", "completion")
    print_result(shtab.complete(every_command(), given.shell).rstrip())
    return 0


def every_command() -> ArgumentParser:
    """One parser of all commands, with the words that can follow each."""
    recipes, sweeps = packaged_recipes(), packaged_sweeps()
    tasks = [registry("task").entry(name).cls for name in registry("task").own_names()]
    keys = {
        f"{name}.{key}": section.slots.get(key)
        for task in tasks
        for name, section in sections(task).items()
        for key in section.hints
    }
    keys |= dict.fromkeys(TOP)
    parts = sorted({part for kind in KINDS for part in registry(kind).names()})
    words = {
        "sweep": {"FILE": sweeps},
        "show": {"NAME": parts},
        "check": {"NAME": parts},
        "architectures": {"NAME": architectures.names()},
        "recipes": {"NAME": recipes + sweeps},
    }
    whole = ArgumentParser("tfzoo", add_help=False)
    commands = whole.add_subparsers(dest="command", parser_class=ArgumentParser)
    for name, (_, summary) in COMMANDS.items():
        parser = command(name)
        for key, kind in keys.items() if parser.others == ("--",) else ():
            choices = registry(kind).names() if kind else None
            if key.removeprefix("trainer.") in CLASSES:
                choices = class_names(key.removeprefix("trainer."))
            parser.add_argument(f"--{key}", choices=choices, help=kind or "of the recipe")
        parser.offer({"RECIPE": recipes, "KIND": list(KINDS), **words.get(name, {})})
        commands.add_parser(name, parents=[parser], add_help=False, help=summary)
    return whole
