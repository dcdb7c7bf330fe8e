"""Try a stranger's tokenizer: the process that :mod:`tfzoo.data.tokenizer_trial` starts. It reads
the text of a tokenizer from its standard input, and prints why it refuses it.

The library ``tokenizers`` does whatever such a text says: it pads to a given length, replaces text
by longer text, compiles any expression. tfzoo's tokenizers need little of that, and a text that
asks for more is refused before it is loaded.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from math import isfinite
from typing import Any

from tfzoo.data.library import PIECES, SPECIAL, WORDS, LibraryTokenizer
from tfzoo.data.published_tokenizer import is_published, parts_of_state
from tfzoo.data.tokenizer_trial import MEMORY, REFUSED, SECONDS
from tfzoo.data.tokenizers.pretrained import Pretrained
from tfzoo.data.tokenizers.sentencepiece import SentencePiece

LINES = ["one two three", "", " ", "A1 \u00e9\u4e2d\U0001f600 <0x0A>", "word " * 500, "x" * 2000]
"""What a tokenizer is tried on."""

NORMALIZERS = ("NFC", "Lowercase", "Prepend")
DECODERS = ("ByteFallback", "Fuse", "Strip")
MODELS: dict[str, dict[str, Any]] = {
    "BPE": {"byte_fallback": True},
    "Unigram": {"byte_fallback": True, "unk_id": 1},
    "WordLevel": {"unk_token": "unknown "},
}
"""The models, each with the options that it has beside ``vocab`` and ``merges``."""
SPACE = {"prepend": " ", "content": " ", "start": 1, "stop": 0}
"""The options of normalizers and decoders."""


PUBLISHED: dict[str, frozenset[str]] = {
    "normalizer": frozenset(
        {
            *("BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt"),
            *("Precompiled", "Prepend", "Replace", "Sequence", "Strip", "StripAccents"),
        }
    ),
    "pre_tokenizer": frozenset(
        {
            *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "Metaspace"),
            *("Punctuation", "Sequence", "Split", "UnicodeScripts", "Whitespace"),
            "WhitespaceSplit",
        }
    ),
    "decoder": frozenset(
        {
            *("BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace"),
            *("Sequence", "Strip", "WordPiece"),
        }
    ),
    "post_processor": frozenset(
        {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"}
    ),
    "model": frozenset({"BPE", "Unigram", "WordLevel", "WordPiece"}),
}
"""The kinds of parts of published tokenizers."""
PARTS = frozenset({"normalizers", "pretokenizers", "decoders", "processors"})
"""The keys under which a sequence has its parts."""
LONG = frozenset({"model", "post_processor", "precompiled_charsmap"})
"""Parts and options that are tables."""
LONGEST = 2000
"""The most characters of what a normalizer puts in, and of an expression that splits text."""


class TooMuch(ValueError):
    """What a text asks for, and tfzoo's tokenizers do not."""


