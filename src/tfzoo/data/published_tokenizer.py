"""The tokenizer in a folder that ``save_pretrained`` of Hugging Face's ``transformers`` wrote: the
text of ``tokenizer.json``, and the ids of padding, begin, end and others.

Which ids those are is said in several files. ``config.json`` and ``generation_config.json`` say
what a model reads and writes, ``tokenizer_config.json`` has names, and ``tokenizer.json`` puts
tokens before and after a text. Of two that contradict each other the first of this list holds; what
stands around a text that an encoder reads is what ``tokenizer.json`` puts there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfzoo.base import bounded_files
from tfzoo.base.special_ids import SpecialIds
from tfzoo.data import tokenizer_trial
from tfzoo.errors import BadRun

if TYPE_CHECKING:
    import tokenizers

FILE = "tokenizer.json"
NAMED = ("tokenizer_config.json", "special_tokens_map.json")
KEYS = frozenset({"library", "special", "size"})
"""The keys of a state: the text of ``tokenizer.json``, special ids, size of the vocabulary."""


def state_of(folder: Path) -> str:
    """The state of a folder's tokenizer (:class:`tfzoo.data.tokenizers.pretrained.Pretrained`).

    Raises:
        BadRun: there is no ``tokenizer.json``, or it is damaged or refused.
    """
    if not (folder / FILE).is_file():
        other = sorted(path.name for one in ("*.spm", "*.model") for path in folder.glob(one))
        has = f", only {other[0]}, of SentencePiece" if other else ""
        raise BadRun(
            f"{folder} has no {FILE}{has}: AutoTokenizer.from_pretrained and save_pretrained of "
            "transformers write it"
        )
    text = bounded_files.text_of(folder / FILE, bounded_files.TEXT)
    tokenizer_trial.try_out(text_of_state(text, SpecialIds(pad=None, bos=0, eos=0), 2**31))
    library = loaded(text)
    config = json_of(folder / "config.json")
    said = {**json_of(folder / NAMED[1]), **json_of(folder / NAMED[0])}
    special = special_ids(library, config, json_of(folder / "generation_config.json"), said)
    least = max(one for one in library.get_vocab(with_added_tokens=True).values()) + 1
    size = config.get("vocab_size", least)
    if type(size) is not int or size < max(least, max(special.every) + 1):
        raise BadRun(f"{folder} has a tokenizer of {least:,} tokens, and a model of {size}")
    state = text_of_state(text, special, size)
    tokenizer_trial.trust(state)
    return state


def text_of_state(library: str, special: SpecialIds, size: int) -> str:
    """A state as text."""
    return json.dumps({"library": library, "special": asdict(special), "size": size})


def sha256_of(state: str) -> str:
    """The sum of a state, in hexadecimal."""
    return sha256(state.encode("utf-8", "surrogatepass")).hexdigest()


def is_published(state: str) -> bool:
    """Whether a text begins as :func:`text_of_state` writes it."""
    return state.startswith('{"library":')


def parts_of_state(state: str) -> tuple[str, SpecialIds, int]:
    """What :func:`text_of_state` put into a state.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    found = json.loads(state)
    if not isinstance(found, dict) or found.keys() != KEYS or type(found["size"]) is not int:
        raise ValueError("it is no tokenizer")
    lists = {key: tuple(one) for key, one in found["special"].items() if isinstance(one, list)}
    return found["library"], SpecialIds(**{**found["special"], **lists}), found["size"]


def json_of(path: Path) -> dict[str, Any]:
    """The content of a file of JSON; empty where there is none."""
    found = bounded_files.json_of(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def loaded(text: str) -> tokenizers.Tokenizer:
    """The library's tokenizer, which encodes the names of special tokens as any other text."""
    from tokenizers import Tokenizer

    library = Tokenizer.from_str(text)
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True
    return library


def special_ids(
    library: tokenizers.Tokenizer,
    config: Mapping[str, Any],
    generation: Mapping[str, Any],
    named: Mapping[str, Any],
) -> SpecialIds:
    """The special ids by the files of a folder.

    Raises:
        BadRun: no id ends a text.
    """

    def token(name: str) -> int | None:
        said = named.get(f"{name}_token")
        said = said.get("content") if isinstance(said, Mapping) else said
        return library.token_to_id(said) if isinstance(said, str) else None

    def ids(name: str) -> list[int]:
        for place in (generation, config):
            said = place.get(f"{name}_token_id")
            said = said if isinstance(said, list) else [said]
            if said and all(type(one) is int and one >= 0 for one in said):
                return said
        known = token(name)
        return [] if known is None else [known]

    around = library.encode("", add_special_tokens=True).ids
    pair = library.encode("", "", add_special_tokens=True).ids
    framed = len(around) == 2
    ends = [around[1]] if framed else ids("eos") or ids("sep")
    if not ends:
        raise BadRun("no file says which id ends a text (eos_token_id)")
    begins = ids("bos") or ids("cls") or around[:1] or ends
    start = config.get("decoder_start_token_id", generation.get("decoder_start_token_id"))
    return SpecialIds(
        pad=next(iter(ids("pad")), None),
        bos=begins[0],
        eos=ends[0],
        unk=token("unk"),
        mask=token("mask"),
        cls=around[0] if framed else None,
        sep=tuple(pair[1:-1]) if framed else (),
        decoder_start=start if type(start) is int else None,
        prompt_bos=bool(around) and around[0] == begins[0],
        also_eos=tuple(one for one in dict.fromkeys(ids("eos")) if one != ends[0]),
    )
