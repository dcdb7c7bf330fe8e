"""The page shows the model's weights, as a browser without a network shows it."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest
import torch

from tests.browser import opened
from tfzoo.plots.attention import AttentionMap, AttentionMaps, attention_page, packed

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"alert(1)\">"
SOURCE = ["one", " two", EVIL, "<eos>"]
TARGET = ["<bos>", " zwei", " drei"]
BYTE = 1 / 255


def made(*shape):
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))).softmax(-1)


def maps():
    tokens = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}
    return [
        AttentionMap(side, layer, made(2, len(q), len(k)), q, k)
        for side, (q, k) in tokens.items()
        for layer in (0, 1)
    ]


def page(found):
    return attention_page(described(found, "runs/x/1"))


def described(found, run):
    return AttentionMaps(found, EVIL, run=run, facts={"translation": EVIL}, notes=[EVIL])


def unpacked(one, shape):
    weights, steps_ = (zlib.decompress(base64.b64decode(one[key])) for key in ("weights", "steps"))
    values = np.frombuffer(weights, np.uint8).reshape(shape)
    steps = np.frombuffer(steps_, "<f4").reshape(*shape[:-1], 1)
    return (values.astype(float) - one["zero"]) * steps


def data_of(text):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    data = json.loads(found)
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
def test_weights_of_the_page_are_the_models_to_a_byte(name):
    wanted = WEIGHTS[name]
    queries, keys = (["t"] * n for n in wanted.shape[1:])
    found = unpacked(packed(AttentionMap("encoder", 0, wanted, queries, keys)), (*wanted.shape,))
    exact = wanted.double().numpy()
    step = np.abs(exact).max(-1, keepdims=True) / (127 if name == "negative" else 255)
    assert (np.abs(found - exact) <= step * 0.501).all()
    assert (found[exact == 0] == 0).all()
    if name == "uniform":
        np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_the_page_holds_every_map_and_no_markup_of_a_text():
    text = page(maps())
    assert EVIL not in text
    assert text.count("</script>") == 2
    (data,) = data_of(text)
    assert data["sides"]["cross"] == {"queries": TARGET, "keys": SOURCE}
    for one, wanted in zip(data["maps"], maps(), strict=True):
        assert (one["side"], one["layer"], one["heads"]) == (wanted.side, wanted.layer, 2)
        found = unpacked(one, (*wanted.weights.shape,))
        assert np.abs(found - wanted.weights.numpy()).max() < BYTE
    assert html.escape("http://") not in text.replace("http://www.w3.org/2000/svg", "")


CUT_OFF = """[...document.body.querySelectorAll('*')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll'))
  .map((one) => one.outerHTML.slice(0, 80))"""
"""What ends outside of the window, but for tables that scroll by themselves."""


def shown_page(browser, file, text):
    file.write_text(text, "utf-8")
    shown, said = opened(browser, file)
    shown.wait_for_selector(".token")  # weights are decompressed after the page is loaded
    return shown, said


def weights_beside(run, tokens):
    """The weights that stand beside the queries or keys."""
    return [float(one) for one in run.locator(f".{tokens} .weight").all_inner_texts() if one]


def test_a_browser_shows_the_weights_of_a_token(browser, tmp_path):
    shown, said = shown_page(browser, tmp_path / "attention.html", page(maps()))
    assert shown.title() == f"Attention: {EVIL}"
    cross = maps()[-1].weights

    def weights(tokens):
        return weights_beside(shown, tokens)

    assert shown.inner_text(".chosen") == "Cross, layer 1, mean of all 2 heads"
    shown.locator(".queries .token").nth(1).hover()
    np.testing.assert_allclose(weights("keys"), cross.mean(0)[1], rtol=0, atol=BYTE)
    assert "sum 1.00" in shown.inner_text(".status")
    shown.locator(".overview tr").nth(1).locator("td button").nth(1).click()
    assert shown.inner_text(".chosen") == "Cross, layer 0, head 1"
    shown.locator(".keys .token").nth(2).hover()
    np.testing.assert_allclose(weights("queries"), cross[1, :, 2], rtol=0, atol=BYTE)
    shown.locator(".heat .cell").nth(5).hover()
    assert f"attends to ▁two {cross[1, 1, 1]:.3f}"[:-1] in shown.inner_text(".status")

    shown.locator("#sides input").last.focus()
    shown.keyboard.press("ArrowLeft")
    assert shown.inner_text(".chosen").startswith("Decoder, layer 1")
    shown.locator(".heads input").first.focus()
    shown.keyboard.press("Space")
    assert shown.inner_text(".chosen") == "Decoder, layer 1, head 1"
    shown.mouse.move(1, 1)
    shown.locator(".queries .token").first.focus()
    shown.keyboard.press("ArrowDown")
    np.testing.assert_allclose(weights("keys"), maps()[3].weights[1, 1], rtol=0, atol=BYTE)
    shown.keyboard.press("Escape")
    assert "Hover over a token" in shown.inner_text(".status")
    shown.emulate_media(color_scheme="dark")
    for width in (390, 1280):
        shown.set_viewport_size({"width": width, "height": 800})
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
        assert shown.evaluate(CUT_OFF) == [], "also where the page could not be scrolled to it"
    assert said == []
    shown.close()


def test_a_browser_shows_two_runs_and_points_at_tokens_that_both_have(browser, tmp_path):
    first, source = maps(), [*SOURCE[:2], " more", *SOURCE[2:]]
    second = [
        AttentionMap("decoder", 0, made(3, 3, 3), TARGET, TARGET),
        AttentionMap("cross", 0, 1 - made(3, 3, 5), TARGET, source),  # rows do not sum to 1
    ]
    text = attention_page(described(first, "runs/x/1"), described(second, "runs/y/1"))
    shown, said = shown_page(browser, tmp_path / "attention.html", text)
    one, two = shown.locator(".run").all()
    assert two.locator(".chosen").inner_text() == "Cross, layer 0, mean of all 3 heads"
    colours = [
        run.locator(".heads label").evaluate_all("all => all.map((one) => one.style.cssText)")
        for run in (one, two)
    ]
    assert colours[0] == colours[1][:2], "a head has its colour, however many there are"
    assert len({*colours[1]}) == 3
    boxes = [run.bounding_box() for run in (one, two)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]

    one.locator(".queries .token").nth(1).hover()
    cross = first[-1].weights.mean(0)
    np.testing.assert_allclose(weights_beside(one, "keys"), cross[1], rtol=0, atol=BYTE)
    beside = second[1].weights.mean(0)
    np.testing.assert_allclose(weights_beside(two, "keys"), beside[1], rtol=0, atol=BYTE)
    assert f"sum {float(beside[1].sum()):.2f}" in two.locator(".status").inner_text()
    two.locator(".keys .token").nth(2).hover()
    np.testing.assert_allclose(weights_beside(two, "queries"), beside[:, 2], rtol=0, atol=BYTE)
    assert weights_beside(one, "queries") == [], "the first run has other source tokens"

    shown.locator("#sides label", has_text="Decoder").click()
    two.locator(".heat .cell").nth(4).hover()
    for run, wanted in ((one, first[3].weights), (two, second[0].weights)):
        number = f"{float(wanted.mean(0)[1, 1]):.3f}"[:-1]
        assert f"attends to ▁zwei {number}" in run.locator(".status").inner_text()
    shown.locator("#sides label", has_text="Encoder").click()
    assert two.locator(".chosen").inner_text() == "Encoder: no map"
    assert not two.locator(".heat").is_visible()
    one.locator(".queries .token").first.click()
    assert "sum 1.00" in one.locator(".status").inner_text()
    shown.mouse.move(1, 1)
    shown.keyboard.press("Escape")
    assert weights_beside(one, "keys") == []
    shown.set_viewport_size({"width": 390, "height": 800})
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390, "a phone scrolls down"
    assert said == []
    shown.close()


def test_a_notebook_shows_the_page_in_a_frame_that_reaches_nothing_else(browser, tmp_path):
    cells = [described(maps(), "")._repr_html_() for _ in range(2)]
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><h1>mine</h1>{''.join(cells)}", "utf-8")
    shown, said = opened(browser, file)
    style = "getComputedStyle(document.querySelector('h1')).fontSize"
    assert shown.evaluate(style) == "32px"
    for frame in shown.frames[1:]:
        frame.wait_for_selector(".token")
        frame.locator(".queries .token").nth(1).hover()
        wanted = maps()[-1].weights.mean(0)[1]
        np.testing.assert_allclose(weights_beside(frame, "keys"), wanted, rtol=0, atol=BYTE)
        assert frame.evaluate("origin") == "null"
    assert [one for one in said if one != "about:srcdoc"] == []
    shown.close()
    many = AttentionMap("encoder", 0, torch.rand(4, 700, 700), ["a"] * 700, ["a"] * 700)
    assert "more than 1 MB: give a shorter text" in described([many], "")._repr_html_()
