"""A translator's tokenizers survive a checkpoint."""

import json

import pytest

from tfzoo.data.classification import ClassificationData
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.tokenizers.bpe import BPE
from tfzoo.data.translation import TranslationData


def trained(lines):
    tokenizer = BPE(vocab_size=300)
    tokenizer.train(lines)
    return tokenizer


def test_joint_languages_are_one_tokenizer_again_after_restoring():
    one = trained(["ab cd"] * 9)
    state = TokenizerPair(one, one, "en", "de", {"name": "bpe", "vocab_size": 300}).state()
    again = TokenizerPair.restore(json.loads(json.dumps(state)))
    assert again.joint
    assert (again.source_language, again.target_language, again.spec) == (
        "en",
        "de",
        {"name": "bpe", "vocab_size": 300},
    )
    assert again.source.encode(["ab cd"]) == one.encode(["ab cd"])


def test_separate_languages_stay_separate_and_in_order():
    first, second = trained(["abab"] * 9), trained(["cdcd"] * 9)
    again = TokenizerPair.restore(TokenizerPair(first, second, "en", "zh").state())
    assert not again.joint
    assert again.source.encode(["abab"]) == first.encode(["abab"])
    assert again.target.encode(["abab"]) == second.encode(["abab"]) != first.encode(["abab"])


CHINESE = ["这部电影非常好看，我很喜欢。", "导演的水平真的不怎么样，浪费时间！"] * 5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (CHINESE, True),
        (["この映画はとても面白かったです。", "時間を無駄にしました。"] * 5, True),
        (["ฉันชอบภาพยนตร์เรื่องนี้มากจริงๆ", "เสียเวลาเปล่าๆเลยนะครับ"] * 5, True),
        (["这 部 电影 非常 好看 ， 我 很 喜欢 。", "导演 的 水平 不怎么样 ！"] * 5, False),
        (["a film about 张艺谋", "nothing happens in all of it", "時間を無駄にしました"], False),
        (["einmal im Donaudampfschifffahrtsgesellschaftskapitänspatent"], False),
    ],
)
def test_words_of_a_script_without_spaces_are_told(lines, said, capsys):
    rows = [(line, label) for label in "ab" for line in lines]
    for _ in range(2):  # the second time from the cache
        data = ClassificationData(train=rows, val=rows, tokenizer="word")
        data.prepare_data()
        told = "are runs of a script that is written without spaces" in capsys.readouterr().err
        assert told == said
    pairs = [(line, line) for line in lines]
    TranslationData(train=pairs, val=pairs, tokenizer="word").prepare_data()
    assert capsys.readouterr().err.count("written without spaces") == said
