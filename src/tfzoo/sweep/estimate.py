"""How long the remaining runs of a sweep take, by what completed runs took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from tfzoo.sweep import state
from tfzoo.sweep.state import Run


def seconds_left(
    left: Iterable[Run],
    completed: Iterable[tuple[Run, float]],
    jobs: int,
    elapsed: Mapping[str, float] | None = None,
) -> float | None:
    """Seconds until all of ``left`` are done, ``jobs`` at a time; None if no run is completed.

    A run takes the mean time of its cell's completed runs, or of all if its cell has none.
    ``elapsed`` are the seconds since the runs that are training have started, by name.
    """
    by_cell: dict[str, list[float]] = defaultdict(list)
    for run, seconds in completed:
        by_cell[run.cell.name].append(seconds)
    if not by_cell:
        return None
    mean = fmean(seconds for found in by_cell.values() for seconds in found)
    gone, each = elapsed or {}, [0.0]
    for run in left:
        found = by_cell.get(run.cell.name)
        each.append(max(0.0, (fmean(found) if found else mean) - gone.get(run.name, 0.0)))
    return max(sum(each) / jobs, *each)  # no run is faster for other processes being idle


def taken(folder: Path) -> float:
    """Seconds that a run took, start-up included; its training time, if the sweep was killed
    before it recorded them.
    """
    wall = state.wall_seconds(folder)
    return state.training_seconds(folder) if wall is None else wall


def format_clock(seconds: float) -> str:
    """``0:10:00``"""
    return str(timedelta(seconds=round(seconds)))


def describe(completed: Sequence[Run], left: Sequence[Run], jobs: int, prunes: bool) -> str:
    """The time that the remaining runs take, and where the number comes from."""
    times = [(run, taken(run.folder)) for run in completed]
    total = seconds_left(left, times, jobs)
    if total is None:
        hint = "" if prunes else "; run --cell 0 alone to get one"
        return f"no estimate of the time: no run is completed yet{hint}"
    each = format_clock(fmean(seconds for _, seconds in times))
    less = ", less what is pruned" if prunes else ""
    return (
        f"about {format_clock(total)} with --jobs {jobs}{less}: {each} a run, the mean of "
        f"{len(times)} completed runs, start-up included"
    )
