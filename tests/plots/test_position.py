"""A picture of each positional encoding, whose lines are what its formula says."""

import numpy as np
import pytest

from tfzoo.base.registry import registry
from tfzoo.errors import BadOption
from tfzoo.plots import position_figure
from tfzoo.testing.subject import hooks

SMALL = {"dim": 16, "heads": 2, "length": 12}


def lines(figure, title):
    """The lines of the panel with this title."""
    (axes,) = (one for one in figure.axes if one.get_title(loc="left").startswith(title))
    return [line.get_data() for line in axes.lines if len(line.get_xdata()) > 2]


@pytest.mark.parametrize("name", registry("position").names())
def test_every_position_is_drawn_by_the_hooks_that_it_overrides(name):
    if not hooks(name):
        with pytest.raises(BadOption, match=f"position '{name}' does nothing"):
            position_figure(name, **SMALL)
        return
    figure = position_figure(name, **SMALL)
    titles = " ".join(axes.get_title(loc="left") for axes in figure.axes)
    assert {hook for hook in ("embed", "angles", "bias") if f"{hook}:" in titles} == hooks(name)
    assert sum(len(axes.images) for axes in figure.axes) >= len(hooks(name))
    assert all(np.isfinite(line.get_ydata()).all() for axes in figure.axes for line in axes.lines)


def test_scores_of_rotated_vectors_fall_as_the_formula_says():
    ((distance, score),) = lines(position_figure("rotary", **SMALL), "score of two equal")
    frequencies = 10000.0 ** -(np.arange(0, 16, 2) / 16)
    wanted = np.cos(np.arange(12)[:, None] * frequencies).mean(-1)
    np.testing.assert_allclose(score, wanted, atol=1e-6)
    assert distance.tolist() == list(range(12))
    ((_, slower),) = lines(position_figure({"name": "rotary", "base": 5e5}, **SMALL), "score of")
    assert (slower[1:] > score[1:]).all()


def test_sinusoids_are_as_similar_as_their_distance_says():
    figure = position_figure("sinusoidal", **SMALL)
    ((_, similarity),) = lines(figure, "similarity")
    frequencies = 10000.0 ** -(np.arange(0, 16, 2) / 16)
    wanted = np.cos(np.arange(12)[:, None] * frequencies).mean(-1)
    np.testing.assert_allclose(similarity, wanted, atol=1e-6)
    assert not any(axes.collections for axes in figure.axes if axes.lines), "no band: no spread"


def test_a_bias_is_drawn_by_head_and_a_decoder_has_no_later_keys():
    for causal in (False, True):
        (head, _) = lines(position_figure("alibi", **SMALL, causal=causal), "bias of")
        distance, bias = head
        assert distance.max() == (0 if causal else 11)
        assert distance.min() == -11
        np.testing.assert_allclose(bias, -np.abs(distance) / 16)
