"""The page shows the model's weights, as a browser without a network shows it."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.browser import opened
from tfzoo.errors import BadRun
from tfzoo.pages.attention import attention_page, packed
from tfzoo.tasks.attention import AttentionMap

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"alert(1)\">"
SOURCE = ["one", " two", EVIL, "<eos>"]
TARGET = ["<bos>", " zwei", " drei"]
BYTE = 1 / 255


def made(*shape: int) -> Tensor:
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))).softmax(-1)


def maps() -> list[AttentionMap]:
    tokens = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}
    return [
        AttentionMap(side, layer, made(2, len(q), len(k)), q, k)  # type: ignore[arg-type]
        for side, (q, k) in tokens.items()
        for layer in (0, 1)
    ]


def page(found: list[AttentionMap]) -> str:
    return attention_page(EVIL, found, run="runs/x/1", facts={"translation": EVIL}, notes=[EVIL])


def unpacked(one: dict[str, Any], shape: tuple[int, ...]) -> Any:
    values = np.frombuffer(base64.b64decode(one["weights"]), np.uint8).reshape(shape)
    steps = np.frombuffer(base64.b64decode(one["steps"]), "<f4").reshape(*shape[:-1], 1)
    return (values.astype(float) - one["zero"]) * steps


def data_of(text: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    data: dict[str, Any] = json.loads(found)
    return data


WEIGHTS = {
    "softmax": made(3, 41, 41),
    "causal": (made(3, 9, 9).tril() / made(3, 9, 9).tril().sum(-1, keepdim=True)),
    "uniform": torch.full((1, 5, 92), 1 / 92),
    "none": torch.zeros(1, 2, 3),
    "large": 9 * made(2, 6, 7),
    "negative": torch.randn(2, 6, 7, generator=torch.Generator().manual_seed(2)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_the_page_are_the_models_to_a_byte(name: str) -> None:
    wanted = WEIGHTS[name]
    queries, keys = (["t"] * n for n in wanted.shape[1:])
    found = unpacked(packed(AttentionMap("encoder", 0, wanted, queries, keys)), (*wanted.shape,))
    exact = wanted.double().numpy()
    step = np.abs(exact).max(-1, keepdims=True) / (127 if name == "negative" else 255)
    assert (np.abs(found - exact) <= step * (1 + 1e-6)).all()
    assert (np.abs(found.sum(-1) - exact.sum(-1)) <= step[..., 0] * 0.501).all()
    assert (found[exact == 0] == 0).all()
    if name == "uniform":
        np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_weights_that_are_no_numbers_are_refused() -> None:
    weights = torch.full((1, 1, 1), float("nan"))
    with pytest.raises(BadRun, match="the attention of cross layer 3 is not finite"):
        packed(AttentionMap("cross", 3, weights, ["a"], ["a"]))


def test_the_page_holds_every_map_and_no_markup_of_a_text() -> None:
    text = page(maps())
    assert EVIL not in text
    assert text.count("</script>") == 2
    data = data_of(text)
    assert data["sides"]["cross"] == {"queries": TARGET, "keys": SOURCE}
    for one, wanted in zip(data["maps"], maps(), strict=True):
        assert (one["side"], one["layer"], one["heads"]) == (wanted.side, wanted.layer, 2)
        found = unpacked(one, (*wanted.weights.shape,))
        assert np.abs(found - wanted.weights.numpy()).max() < BYTE
    assert html.escape("http://") not in text.replace("http://www.w3.org/2000/svg", "")


def test_forty_tokens_six_layers_and_eight_heads_are_under_a_megabyte() -> None:
    """Also where the translation is twice as long as the text."""
    source, target = ["▁token"] * 41, ["▁Wort"] * 82
    tokens = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    found = [
        AttentionMap(side, layer, made(8, len(q), len(k)), q, k)  # type: ignore[arg-type]
        for side, (q, k) in tokens.items()
        for layer in range(6)
    ]
    assert len(page(found).encode()) < 1_000_000


def test_a_browser_shows_the_weights_of_a_token(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "attention.html"
    file.write_text(page(maps()), "utf-8")
    shown, said = opened(browser, file)
    assert shown.title() == f"Attention: {EVIL}"
    cross = maps()[-1].weights

    def weights(list_: str) -> list[float]:
        return [float(one) for one in shown.locator(f"#{list_} .weight").all_inner_texts()]

    assert shown.inner_text("#chosen") == "Cross, layer 1, mean of all 2 heads"
    shown.locator("#queries .token").nth(1).hover()
    np.testing.assert_allclose(weights("keys"), cross.mean(0)[1], rtol=0, atol=BYTE)
    assert "sum 1.00" in shown.inner_text("#status")
    shown.locator("#overview tr").nth(1).locator("td button").nth(1).click()
    assert shown.inner_text("#chosen") == "Cross, layer 0, head 1"
    shown.locator("#keys .token").nth(2).hover()
    np.testing.assert_allclose(weights("queries"), cross[1, :, 2], rtol=0, atol=BYTE)
    shown.locator("#heat .cell").nth(5).hover()
    assert f"attends to ▁two {cross[1, 1, 1]:.3f}"[:-1] in shown.inner_text("#status")

    shown.locator("#sides input").last.focus()
    shown.keyboard.press("ArrowLeft")
    assert shown.inner_text("#chosen").startswith("Decoder, layer 1")
    shown.locator("#heads input").first.focus()
    shown.keyboard.press("Space")
    assert shown.inner_text("#chosen") == "Decoder, layer 1, head 1"
    shown.mouse.move(1, 1)
    shown.locator("#queries .token").first.focus()
    shown.keyboard.press("ArrowDown")
    np.testing.assert_allclose(weights("keys"), maps()[3].weights[1, 1], rtol=0, atol=BYTE)
    shown.keyboard.press("Escape")
    assert "Hover over a token" in shown.inner_text("#status")
    shown.emulate_media(color_scheme="dark")
    assert shown.evaluate("scrollX || document.documentElement.scrollWidth - innerWidth") <= 0
    assert said == []
    shown.close()
