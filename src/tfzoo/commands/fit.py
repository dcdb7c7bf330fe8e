"""tfzoo fit RECIPE: train."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfzoo.commands.job import Job
from tfzoo.commands.output import near, put, quiet, say, table
from tfzoo.commands.packaged import find
from tfzoo.commands.recipe import Arguments, Draft, absolute, draft, split
from tfzoo.commands.tree import read
from tfzoo.errors import BadRecipe, TfzooError

HELP = """\
usage: tfzoo fit RECIPE [--run FOLDER] [--from RUN] [--SECTION.KEY VALUE ...] [--config FILE] [--print_config] [--trust]

Train what a recipe describes. RECIPE is a packaged name (tfzoo recipes) or the path of a YAML file.

  --run FOLDER      where everything about this training lies; default runs/<recipe>/<n>. The folder of a run that was stopped, with the
                    same recipe and options: it goes on where its last checkpoint stood
  --from RUN        begin with the weights of another run, or of one of its checkpoints, as far as they fit
  --SECTION.KEY V   any value of the recipe: --model.norm rms --model.norm.eps 1e-6 --trainer.max_steps 1000
                    sections: model, data, optim, compute, trainer (Lightning's Trainer), checkpoint (its ModelCheckpoint),
                    and search (of a translator) or loss (of a classifier)
  --seed N          of parameters, batches and dropout
  --config FILE     a YAML laid over the recipe; may be repeated
  --print_config    print the resolved recipe, train nothing
  --trust           let the recipe name classes outside Lightning: that runs their code

tfzoo fit RECIPE --help    every key with its type and default
tfzoo list / show          the components that a slot can take

  tfzoo fit translation/numbers --model.attention additive --model.position relative_bias
"""
FLAGS = ("help", "print_config", "trust")
TRAINERS = {"trainer", "checkpoint"}
"""Sections that Lightning checks."""


def run(args: Sequence[str]) -> int:
    """Train, or print the resolved recipe or its keys."""
    arguments = split(args, FLAGS)
    if not arguments.words:
        if arguments.take("help") is not None:
            put(HELP.rstrip())
            return 0
        raise BadRecipe(
            "fit needs a recipe: tfzoo fit translation/numbers (tfzoo recipes lists all)"
        )
    if len(arguments.words) > 1:
        raise BadRecipe(f"one recipe a time, but also given: {' '.join(arguments.words[1:])}")
    folder, source = arguments.take("run"), arguments.take("from")
    shows, helps = arguments.take("print_config"), arguments.take("help")
    trust = arguments.take("trust") is not None
    path = find(arguments.words[0])
    tree = read(path)
    if {"recipe", "axes"} & tree.keys():
        raise BadRecipe(
            f"{path} varies a recipe, which one training cannot: tfzoo sweep {arguments.words[0]}"
        )
    untried = None if helps is not None else {"data"} if shows is not None else set()
    job = prepare([(tree, _shown(path, arguments.words[0]))], arguments, trust, path, untried)
    if helps is not None:
        put(job.parser.format_help())
        return 0
    if shows is not None:
        import yaml

        put(yaml.safe_dump(job.recipe, sort_keys=False, allow_unicode=True).rstrip())
        return 0
    return train(job, folder, list(args), source)


def prepare(
    layers: Sequence[tuple[Mapping[str, Any], str]],
    arguments: Arguments,
    trust: bool,
    path: Path,
    untried: Collection[str] | None = (),
) -> Job:
    """Parse and check everything that can be checked without reading data; all sections but
    ``untried`` (None: all) are built once.

    Raises:
        BadRecipe, BadOption, UnknownName, Clash: one line that says what is wrong and where.
    """
    if trust:
        _import_beside(path)
    task, found = draft(layers, arguments, trust)
    from tfzoo.commands import trainer

    quiet()
    used = trainer.parser(found, trust)
    values = trainer.check(used, found)
    recipe = absolute(trainer.resolved(used, values))
    if untried is not None:
        _try(
            found.known.keys() - TRAINERS - set(untried),
            task.sizes(data=recipe["data"]),
            recipe,
            found,
        )
    return Job(path.stem, task, found, used, values, recipe)


def _try(
    tried: Collection[str], sizes: Mapping[str, Any], recipe: Mapping[str, Any], found: Draft
) -> None:
    """Build model and settings once, without memory: their constructors refuse what cannot be."""
    import torch

    supplied = {"model": sizes, "data": {"seed": recipe["seed"]}}
    for section in [name for name in found.known if name in tried]:
        try:
            with torch.device("meta"):
                found.known[section].cls(**supplied.get(section, {}), **recipe[section])
        except TfzooError as error:
            given = {place for key, place in found.origin.items() if key.startswith(f"{section}.")}
            files = sorted(place for place in given if not place.startswith("--"))
            error.args = (
                (f"{files[0]}: {section}: {error}",)
                if files and len(given) == len(files)
                else (f"{section}: {error}",)
            )
            raise


def train(job: Job, given: str | None, args: list[str], source: str | None = None) -> int:
    """Train, validate, test; returns the exit code. In a run's own folder go on with it, else begin
    with ``source``'s weights.
    """
    from tfzoo.commands.trainer import launching
    from tfzoo.commands.training import Training, refuse
    from tfzoo.runs import config
    from tfzoo.runs.folder import choose, rank

    folder = choose(job.name, given)
    try:
        found = going_on(folder, job)
        refuse(job, folder)
        data = job.task.Data(**job.recipe["data"], seed=job.recipe["seed"])
        data.prepare_data()
        data.setup("fit")
        task = job.task.build(job.recipe, getattr(data, job.task.tokenizer_of_data))
        task.check(data)
        taken = begin(task, source) if source and not found else []
        training = Training(job, folder, task, data, args, found)
    except BaseException:
        with suppress(
            OSError
        ):  # nothing was trained: leave no empty folder, but keep one with something in it
            if not rank():
                folder.rmdir()
                folder.parent.rmdir()
        raise
    if not rank():
        config.write(folder, job.recipe)
    say(f"run: {near(folder)}")
    if found:
        say(f"goes on from {near(found)}")
    for line in taken:
        say(f"from: {line}")
    say(data.describe())
    say(f"model: {training.parameters:,} parameters")
    with launching(["fit", *args]):
        code = training.run()
    try:
        rows = training.rows()
        table(
            [(name, value) for name, value in rows],
            f"{job.recipe['task']} {job.name}: {training.ended}",
        )
        if line := task.verdict(data, training.tested):
            put(line)
    except Exception:  # the training is what counts
        traceback.print_exc()
    return code


def going_on(folder: Path, job: Job) -> Path | None:
    """The checkpoint to go on from, if the folder is that of a run with one.

    Raises:
        BadRun: the run has another configuration, or checkpoints of which none can be read.
    """
    from tfzoo.runs import checkpoints, config
    from tfzoo.runs.folder import rank

    found = checkpoints.newest(folder)
    if found or (
        not rank() and (folder / config.FILE).is_file()
    ):  # another process may be just writing it
        config.check(folder, job.recipe)
    if not found:
        return None
    path, passed_over = found
    for line in passed_over:
        say(f"passed over: {line}")
    return path


def begin(task: Any, source: str) -> list[str]:
    """Give a new task the weights of another run; returns what is to be said of it.

    Raises:
        BadRun: no such run, or nothing of it fits.
    """
    from tfzoo.runs import checkpoints
    from tfzoo.runs.weights import adopt

    path = checkpoints.resolve(source)
    return adopt(task, checkpoints.read(path), task.tokenizer_state(), near(path))


def _shown(path: Path, asked: str) -> str:
    return str(path) if Path(asked).is_file() else f"{asked.removesuffix('.yaml')}.yaml"


def _import_beside(path: Path) -> None:
    """A trusted recipe may name classes of modules beside it."""
    import sys

    beside = str(path.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
