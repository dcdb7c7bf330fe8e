"""The page in a browser: a text, its answer, its attention."""

import pytest

from tests.serving.running import serving
from tests.tasks.test_attention import translator

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"alert(1)\">"


@pytest.fixture(scope="module")
def client():
    with serving(translator(), characters=200) as client:
        yield client


def test_typing_a_text_shows_its_answer_and_its_attention(browser, client):
    own = f"http://127.0.0.1:{client.port}/"
    page, said, asked = browser.new_page(viewport={"width": 1200, "height": 900}), [], []
    page.set_default_timeout(10_000)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(own)
    assert page.title() == "Translation: runs/toy/1"
    assert f"{own}predict" in page.inner_text("#hint")
    answer = page.frame_locator("#answer")
    for text in ("one two", EVIL):
        page.fill("#text", text)
        page.keyboard.press("Enter")
        answer.locator("h1", has_text=text).wait_for()
        assert answer.locator("dt").first.inner_text() == "translation"
        answer.locator(".queries .token").first.hover()
        assert "attends to" in answer.locator(".status").inner_text()
    page.locator("#send:enabled").wait_for()
    assert (page.inner_text("#status"), page.is_visible("#hint")) == ("", False)
    assert page.title() == "Translation: runs/toy/1"
    assert said == []
    assert set(asked) <= {own, f"{own}show"}
    page.set_viewport_size({"width": 400, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

    page.evaluate("document.getElementById('text').removeAttribute('maxlength')")
    page.fill("#text", "a" * 201)
    page.click("#send")
    answer.locator("text=text: String should have at most 200 characters").wait_for()
    page.close()
