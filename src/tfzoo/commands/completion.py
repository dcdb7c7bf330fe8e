"""tfzoo completion SHELL: print a completion script."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from importlib import import_module

from tfzoo import architectures
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config import packaged
from tfzoo.kinds import KINDS
from tfzoo.registry import registry
from tfzoo.terminal import print_result

SHELLS = ("bash", "zsh")
OF_RUNS = (
    "validate",
    "test",
    "predict",
    "translate",
    "classify",
    "attention",
    "plot",
    "serve",
    "export",
)
"""Commands whose first argument is a run."""
SECTIONS = ("model", "data", "optim", "compute", "trainer", "checkpoint", "search", "loss")

EPILOG = """\
  tfzoo completion bash > ~/.local/share/bash-completion/completions/tfzoo
  tfzoo completion zsh > ~/.tfzoo-completion && echo 'source ~/.tfzoo-completion' >> ~/.zshrc

Commands, their options, packaged recipes, names of components and run folders are completed.
"""

SCRIPT = """\
_tfzoo() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} found= files=
  COMPREPLY=()
  if [[ $COMP_CWORD == 1 ]]; then
    COMPREPLY=($(compgen -W "%(commands)s" -- "$word"))
    return
  fi
  case $before in
%(values)s
  esac
  if [[ -z $found && $word == -* ]]; then
    case ${COMP_WORDS[1]} in
%(options)s
    esac
  elif [[ -z $found ]]; then
    files=yes
    case ${COMP_WORDS[1]} in
      fit) found="%(recipes)s" ;;
      recipes) found="%(recipes)s %(sweeps)s" ;;
      architectures) found="%(architectures)s" ;;
      sweep) found="%(sweeps)s" ;;
      list | show | check) [[ $COMP_CWORD == 2 ]] && found="%(kinds)s" ;;
      completion) found="%(shells)s" ;;
      %(of_runs)s)
        found=$(compgen -G 'runs/*/config.yaml'; compgen -G 'runs/*/*/config.yaml')
        found=${found//\\/config.yaml/} ;;
      report) found=$(compgen -G 'runs/*/cells.json'); found=${found//\\/cells.json/} ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
  [[ ${COMPREPLY[0]} == *. ]] && compopt -o nospace 2> /dev/null
  [[ -n $files ]] && COMPREPLY+=($(compgen -f -- "$word"))
}
complete -o filenames -F _tfzoo tfzoo
"""


def run(args: list[str]) -> int:
    """Print the script of a shell."""
    parser = CommandParser("completion", "Print a script that completes tfzoo's words.", EPILOG)
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    given = parser.parse(args)
    if given is None:
        return 0
    start = (
        "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"
        if given.shell == "zsh"
        else ""
    )
    print_result(start + script().rstrip())
    return 0


def script() -> str:
    """The script, for bash; zsh runs it with ``bashcompinit``."""
    from tfzoo.commands.main import COMMANDS

    kinds = {kind: " ".join(registry(kind).names()) for kind in KINDS}
    values = [f'    --*.{kind} | {kind}) found="{names}" ;;' for kind, names in kinds.items()]
    values.append(f'    --model.like) found="{" ".join(architectures.names())}" ;;')
    options = [f'      {name}) found="{" ".join(options_of(name))}" ;;' for name in COMMANDS]
    return SCRIPT % {
        "commands": " ".join(COMMANDS),
        "values": "\n".join(values),
        "options": "\n".join(options),
        "architectures": " ".join(architectures.names()),
        "recipes": " ".join(packaged.recipes()),
        "sweeps": " ".join(packaged.sweeps()),
        "kinds": " ".join(KINDS),
        "shells": " ".join(SHELLS),
        "of_runs": " | ".join(OF_RUNS),
    }


def options_of(command: str) -> list[str]:
    """The options that a command's ``--help`` lists, and the sections of a recipe for ``fit``."""
    if command == "completion":
        return ["--help"]
    text = io.StringIO()
    with redirect_stdout(text):
        import_module(f"tfzoo.commands.{command}").run(["--help"])
    found = {*re.findall(r"^\s+(--[a-z_-]+)\b(?!\.)", text.getvalue(), re.MULTILINE), "--help"}
    sections = [f"--{name}." for name in SECTIONS] if command == "fit" else []
    return [*sorted(found), *sections]
