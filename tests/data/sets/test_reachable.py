"""Reachable keeps its word: its labels are the names that a walk of so many arrows comes to."""

import pytest

from tfzoo.data.sets.reachable import Reachable


@pytest.mark.parametrize("steps", [1, 3])
def test_the_labels_are_the_names_that_a_walk_comes_to(steps):
    for text, labels in Reachable(steps=steps, train=200).splits(0)["train"]:
        question, *pairs = text.split(" ")
        arrows = [tuple(pair.split(">")) for pair in pairs]
        assert len(set(arrows)) == 8
        ends, seen = {question[0]}, set()
        for _ in range(steps):
            ends = {end for start, end in arrows if start in ends}
            seen |= ends
        assert labels == ",".join(sorted(seen - {question[0]}))
