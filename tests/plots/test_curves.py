"""Curves are the logged numbers by step, of one or several runs, whatever is missing."""

import csv
import math
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import yaml

from tfzoo.errors import BadRun, UnknownName
from tfzoo.plots.curves import curves_figure, draw_curves, read_runs


def make(folder, rows=8, monitor="val/chrf", **columns):
    """A run that logged at every second step, and what ``columns`` say; None: nothing."""
    folder.mkdir(parents=True)
    logged = {
        "train/loss": [5.0 / (row + 1) for row in range(rows)],
        "train/lr": [1e-3] * rows,
        "val/loss": [None if row % 2 else 4.0 / (row + 1) for row in range(rows)],
        "val/chrf": [None if row % 2 else 10.0 + row for row in range(rows)],
        **{name.replace("__", "/"): values for name, values in columns.items()},
    }
    with (folder / "metrics.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["step", *logged, "epoch", "test/chrf"])
        for row in range(rows):
            values = [values[row] for values in logged.values()]
            writer.writerow([2 * row + 2, *values, 0, 99 if row == rows - 1 else None])
    checkpoint = {"monitor": monitor} if monitor else {}
    (folder / "config.yaml").write_text(yaml.safe_dump({"checkpoint": checkpoint}), "utf-8")
    return folder


def panels(figure):
    """The points of each line by title of its panel; a circle is a line of one point."""
    return {
        axes.get_title(loc="left"): [
            list(zip(*map(list, line.get_data()), strict=True)) for line in axes.lines
        ]
        for axes in figure.axes
        if axes.get_visible()
    }


def legend(figure):
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def test_one_run_has_losses_score_and_learning_rate_by_optimiser_step(tmp_path):
    figure = curves_figure(read_runs([make(tmp_path / "numbers/1")]))
    drawn = panels(figure)
    assert list(drawn) == ["loss (nats)", "val/chrf", "learning rate"]
    train, val = drawn["loss (nats)"]
    assert train[:2] == [(2, 5.0), (4, 2.5)]
    assert val[:2] == [(2, 4.0), (6, 4.0 / 3)]
    assert drawn["val/chrf"][1] == [(14, 16.0)], "the circle"
    assert legend(figure) == ["train/loss", "val/loss", "best checkpoint: 16 at step 14"]
    assert figure.get_suptitle() == "numbers/1"
    assert {axes.get_xlabel() for axes in figure.axes} == {"optimiser steps"}


def test_several_runs_have_a_line_each_and_the_names_that_tell_them_apart(tmp_path):
    folders = [make(tmp_path / "runs" / name) for name in ("a/1", "a/2", "b/1")]
    figure = curves_figure(read_runs([*folders, folders[0]]))
    drawn = panels(figure)
    assert list(drawn) == ["train/loss (nats)", "val/loss (nats)", "val/chrf", "learning rate"]
    assert len(drawn["train/loss (nats)"]) == 3
    assert legend(figure) == ["runs/a/1", "runs/a/2", "runs/b/1", "best checkpoint"]
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) > 1]
    assert len({line.get_color() for line in lines}) == 3


def test_a_monitored_minimum_is_the_best(tmp_path):
    folder = make(tmp_path / "run", val__loss=[0.5, None, 1, None, 2, None, 1, None])
    config = {"checkpoint": {"monitor": "val/loss", "mode": "min"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    file = folder / "metrics.csv"
    file.write_text(file.read_text("utf-8").replace("\n2,", "\n0,"), "utf-8")
    assert read_runs([folder])[0].best() == (14, 1.0), "the last of equal checkpoints"


def test_values_that_are_not_finite_are_a_gap(tmp_path):
    nan = [5.0, 4.0, math.nan, math.inf, 3.0, math.nan, math.nan, math.nan]
    (run,) = read_runs([make(tmp_path / "run", train__loss=nan, val__chrf=[math.nan] * 8)])
    drawn = curves_figure([run]).axes[0].lines[0].get_ydata()
    assert np.isfinite(drawn).tolist() == [True, True, False, False, True, False, False, False]
    assert run.best() is None


def test_metrics_are_chosen_by_name(tmp_path):
    (run,) = read_runs([make(tmp_path / "run")])
    assert list(panels(curves_figure([run], ["val/loss", "train/lr"]))) == [
        "val/loss (nats)",
        "learning rate",
    ]
    with pytest.raises(UnknownName, match="Did you mean 'val/chrf'"):
        curves_figure([run], ["val/chrv"])


def test_what_is_no_run_is_told(tmp_path):
    make(tmp_path / "runs/1")
    for path, message in (
        ("runs/2", "no run at .*runs/2. Runs there are: .*1"),
        ("runs", "no metrics.csv with values of training; runs in it: .*1"),
        ("runs/1/config.yaml", "no metrics.csv with values of training"),
    ):
        with pytest.raises(BadRun, match=message):
            read_runs([tmp_path / path])


def logger():
    """One of TensorBoard, whose writer holds what it was given."""
    return SimpleNamespace(experiment=Mock(spec=["add_image", "flush"]))


def test_the_picture_of_a_run_goes_to_its_folder_and_to_loggers(tmp_path):
    folder, board = make(tmp_path / "run"), logger()
    draw_curves(folder, [object(), board], 16)
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    (name, picture, step), options = board.experiment.add_image.call_args
    assert (name, picture.ndim, step, options) == ("curves", 3, 16, {"dataformats": "HWC"})
