"""Language codes."""

from __future__ import annotations

import re

THREE_LETTERS = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}
"""ISO 639 codes of three letters, for the languages that tfzoo treats differently from others."""


def base_language(code: str) -> str:
    """The language of a code, without script and region: ``zh`` for ``zh-CN``, ``zh_TW``, ``ZH``,
    ``zho_Hans``.

    >>> [base_language(code) for code in ("zh-CN", "zh_TW", "ZH", "zho_Hans", "pt-BR")]
    ['zh', 'zh', 'zh', 'zh', 'pt']
    """
    language = re.split("[-_]", code.strip().lower(), maxsplit=1)[0]
    return THREE_LETTERS.get(language, language)
