"""What the server answers for each task."""

import json

import pytest
import torch

from tests.serving.running import serving
from tests.tasks.test_pairs import NAMES, PAIRS, classifier
from tests.tasks.test_token_classification import small as small_tagger


def test_a_page_has_a_box_for_each_text_and_json_takes_lists():
    task = classifier(token_types=2)
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