def limit() -> None:
    """Limit the memory and the time of this process, and let it write no file when it crashes."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def use(text: str) -> None:
    """Check what a tokenizer asks for; then load it, encode, and decode what it gave."""
    tokenizer: Any
    if is_published(text):
        check_published_claims(parts_of_state(text)[0])
        tokenizer = Pretrained()
    elif text.startswith('{"models":'):
        tokenizer = SentencePiece()
    else:
        check_claims(text)
        tokenizer = LibraryTokenizer()
    tokenizer.restore(text)
    use_one(tokenizer)
    if isinstance(tokenizer, SentencePiece):
        use_one(tokenizer.of_target())


def use_one(tokenizer: Any) -> None:
    """Encode, and decode what it gave."""
    ids = tokenizer.encode(LINES)
    size = len(tokenizer)
    if any(one >= size for line in ids for one in line):
        raise TooMuch("it gives ids that it does not have")
    if any(len(line) > 8 * len(text.encode()) + 8 for line, text in zip(ids, LINES, strict=True)):
        raise TooMuch("it makes text longer")
    tokenizer.decode([*ids, list(range(min(size, 10_000)))])


def check_claims(text: str) -> None:
    """Check the text of one of tfzoo's own tokenizers, the library's JSON.

    Raises:
        TooMuch: naming what it asks for.
        ValueError: it is no JSON.
    """
    state = state_of(text)
    check_parts(state.pop("normalizer", None), "normalizer", NORMALIZERS)
    check_parts(state.pop("decoder", None), "decoder", DECODERS)
    check_split(state.pop("pre_tokenizer", None))
    check_model(state.pop("model"))
    state.pop("version", None)
    check_rest(state, {}, "")


def state_of(text: str) -> dict[str, Any]:
    """What the text of a tokenizer holds: a model and other parts.

    Raises:
        ValueError: it holds no model.
    """
    state = json.loads(text)
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise TooMuch("it is no tokenizer")
    return state


def check_published_claims(text: str) -> None:
    """Check the text of a published tokenizer: known kinds of parts, and no long texts in them.
    What it takes is found by trying it.

    Raises:
        TooMuch: naming what it asks for.
        ValueError: it is no JSON.
    """
    state = state_of(text)
    for name, kinds in PUBLISHED.items():
        waiting = [state.get(name)]
        while waiting:
            part = waiting.pop()
            if part is None:
                continue
            if not isinstance(part, dict) or part.get("type", "BPE") not in kinds:
                raise TooMuch(f"it asks for the {name} {str(part)[:60]!r}")
            for key, value in part.items():
                if key in PARTS and isinstance(value, list):
                    waiting += value
                elif name not in LONG and key not in LONG and len(str(value)) > LONGEST:
                    raise TooMuch(f"it asks for the {name}'s {key} {str(value)[:60]!r}")


def check_rest(found: dict[str, Any], allowed: dict[str, Any], where: str) -> None:
    """Refuse options that ask for something, other than those allowed."""
    for key, value in found.items():
        if value not in (None, False, [], {}) and allowed.get(key) != value:
            raise TooMuch(f"it asks for {where}{key} {str(value)[:60]!r}")


def check_parts(part: Any, name: str, allowed: tuple[str, ...]) -> None:
    """Check a normalizer or decoder: a sequence of known parts, each of them once."""
    inner = "normalizers" if name == "normalizer" else "decoders"
    parts = part.get(inner) if isinstance(part, dict) and part.get("type") == "Sequence" else part
    parts = [] if parts is None else parts
    kinds: list[Any] = [""]
    if isinstance(parts, list):
        kinds = [one.get("type") for one in parts if isinstance(one, dict)]
    if len(kinds) != len(parts) or not set(kinds) <= set(allowed) or len(set(kinds)) < len(kinds):
        raise TooMuch(f"it asks for the {name} {str(part)[:60]!r}")
    for one in parts:
        check_rest({key: one[key] for key in one if key != "type"}, SPACE, f"the {name}'s ")


def check_split(part: Any) -> None:
    """Check what splits text: nothing, or one of the known expressions."""
    known = [{"Regex": pattern} for pattern in (PIECES, WORDS)]
    if part is not None and not (
        isinstance(part, dict)
        and part.get("type") == "Split"
        and part.get("pattern") in known
        and part.get("behavior") == "Isolated"
        and part.get("invert") is False
    ):
        raise TooMuch(f"it asks for the pre_tokenizer {str(part)[:60]!r}")


def check_model(model: dict[str, Any]) -> None:
    """Check the vocabulary: ids from 0 on, the special ones first; finite scores."""
    kind = model.pop("type", None)
    if not isinstance(kind, str) or kind not in MODELS:
        raise TooMuch(f"it asks for the model {str(kind)[:60]!r}")
    vocabulary = model.pop("vocab", None)
    model.pop("merges", None)
    check_rest(
        {"ignore_merges": False, **model}, {"ignore_merges": True, **MODELS[kind]}, kind + " "
    )
    if kind == "Unigram" and isinstance(vocabulary, list):
        pieces = [
            one[0]
            for one in vocabulary
            if isinstance(one, list) and len(one) == 2 and score(one[1])
        ]
        ids: Any = range(len(pieces))
    elif kind != "Unigram" and isinstance(vocabulary, dict):
        pieces, ids = list(vocabulary), list(vocabulary.values())
    else:
        raise TooMuch("it has no vocabulary")
    whole = all(type(one) is int and one >= 0 for one in ids)
    by_id = dict(zip(ids, pieces, strict=True)) if whole else {}
    if len(by_id) != len(vocabulary) or max(by_id, default=0) >= len(by_id):
        raise TooMuch("its vocabulary has other ids than 0, 1, 2 and so on")
    if tuple(by_id[index] for index in range(min(len(SPECIAL), len(by_id)))) != SPECIAL:
        raise TooMuch("its vocabulary does not begin with the special ids")


def score(value: Any) -> bool:
    """Whether a value is the log probability of a piece."""
    return isinstance(value, int | float) and isfinite(value) and abs(value) < 1e6


def main() -> int:
    """Try the text on standard input; the exit code."""
    limit()
    try:
        use(sys.stdin.buffer.read().decode())
    except MemoryError:
        return 1
    except BaseException as error:  # the library's PanicException is no Exception
        reason = str(error) if isinstance(error, ValueError) else type(error).__name__
        print((reason.splitlines() or [""])[0][:200])
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
