"""The continuation of a text as it comes: events, their limits, the page on which it grows."""

import http.client
import json
from types import SimpleNamespace

import pytest
from lightning.pytorch import seed_everything

from tests.serving.running import JSON, serving
from tests.serving.test_serving import Gate
from tests.tasks.test_attention import translator
from tests.waiting import soon
from tfzoo.base.registry import create
from tfzoo.data.tokenizer import Vocabulary
from tfzoo.tasks.language_modeling import LanguageModelingTask

LAYERS = 2
PROMPT = "a b <i>c</i>"


def continuing():
    """A model that continues :data:`PROMPT` with 64 words."""
    seed_everything(4, verbose=False)
    options = {"name": "word", "cut": "spaces"}
    tokenizer = create("tokenizer", options)
    tokenizer.train(["a b c d e f g h <b>", PROMPT])
    recipe = {"model": {"dim": 16, "heads": 2, "layers": LAYERS, "position": "rotary"}}
    task = LanguageModelingTask.build(recipe, Vocabulary(tokenizer, [], options)).eval()
    for one in tokenizer.special.ends:
        task.model.output_weight.data[one] = 0.0
    return task


class Later(Gate):
    """Waits from the sixth token on."""

    def wait(self, *args):
        if self.layers >= 6 * LAYERS:
            super().wait(*args)
        else:
            self.layers += 1


@pytest.fixture(scope="module")
def served():
    task, gate = continuing(), Gate()
    gate.go.set()
    with serving(task, prepare=gate, characters=200) as client:
        yield SimpleNamespace(task=task, client=client, gate=gate)


def opened(client):
    """An answer of which the headers have come."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.request("POST", "/predict", json.dumps({"text": PROMPT, "stream": True}), JSON)
    return connection.getresponse()


def events(text):
    *found, rest = text.split("\n\n")
    assert rest == ""
    return [json.loads(one.removeprefix("data: ")) for one in found]


def test_pieces_come_before_the_answer_and_are_all_of_it(served):
    whole = served.client.ask("/predict", {"text": PROMPT})
    streamed = served.client.ask("/predict", {"text": PROMPT, "stream": True})
    assert streamed.headers.get_content_type() == "text/event-stream"
    *pieces, last = events(streamed.text)
    assert last == json.loads(whole.text)
    assert len(pieces) > 20
    assert all([*one] == ["piece"] and one["piece"] for one in pieces)
    assert "".join(one["piece"] for one in pieces) == last["continuation"]
    assert served.client.requests() == 0


def test_an_answer_without_pieces_is_one_event():
    with serving(translator()) as client:
        whole = json.loads(client.ask("/predict", {"text": "one"}).text)
        streamed = client.ask("/predict", {"text": "one", "stream": True})
        assert events(streamed.text) == [whole]


def test_time_that_is_over_is_the_last_event():
    gate = Later()
    gate.longest = 1.5
    with serving(continuing(), prepare=gate, seconds=1) as client:
        found = opened(client)
        assert found.status == 200
        *pieces, last = events(found.read().decode())
        gate.go.set()
        assert pieces
        assert last == {"error": "no answer within 1 seconds; send fewer or shorter texts"}
        soon(lambda: client.ask("/predict", {"text": "a"}).status == 200)  # on a busy machine


def test_the_page_shows_a_continuation_as_it_comes(browser):
    gate = Later()
    with serving(continuing(), prepare=gate) as client:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        said = []
        page.set_default_timeout(10_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"http://127.0.0.1:{client.port}/")
        page.fill("#text", f"  {PROMPT} ")
        page.keyboard.press("Enter")
        soon(lambda: len(page.text_content("#growing b")) > 5)
        assert page.inner_text("#growing").startswith(PROMPT + " ")
        assert page.is_disabled("#send")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        begun = page.inner_text("#growing b")
        gate.go.set()
        page.locator("#send:enabled").wait_for()
        assert not page.is_visible("#growing")
        shown = page.frame_locator("#answer").locator("dd").first.inner_text()
        assert shown.startswith(begun.strip())
        assert said == []
        page.close()
