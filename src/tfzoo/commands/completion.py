"""tfzoo completion SHELL: print a completion script."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_verbatim
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.main import main, summaries
from tfzoo.config import sources
from tfzoo.models import architectures

SHELLS = ("bash", "zsh")
RUNS = ("RUN", "WHAT")
"""What ``--help`` calls a first argument that is a run."""

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
      %(of_recipes)s) found="%(recipes)s" ;;
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
    given = parser.parse_intermixed_args(args)
    start = (
        "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"
        if given.shell == "zsh"
        else ""
    )
    print_verbatim(start + script().rstrip())
    return 0


def script() -> str:
    """The script, for bash; zsh runs it with ``bashcompinit``."""
    kinds = {kind: " ".join(registry(kind).names()) for kind in KINDS}
    values = [f'    --*.{kind} | {kind}) found="{names}" ;;' for kind, names in kinds.items()]
    values.append(f'    --model.like) found="{" ".join(architectures.names())}" ;;')
    helps = {name: help_of(name) for name in summaries()}
    options = [f'      {name}) found="{" ".join(options_in(helps[name]))}" ;;' for name in helps]
    first = {name: first_argument(text) for name, text in helps.items()}
    return SCRIPT % {
        "commands": " ".join(helps),
        "values": "\n".join(values),
        "options": "\n".join(options),
        "architectures": " ".join(architectures.names()),
        "recipes": " ".join(sources.packaged_recipes()),
        "sweeps": " ".join(sources.packaged_sweeps()),
        "kinds": " ".join(KINDS),
        "shells": " ".join(SHELLS),
        "of_recipes": " | ".join(name for name in first if first[name] == "RECIPE"),
        "of_runs": " | ".join(name for name in first if first[name] in RUNS),
    }


def help_of(command: str) -> str:
    """The text of a command's ``--help``."""
    text = io.StringIO()
    with redirect_stdout(text):
        main([command, "--help"])
    return text.getvalue()


def first_argument(text: str) -> str:
    """The name of the first positional argument in a ``--help``; "" if there is none."""
    usage = re.sub(r"\[[^]]*\]", "", text.partition("\n\n")[0])
    return next(iter(re.findall(r"\b[A-Z]+\b", usage)), "")


def options_in(text: str) -> list[str]:
    """The options that a ``--help`` lists, and the sections of a recipe."""
    found = {*re.findall(r"^\s+(--[a-z_-]+)\b(?!\.)", text, re.MULTILINE), "--help"}
    return [*sorted(found), *(f"--{name}." for name in sections_in(text))]


def sections_in(text: str) -> list[str]:
    """The sections of a recipe that the ``--help`` of ``fit`` lists; none for other commands."""
    listed = re.search(r"sections: (.+?)\n  --", text, re.DOTALL)
    return [] if listed is None else re.findall(r"\w+", re.sub(r"\([^)]*\)", "", listed[1]))
