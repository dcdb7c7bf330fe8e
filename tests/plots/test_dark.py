"""A saved picture is light or dark as the browser that shows it."""

import io

import matplotlib.image
import pytest
import torch

from tfzoo.plots.confusion import confusion_figure
from tfzoo.plots.style import save


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_svg_has_the_ground_of_the_page(scheme, browser, tmp_path):
    path = tmp_path / "confusion.svg"
    save(confusion_figure(9 * torch.eye(2), ["a", "b"], "test"), path)
    shown = browser.new_page(viewport={"width": 300, "height": 200}, color_scheme=scheme)
    shown.set_content(f'<body style="margin: 0">{path.read_text("utf-8")}')
    pixels = matplotlib.image.imread(io.BytesIO(shown.screenshot()))[..., :3].mean(-1)
    shown.close()
    ground, most = pixels[2, 2], abs(pixels - pixels[2, 2]).max()
    assert (ground > 0.95) if scheme == "light" else (ground < 0.12)
    assert most > 0.7
