"""A trained run, opened by a command: its checkpoint, its own configuration, and what the command
line changes in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfzoo.config.arguments import FLAGS, parse_arguments
from tfzoo.config.config import Config, resolve
from tfzoo.config.merge import Layer
from tfzoo.config.sections import task_class
from tfzoo.errors import TfzooError
from tfzoo.runs import checkpoints, summary
from tfzoo.runs.folder import rank
from tfzoo.terminal import format_number, notify, print_result, print_table, relative_path


@dataclass
class Trained:
    """The task of a checkpoint, ready, and the job that it was trained by with what was changed."""

    path: Path
    config: Config
    task: Any
    args: list[str]
    own: Mapping[str, str | None]

    def data(self) -> Any:
        """The data of the run, prepared with the run's own tokenizer."""
        data = self.config.task.Data(**self.config.recipe["data"], seed=self.config.recipe["seed"])
        setattr(data, self.task.tokenizer_of_data, self.task.tokenizer)
        data.prepare_data()
        data.setup("test")
        return data

    def record(self, command: str, section: Mapping[str, Any]) -> None:
        """Put a section into the summary of the run that the checkpoint lies in, if it does."""
        folder = checkpoints.folder_of(self.path)
        if folder and not rank():
            facts = {"ended": "completed", **section, "checkpoint": str(self.path.absolute())}
            summary.write(
                folder,
                command,
                {
                    **facts,
                    "peak_memory": summary.peak_memory(),
                    **summary.environment([command, *self.args]),
                },
            )


def open_run(
    command: str, args: list[str], text: str, options: Sequence[str] = ()
) -> Trained | None:
    """The run that the first word names; None after ``--help``. ``options`` are the command's own.

    Raises:
        BadRun: no such run, or a damaged checkpoint.
        BadRecipe: a bad option, or one that would change the model.
    """
    arguments = parse_arguments(args, FLAGS)
    if arguments.take("help") is not None:
        print_result(f"usage: tfzoo {command} RUN [--SECTION.KEY VALUE ...]\n\n{text}")
        return None
    trust = arguments.take("trust") is not None
    taken = {name: arguments.take(name) for name in options}
    if len(arguments.words) != 1:
        raise TfzooError(
            f"{command} needs one run: its folder or a checkpoint, such as tfzoo {command} runs/numbers/1"
        )
    path = checkpoints.resolve(arguments.words[0])
    notify(f"checkpoint: {relative_path(path)}")
    checkpoint = checkpoints.read(path)
    for key, _ in arguments.options:
        if key.partition(".")[0] in {
            "model",
            "checkpoint",
            "task",
            "seed",
            *task_class(checkpoint["tfzoo"]["task"]).training_settings,
        }:
            raise TfzooError(
                f"--{key}: the run is trained; only how it is used and on what can differ (data, search, trainer)"
            )
        if key.startswith("data.tokenizer"):
            raise TfzooError(
                f"--{key} does not match the checkpoint, which has a tokenizer of its own: leave it out"
            )
    kept = checkpoint["tfzoo"]["recipe"]
    own = {**kept, "trainer": evaluation(kept.get("trainer") or {}), "checkpoint": {}}
    changed = {key for key, _ in arguments.options}
    recipe = Layer({"task": checkpoint["tfzoo"]["task"], **own}, str(path), path)
    config = resolve(recipe, arguments, trust)
    for section, key in (
        key.split(".")[:2]
        for key in sorted(changed)
        if "." in key and not key.startswith("trainer.")
    ):
        before, now = (own.get(section) or {}).get(key), config.recipe[section].get(key)
        if before != now:
            notify(f"{section}.{key}: {now!r} here, {before!r} in training")
    task = config.task.from_checkpoint(
        {**checkpoint, "tfzoo": {**checkpoint["tfzoo"], "recipe": config.recipe}}
    )
    return Trained(path, config, task, args, taken)


def evaluation(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """What of a training's Trainer also holds for using what it trained: on one device, with none
    of its callbacks.
    """
    return {
        "devices": 1,
        **{key: value for key, value in trainer.items() if key in ("precision", "accelerator")},
    }


def score(command: str, args: list[str], text: str) -> int:
    """Run Lightning's ``validate`` or ``test`` and say what it found."""
    trained = open_run(command, args, text)
    if trained is None:
        return 0
    from tfzoo.training import launcher, trainer
    from tfzoo.training.progress import Bar

    data = trained.data()
    used = trainer.make(trained.config, None, [Bar()])
    with launcher.launching([command, *args]):
        getattr(used, command)(trained.task, datamodule=data, verbose=False)
    found = {key: float(value) for key, value in used.callback_metrics.items()}
    if not found:
        raise TfzooError(f"{command}: the run's data has nothing to score")
    trained.record(command, {"scores": found})
    rows = [(key, format_number(value)) for key, value in sorted(found.items())]
    if folder := checkpoints.folder_of(trained.path):
        rows += [
            ("picture", relative_path(path))
            for path in (trained.task.save_figures(folder) if not rank() else ())
        ]
    print_table(rows, f"{command} {relative_path(trained.path)}")
    return 0
