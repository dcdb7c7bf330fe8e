"""Language codes with script and region."""

import pytest

from tfzoo.learning.translation_scores import CorpusScores, base_language

CHINESE = ["zh", "ZH", "zh-CN", "zh_TW", "zh-Hans-CN", "zho_Hans", "cmn"]
OTHERS = {"de-CH": "de", "pt_BR": "pt", "gsw": "gsw"}


@pytest.mark.parametrize(("code", "base"), [*((code, "zh") for code in CHINESE), *OTHERS.items()])
def test_a_code_loses_its_region_and_every_chinese_one_has_the_chinese_tokenizer(code, base):
    assert base_language(code) == base
    signature = CorpusScores(code).signature
    assert f"tok:{'zh' if base == 'zh' else '13a'}" in signature
    assert "nrefs:1" in signature
