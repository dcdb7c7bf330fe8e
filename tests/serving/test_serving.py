"""A server gives each request its answer or one clear error, and keeps nothing of it."""

import html
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import torch

from tests.serving.running import JSON, serving
from tests.tasks.test_attention import classifier, translator
from tests.tasks.test_pairs import NAMES, PAIRS
from tests.tasks.test_pairs import classifier as of_pairs
from tests.tasks.test_token_classification import small as small_tagger
from tests.waiting import soon
from tfzoo.models.transformer_layer import TransformerLayer
from tfzoo.plots import attention
from tfzoo.serving import app

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"alert(1)\">"


@pytest.fixture(scope="module")
def translating():
    task = translator()
    with serving(task, EVIL, characters=200, texts=3, bytes=2000) as client:
        yield SimpleNamespace(task=task, client=client)


class Gate:
    """Each layer of the model waits until ``go`` is set, and is counted before that."""

    def __init__(self) -> None:
        self.go, self.layers, self.longest = Event(), 0, 20.0

    def __call__(self, task):
        for one in task.model.modules():
            if isinstance(one, TransformerLayer):
                one.register_forward_pre_hook(self.wait)

    def wait(self, *_):
        self.layers += 1
        self.go.wait(self.longest)


@contextmanager
def held():
    gate = Gate()
    try:
        yield gate
    finally:
        gate.go.set()


def test_a_translation_is_the_tasks_own(translating):
    texts = ["one two", "", "three"]
    wanted = [asdict(best) for best in translating.task.predict(texts)]
    one = translating.client.ask("/predict", {"text": "one two"})
    assert one.status == 200
    assert json.loads(one.text)["translation"] == wanted[0]["translation"]
    assert json.loads(one.text)["score"] == pytest.approx(wanted[0]["score"])
    several = translating.client.ask("/predict", {"texts": texts})
    assert json.loads(several.text) == {"answers": wanted}


def test_fifty_at_once_are_answered_each_with_its_own():
    task = classifier()
    texts = [f"text {index}" for index in range(50)]
    with serving(task) as client, ThreadPoolExecutor(50) as threads:
        found = list(threads.map(lambda text: client.ask("/predict", {"text": text}), texts))
        assert client.requests() == 0
    for text, answer in zip(texts, found, strict=True):
        (ours,) = task.predict([text])
        said = json.loads(answer.text)
        assert (answer.status, said["label"]) == (200, ours.label)
        assert said["probability"] == pytest.approx(ours.probability)
        assert list(said["probabilities"]) == [*ours.probabilities]


