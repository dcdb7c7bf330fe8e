"""tfzoo completion SHELL: print a completion script."""

from __future__ import annotations

from argparse import Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import registry
from tfzoo.base.terminal import print_verbatim
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.commands.main import command, summaries
from tfzoo.config import sources
from tfzoo.models import architectures

SHELLS = ("bash", "zsh")
RUNS = ("RUN", "WHAT")
"""What a parser calls a first argument that is a run."""

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


def make_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("completion", "Print a script that completes tfzoo's words.", EPILOG)
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=" or ".join(SHELLS))
    return parser


def run(given: Namespace) -> int:
    """Print the script of a shell."""
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
    parsers = {name: command(name)[0] for name in summaries()}
    options = [
        f'      {name}) found="{" ".join(parser.options())}" ;;' for name, parser in parsers.items()
    ]
    first = {name: parser.first_word() for name, parser in parsers.items()}
    return SCRIPT % {
        "commands": " ".join(parsers),
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
