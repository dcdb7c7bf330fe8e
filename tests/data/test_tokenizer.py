"""A translator's tokenizers survive a checkpoint."""

import json

from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.data.tokenizers.bpe import BPE


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