SAY = 'send {"text": "..."} or {"texts": ["...", "..."]} as application/json'
MISTAKES = {
    "no JSON": ("{", 400, "the body is not JSON: Expecting property name"),
    "nested too deep": ("[" * 1500, 400, "the body"),  # Python 3.13 parses it
    "no object": (["one"], 422, SAY),
    "nothing": ("", 422, SAY),
    "neither": ({}, 422, SAY),
    "both": ({"text": "a", "texts": []}, 422, SAY),
    "a typo": ({"txet": "a"}, 422, f"txet: Extra inputs are not permitted; {SAY}"),
    "a number": ({"text": 1}, 422, "text: Input should be a valid string"),
    "a pair": ({"text": ["a", "b"]}, 422, "text: Input should be a valid string"),
    "a string": ({"texts": "one"}, 422, "texts: Input should be a valid list"),
    "a number among texts": ({"texts": ["a", 3]}, 422, "texts.1: Input should be a valid string"),
    "half a character": ({"text": "\ud800"}, 422, "unable to parse raw data as a unicode string"),
    "too long": ({"texts": ["a", "b" * 201]}, 422, "texts.1: String should have at most 200 char"),
    "too many": ({"texts": ["a"] * 4}, 422, "texts: List should have at most 3 items"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_error(name, translating):
    body, status, says = MISTAKES[name]
    answer = translating.client.ask("/predict", body, JSON)
    assert (answer.status, says in answer.error) == (status, True), answer.text


def test_other_sites_cannot_use_a_browsers_user(translating):
    ask = translating.client.ask
    body, own = {"text": "a"}, f"http://127.0.0.1:{translating.client.port}"
    assert ask("/predict", body, {"Origin": own}).status == 200
    assert ask("/predict", body, {"Origin": "https://example.org"}).status == 403
    assert ask("/predict", body, {"Origin": "null"}).status == 403
    assert ask("/predict", body, {"Host": "example.org"}).status == 400
    assert ask("/health", headers={"Host": "localhost:1"}).status == 200


def test_the_page_shows_the_answer_and_its_attention_and_no_markup_of_a_text(translating):
    ask = translating.client.ask
    first = ask("/")
    assert html.escape(EVIL, quote=False) in first.text.replace("&#34;", '"').replace("&#39;", "'")
    shown = ask("/show", urlencode({"text": EVIL}))
    assert shown.status == 200
    assert all(f'value="{side}"' in shown.text for side in ("encoder", "decoder", "cross"))
    for one in (first, shown):
        assert EVIL not in one.text
        assert one.headers["content-security-policy"] == "frame-ancestors 'self'"
        assert one.headers["cache-control"] == "no-store"
        assert "default-src &#39;none&#39;" in one.text
    for text, says in (("", "the text is empty"), ("a" * 201, "at most 200 characters")):
        answer = ask("/show", urlencode({"text": text}))
        assert (answer.status, answer.headers.get_content_type()) == (422, "text/html")
        assert says in answer.text


def test_a_page_says_what_it_leaves_out(monkeypatch):
    assert '"layer": 0' in app.answer_page(translator(), "one", "run")
    monkeypatch.setattr(attention, "MAX_BYTES", 1000)
    assert "would be too large" in app.answer_page(translator(), "one", "run")
    without = app.answer_page(classifier(mixer="fourier", position="none"), "one", "run")
    assert "<dt>label</dt>" in without
    assert "NUM 0." in without
    assert "no layer has an attention map" in without


def test_one_more_than_may_wait_is_told_to_come_back():
    with (
        held() as gate,
        serving(translator(), prepare=gate, waiting=2) as client,
        ThreadPoolExecutor(3) as threads,
    ):
        found = [threads.submit(client.ask, "/predict", {"text": "a"}) for _ in range(3)]
        soon(lambda: client.requests() == 3)
        refused = client.ask("/predict", {"text": "a"})
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert "3 requests are waiting" in refused.error
        gate.go.set()
        assert [one.result().status for one in found] == [200] * 3
        assert client.ask("/predict", {"text": "a"}).status == 200


def test_time_that_is_over_is_an_error_and_stops_the_model():
    """Also of a request that waits."""
    with held() as gate, serving(translator(), prepare=gate, seconds=0.2) as client:
        with ThreadPoolExecutor(2) as threads:
            found = [threads.submit(client.ask, "/predict", {"text": "a"}) for _ in range(2)]
            soon(lambda: any(one.done() for one in found))  # the one that waits
            gate.go.set()
            assert [one.result().status for one in found] == [504, 504]
            assert "no answer within 0.2 seconds" in found[0].result().error
        assert gate.layers == 1
        soon(lambda: client.ask("/predict", {"text": "a"}).status == 200)


def test_a_request_in_the_wrong_place_is_told_the_right_one(translating):
    """What people type into the address bar first, and what they send to the wrong task."""
    client = translating.client
    asked = client.ask("/predict")
    assert (asked.status, asked.headers["allow"]) == (405, "POST")
    assert asked.error == "Method Not Allowed: texts go to POST /predict"
    for body in (None, {"text": "one"}):
        other = client.ask("/translate", body)
        assert (other.status, other.error) == (404, "Not Found: texts go to POST /predict")


def test_a_page_has_a_box_for_each_text_and_json_takes_lists():
    task = of_pairs(token_types=2)
    wanted = [found.probabilities for found in task.predict(PAIRS)]
    with serving(task, characters=200) as client:
        page = client.ask("/").text
        assert page.count('name="text"') == 2
        assert all(f'placeholder="{name}"' in page for name in NAMES)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        shown = client.ask("/show", "text=one+two&text=three", form)
        assert (shown.status, "one two / three" in shown.text) == (200, True)
        assert client.ask("/show", "text=+&text=", form).status == 422
        one = json.loads(client.ask("/predict", {"text": PAIRS[0]}).text)
        assert one["probabilities"] == pytest.approx(wanted[0])
        lines = ["\t".join(pair) for pair in PAIRS]
        several = json.loads(client.ask("/predict", {"texts": PAIRS}).text)["answers"]
        for answer, probabilities in zip(several, wanted, strict=True):
            assert answer["probabilities"] == pytest.approx(probabilities)
        for body, words in (
            ({"text": "one"}, "text: Input should be a valid list"),
            ({"texts": [PAIRS[0], lines[0]]}, "texts.1: Input should be a valid list"),
            ({"text": ["a", "b", "c"]}, "text: List should have at most 2 items"),
            ({"text": ["a", 1]}, "text.1: Input should be a valid string"),
        ):
            answer = client.ask("/predict", body)
            assert (answer.status, words in answer.error) == (422, True), answer.text


def test_the_page_shows_the_spans():
    task, _ = small_tagger()
    with torch.no_grad():
        task.model.head.weight.zero_()
        task.model.head.bias.copy_(torch.tensor([0.0, 1.0, 0.0, 0.0]))  # B-PER
    with serving(task, characters=200) as client:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        shown = client.ask("/show", "text=%3Ci%3E+Anna", form).text
        assert "label PER · text &lt;i&gt;" in shown
        answer = json.loads(client.ask("/predict", {"text": "a b"}).text)
    assert answer["spans"] == [
        {"label": "PER", "text": "a", "start": 0, "end": 1},
        {"label": "PER", "text": "b", "start": 1, "end": 2},
    ]
