"""Language codes with script and region."""

import pytest

from tfzoo.learning.translation_scores import CorpusScores, base_language


@pytest.mark.parametrize("code", ["zh", "ZH", "zh-CN", "zh_TW", "zh-Hans-CN", "zho_Hans", "cmn"])
def test_every_chinese_code_is_chinese(code):
    assert base_language(code) == "zh"


@pytest.mark.parametrize("code", ["zh-CN", "zh_TW", "ZH"])
def test_chinese_of_a_region_is_scored_with_the_chinese_tokenizer(code):
    assert "tok:zh" in CorpusScores(code).signature


@pytest.mark.parametrize(("code", "base"), [("de-CH", "de"), ("pt_BR", "pt"), ("gsw", "gsw")])
def test_other_codes_lose_their_region_alone(code, base):
    assert base_language(code) == base
    assert "tok:13a" in CorpusScores(code).signature
