"""What is in the package: components, published architectures, recipes."""

from argparse import Namespace

from tfzoo.base.kinds import KINDS
from tfzoo.base.registry import describe, list_components, registry
from tfzoo.base.terminal import aligned, print_result, print_table, progress
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.config.recipe import SWEEPS, find_recipe, header_of, packaged_recipes, packaged_sweeps
from tfzoo.errors import BadComponent, TfzooError
from tfzoo.models import architectures


def list_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("list", run_list, "List components with name, summary and paper.")
    parser.add_argument(
        "kind", nargs="?", metavar="KIND", help=f"one of {', '.join(KINDS)}; all when left out"
    )
    return parser


def run_list(given: Namespace) -> int:
    """Print names, summaries and papers."""
    for kind in [given.kind] if given.kind else KINDS:
        rows, papers = [], registry(kind).declared("paper")
        summaries = registry(kind).declared("about" if kind == "task" else "summary")
        for name in registry(kind).names():
            if name not in summaries:  # of another package, which does not say it in its source
                try:
                    entry = registry(kind).entry(name)
                    summaries[name], papers[name] = entry.summary, entry.paper
                except BadComponent as error:  # the others are still listed
                    summaries[name] = f"cannot be used: {error}"
            paper = f"  [{papers[name]}]" if papers.get(name) else ""
            rows.append((name, summaries[name] + paper))
        print_table(rows, kind)
    return 0


def show_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "show",
        show,
        "Formula, paper, options with types and defaults, and traits of one component.",
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", nargs="?", help="see tfzoo list KIND")
    return parser


def show(given: Namespace) -> int:
    """Print the entry of a component."""
    if given.name is None:
        found = [kind for kind, names in list_components().items() if given.kind in names]
        told = [f"tfzoo show {kind} {given.kind}" for kind in found] or ["tfzoo show KIND NAME"]
        raise TfzooError(f"NAME is missing: {' or '.join(told)} (tfzoo show --help)")
    print_result(str(describe(given.kind, given.name)))
    return 0


def architectures_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "architectures",
        run_architectures,
        "List published architectures with their model and paper, or print the parts of one.",
        "Use one by `like: NAME` under `model:` in a recipe, --model.like NAME, or "
        'tfzoo.Transformer(..., like="NAME").',
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="print this architecture")
    return parser


def run_architectures(given: Namespace) -> int:
    """List architectures with their model and paper, or print one."""
    if given.name is not None:
        print_result(architectures.text(given.name).rstrip())
        return 0
    found = {name: architectures.architecture(name) for name in architectures.names()}
    rows = [(name, one.model, f"{one.title}  [{one.paper}]") for name, one in found.items()]
    print_result("\n".join(aligned(rows)))
    return 0


def recipes_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "recipes",
        recipes,
        "List the packaged recipes and sweeps, or print one: tfzoo recipes NAME > mine.yaml",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="print this recipe; ablations: list the packaged sweeps",
    )
    return parser


def recipes(given: Namespace) -> int:
    """List recipes, or print one."""
    if given.name is None:
        print_table([(name, header_of(name)) for name in packaged_recipes()], "tfzoo fit ...")
        print_result(f"Sweeps, which vary a recipe: tfzoo recipes {SWEEPS}")
    elif given.name == SWEEPS:
        print_table([(name, header_of(name)) for name in packaged_sweeps()], "tfzoo sweep ...")
    else:
        print_result(find_recipe(given.name).read_text("utf-8").rstrip())
    return 0


def check_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser(
        "check",
        run_check,
        "Run the contract tests of one component, also of another package. Exit code 1 when a "
        "contract does not hold.",
        "docs/own-components.md says what is demanded.",
    )
    parser.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", metavar="NAME", help="see tfzoo list KIND")
    parser.add_argument("--all", action="store_true", help="a line for every contract")
    return parser


def run_check(given: Namespace) -> int:
    """Print the contracts that do not hold, or with ``--all`` every one. Returns 1 if one does not
    hold.
    """
    registry(given.kind).entry(given.name)
    from tfzoo.testing import check

    count = held = 0
    said = set[str]()
    with progress(f"checking {given.kind} {given.name}") as show:
        for result in check(given.kind, given.name):
            count, held = count + 1, held + result.ok
            if given.all or not (result.ok or result.message in said):
                said.add(result.message)
                word = "ok    " if result.ok else "FAILED"
                how = f": {result.message}" if result.message else ""
                print_result(f"{word}  {result.name}{how}")
            else:
                show(f"{count}, {result.name}")
    print_result(
        f"{given.kind} {given.name}: {held} of {count} contracts hold"
        + ("" if given.all else " (a reason stands here once; --all prints each contract)")
    )
    return int(held < count)
