"""Why scores are scaled: measured on random queries and keys."""

import math

import pytest

from tfzoo.base.registry import registry
from tfzoo.errors import BadOption, UnknownName
from tfzoo.plots import saturation, saturation_figure
from tfzoo.plots.saturation import measure_saturation


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(saturation, "WIDTHS", (4, 16, 64))
    monkeypatch.setattr(saturation, "QUERIES", 64)


def test_unscaled_scores_spread_with_the_root_of_the_width_and_saturate_the_softmax():
    plain, scaled = (measure_saturation(name) for name in ("dot_product", "scaled_dot_product"))
    assert plain.spread == pytest.approx([2, 4, 8], rel=0.1)
    assert scaled.spread == pytest.approx([1, 1, 1], rel=0.1)
    assert plain.largest[-1] > 0.7 > 0.1 > scaled.largest[-1]
    assert plain.entropy[-1] < 1 < 4 < scaled.entropy[-1] < math.log(128)


def test_every_attention_is_drawn_and_equal_ones_share_a_line():
    figure = saturation_figure(keys=16)
    (legend,) = figure.legends
    shown = ", ".join(text.get_text() for text in legend.get_texts())
    assert {name.split(" (")[0] for name in shown.split(", ")} == set(registry("attention").names())
    assert len(legend.get_texts()) < len(registry("attention").names())
    lines = [len(axes.lines) for axes in figure.axes]
    assert lines == [len(legend.get_texts()) + extra for extra in (0, 1, 1)]


def test_an_attention_is_drawn_with_its_options():
    figure = saturation_figure([{"name": "cosine", "scale": 1.0}, "cosine"], keys=16)
    first, second = (line.get_ydata() for line in figure.axes[0].lines)
    assert [b / a for a, b in zip(first, second, strict=True)] == pytest.approx([10, 10, 10])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "cosine, scale 1.0",
        "cosine",
    ]
    for wrong, error in (
        (["additiv"], UnknownName),
        ([{"name": "cosine", "scal": 1}], BadOption),
    ):
        with pytest.raises(error):
            saturation_figure(wrong)
    with pytest.raises(BadOption, match="keys=1 must be"):
        saturation_figure(keys=1)
