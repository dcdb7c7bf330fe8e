"""A table of hostile shared folders and checkpoints: each is a good folder, changed."""

import io
import json
import os
import pickle
import shutil
import socket
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.exporting.tasks import translator
from tests.json_files import edit
from tfzoo.runs import pretrained

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
Change = Callable[[Path], None]
HUGE = 10**9


def good(folder: Path) -> None:
    """A folder and a checkpoint, ``good.ckpt`` in it, as tfzoo writes them."""
    task = translator()
    task.recipe |= {"data": {"dataset": "numbers"}, "trainer": {}}
    task.save_pretrained(folder)
    checkpoint: dict[str, Any] = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, folder / "good.ckpt")


# Tokenizers.


def tokenizer(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    edit(folder / TOKENIZER, change)


def part(key: str, value: Any) -> Change:
    """The text of a tokenizer with another value of a key."""
    return partial(tokenizer, lambda state: state.update({key: value}))


def model(**changes: Any) -> Change:
    return partial(tokenizer, lambda state: state["model"].update(changes))


def vocabulary(change: Callable[[dict[str, Any]], object]) -> Change:
    return partial(tokenizer, lambda state: change(state["model"]["vocab"]))


def text(content: str | bytes, name: str = TOKENIZER) -> Change:
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return lambda folder: (folder / name).write_bytes(raw) and None


def large(opening: str, repeated: str, count: int, closing: str, name: str = TOKENIZER) -> Change:
    """A file that is long, made when it is needed."""
    return lambda folder: text(opening + repeated * count + closing, name)(folder)


def padding(**changes: Any) -> dict[str, Any]:
    usual = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None}
    return {**usual, "pad_id": 0, "pad_type_id": 0, "pad_token": "pad", **changes}


def truncation(**changes: Any) -> dict[str, Any]:
    usual = {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0}
    return {**usual, **changes}


def replacement(pattern: str, by: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": by}


def all_of(kind: str, *parts: Any) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(parts)}


def split(pattern: Any, behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def nested(kind: str, levels: int) -> Any:
    value: Any = {"type": "NFC"}
    for _ in range(levels):
        value = all_of(kind, value)
    return value


def added(count: int, **changes: Any) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": 300 + n, "content": f"new{n}", **flags, **changes} for n in range(count)]


DOUBLE = replacement("[^\\n]", "xx")
PROCESSOR = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 10_000,
    "pair": [],
    "special_tokens": {"x": {"id": "x", "ids": [0] * 1000, "tokens": ["x"] * 1000}},
}
PARTS: dict[str, dict[str, Any]] = {
    "padding": {
        "to a billion": padding(strategy={"Fixed": HUGE}),
        "to more than fits": padding(strategy={"Fixed": 2**63}),
        "to a million": padding(strategy={"Fixed": 10**6}),
        "to a multiple": padding(pad_to_multiple_of=HUGE),
        "to a multiple of 0": padding(pad_to_multiple_of=0),
        "a long token": padding(pad_token="x" * 10**6),
        "of another type": 7,
    },
    "truncation": {
        "to nothing": truncation(),
        "with a stride": truncation(max_length=1, stride=1),
        "with a long stride": truncation(max_length=5, stride=HUGE),
        "of another type": [1],
    },
    "normalizer": {
        "forty that double": all_of("normalizers", *[DOUBLE] * 40),
        "one that doubles": DOUBLE,
        "of nothing": replacement("", "x"),
        "with a slow expression": replacement("(a+)+$", ""),
        "with a wrong expression": replacement("(", ""),
        "a long text before": {"type": "Prepend", "prepend": "x" * 10**7},
        "a text before, often": all_of("normalizers", *[{"type": "Prepend", "prepend": "x"}] * 999),
        "deep": nested("normalizers", 50),
        "deeper": nested("normalizers", 150),
        "many": all_of("normalizers", *[{"type": "NFC"}] * 100_000),
        "precompiled": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        "bytes": {"type": "ByteLevel"},
        "of no type": {"normalizers": []},
        "a list": [{"type": "Replace"}],
        "a number": 7,
        "of a list": all_of("normalizers", ["NFC"]),
    },
    "pre_tokenizer": {
        "slow": split({"Regex": "(a+)+$"}),
        "slower": split({"Regex": "(x+x+)+y"}),
        "huge": split({"Regex": "((a{1,9999}){1,9999}){1,9999}"}),
        "of nothing": split({"String": ""}),
        "of an empty expression": split({"Regex": ""}),
        "removed": split({"Regex": " ?\\S+|\\s+"}, "Removed"),
        "inverted": split({"Regex": " ?\\S+|\\s+"}, invert=True),
        "many": all_of("pretokenizers", *[{"type": "Whitespace"}] * 100_000),
        "a prefix": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"},
        "digits": {"type": "Digits", "individual_digits": True},
        "a list": [],
        "a text": "Split",
    },
    "post_processor": {
        "a template": PROCESSOR,
        "bert": {"type": "BertProcessing", "sep": ["x", 4], "cls": ["y", 5]},
        "bytes": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
        "many": all_of("processors", *[PROCESSOR] * 100),
    },
    "decoder": {
        "replace": all_of("decoders", *[replacement("x", "xx")] * 40),
        "strip": {"type": "Strip", "content": "x", "start": HUGE, "stop": HUGE},
        "words": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "ctc": {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": True},
        "twice": all_of("decoders", *[{"type": "Fuse"}] * 2),
        "deep": nested("decoders", 150),
    },
    "added_tokens": {
        "many": added(50_000),
        "empty": added(1, content=""),
        "far": added(1, id=2**32 - 1),
        "before the first": added(1, id=-1),
        "special": added(1, special=True),
        "a text": "tokens",
    },
    "model": {"none": None, "a list": [], "of no type": {}, "unknown": {"type": "Evil"}},
    "evil": {"an unknown key": {"a": 1}},
}
SCORES = {"type": "Unigram", "unk_id": 1, "byte_fallback": True}
SPECIAL = ["pad ", "unknown ", "begin ", "end "]
MODELS: dict[str, Change] = {
    "dropout": model(dropout=0.5),
    "too much dropout": model(dropout=2.0),
    "an unknown unknown": model(unk_token="nobody"),
    "a prefix": model(continuing_subword_prefix="x" * 10**6),
    "a suffix": model(end_of_word_suffix="x"),
    "merges of nothing": model(merges=[["nobody", "knows"]]),
    "merges of one": model(merges=[["o"]]),
    "merges as text": model(merges="o n"),
    "merges of other types": model(merges=[[1, 2]]),
    "many merges": model(merges=[["o", "n"]] * 10**6),
    "a vocabulary of nothing": model(vocab={}),
    "a vocabulary of a list": model(vocab=[["x", 0.0]]),
    "a vocabulary of a text": model(vocab="words"),
    "an id beyond": vocabulary(lambda vocab: vocab.update(x=2**32 - 1)),
    "an id beyond 64 bits": vocabulary(lambda vocab: vocab.update(x=2**70)),
    "an id below": vocabulary(lambda vocab: vocab.update(x=-1)),
    "an id twice": vocabulary(lambda vocab: vocab.update(x=7)),
    "an id that is none": vocabulary(lambda vocab: vocab.update(x="7")),
    "an id with a fraction": vocabulary(lambda vocab: vocab.update(x=7.5)),
    "an id that is truth": vocabulary(lambda vocab: vocab.update(x=True)),
    "other special ids": vocabulary(lambda vocab: vocab.update({"pad ": 3, "end ": 0})),
    "one without special ids": vocabulary(lambda vocab: vocab.pop("pad ")),
    "scores beyond": part("model", {**SCORES, "vocab": [[x, 1e300] for x in SPECIAL]}),
    "scores that are none": part("model", {**SCORES, "vocab": [[x, None] for x in SPECIAL]}),
    "no scores": part("model", {**SCORES, "vocab": SPECIAL}),
    "an unknown beyond": part(
        "model", {**SCORES, "unk_id": HUGE, "vocab": [[x, 0.0] for x in SPECIAL]}
    ),
    "words without unknown": part("model", {"type": "WordLevel", "vocab": {}, "unk_token": "x"}),
}
TEXTS: dict[str, Change] = {
    "nothing": text(""),
    "half an object": text("{"),
    "a list": text("[]"),
    "null": text("null"),
    "a number": text("1"),
    "not UTF-8": text(b"\xff\xfe{}"),
    "zeros": text(b"\0" * 1000),
    "a mark of order": text(b"\xef\xbb\xbf{}"),
    "many digits": text("9" * 100_000),
    "deep": text("[" * 10**6),
    "deep objects": text('{"a":' * 10**5),
    "60 MB of spaces": large("", " ", 60_000_000, ""),
    "60 MB of lists": large("[", "[],", 20_000_000, "[]]"),
    "60 MB of objects": large("[", '{"a":1},', 7_000_000, "{}]"),
    "60 MB of one text": large('"', "x", 60_000_000, '"'),
    "60 MB of wide text": large('"\U0001f600', "\u00e9", 30_000_000, '"'),
    "100 MB": large("[", "0,", 50_000_000, "0]"),
}

# The configuration.


def config(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    edit(folder / CONFIG, change)


def entry(keys: str, value: Any) -> Change:
    """The configuration with another value, whose keys are joined by dots."""

    def change(kept: dict[str, Any]) -> None:
        *parents, last = keys.split(".")
        for key in parents:
            kept = kept.setdefault(key, {})
        kept[last] = value

    return partial(config, change)


WRONG: dict[str, tuple[Any, ...]] = {
    "format": ([2], {"a": 1}, None, "2", 99, 2.5),
    "task": (["translation"], None, 7, "os.system"),
    "recipe": ([], None, "model", 7),
    "tokenizer": ([], None, "bpe", 7, {}),
    "batches": ("many", None, [1], {}),
    "skipped": ("many", [1]),
    "text": ([1], {}),
    "foreign": ([1], "evil.Model"),
    "results": ([], "good", {"a": "x"}, {"a": [1]}),
    "sha256": ([], None, "0"),
    "recipe.model": ([1], "evil", 7, {"dim": [1]}, {"dim": "x"}, {"norm": "beside.Mine"}),
    "recipe.optim": ([1], "evil", 7, {"lr": "x"}, {"evil": 1}),
    "recipe.search": ([1], "evil", {"beam": []}),
    "recipe.options": ([1], {"evil": 1}),
    "tokenizer.states": ([], [1], "text", [{"file": "../good.ckpt"}], [{"file": "/etc/passwd"}]),
    "tokenizer.languages": ([], ["en"], [1, 2], "en"),
    "tokenizer.tokenizer": ("../evil", ["bpe"], {"name": "bpe", "evil": 1}, {}, None),
}
MANY = [{"file": TOKENIZER}] * 50_000
CONFIGS: dict[str, Change] = {
    f"{keys} {json.dumps(value)[:40]}": entry(keys, value)
    for keys, values in WRONG.items()
    for value in values
} | {
    "many tokenizers": entry("tokenizer.states", MANY),
    "nothing": text("", CONFIG),
    "a list": text("[1]", CONFIG),
    "deep": text("[" * 10**6, CONFIG),
    "not UTF-8": text(b"\xff", CONFIG),
    "many digits": text('{"format": ' + "9" * 10**6 + "}", CONFIG),
    "15 MB of lists": large("[", "[],", 5_000_000, "[]]", CONFIG),
    "15 MB of objects": large("[", '{"a":1},', 1_800_000, "{}]", CONFIG),
    "90 MB": large("[", "0,", 45_000_000, "0]", CONFIG),
}

# What is no file.


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(path.parent)  # such a name must be short
    made.bind(path.name)
    made.close()
    os.chdir(here)


def link(target: str) -> Change:
    return lambda path: path.symlink_to(target)


NO_FILES: dict[str, Change] = {
    "a pipe": pipe,
    "a link to endless zeros": link("/dev/zero"),
    "a link to a terminal": link("/dev/tty"),
    "a link to nothing": link("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": Path.mkdir,
    "a socket": listening,
    "empty": Path.touch,
}


def instead(name: str, make: Change, folder: Path) -> None:
    (folder / name).unlink()
    make(folder / name)


# Weights.


def weights(header: bytes, data: bytes, length: int | None = None) -> Change:
    def change(folder: Path) -> None:
        size = struct.pack("<Q", len(header) if length is None else length)
        (folder / WEIGHTS).write_bytes(size + header + data)
        entry("sha256", pretrained.checksum(folder / WEIGHTS))(folder)

    return change


def tensor(**changes: Any) -> bytes:
    usual = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    return json.dumps({"w": {**usual, **changes}}).encode()


SAFETENSORS: dict[str, Change] = {
    "a header beyond the file": weights(b"{}", b"", 10**12),
    "a header of all bits": weights(b"{}", b"", 2**64 - 1),
    "no header": weights(b"", b""),
    "a header of a list": weights(b"[]", b""),
    "a deep header": weights(b"[" * 10**6, b""),
    "a header of 30 MB": weights(b'{"w":' + b" " * 30_000_000 + b"1}", b""),
    "a shape beyond": weights(tensor(shape=[2**40, 2**40]), b"\0" * 8),
    "a shape below": weights(tensor(shape=[-2]), b"\0" * 8),
    "data beyond": weights(tensor(data_offsets=[0, 2**60]), b"\0" * 8),
    "data that ends before it begins": weights(tensor(data_offsets=[8, 0]), b"\0" * 8),
    "another type": weights(tensor(dtype="PICKLE"), b"\0" * 8),
    "more than it names": weights(tensor(), b"\0" * 1000),
    "names of no tensor": weights(b'{"__metadata__":{"a":"b"}}', b""),
    "names of other types": weights(b'{"__metadata__":{"a":[1]}}', b""),
    "another tensor": weights(tensor(), b"\0" * 8),
}

# Checkpoints.


def repacked(pickled: bytes | None, folder: Path, **more: bytes) -> None:
    """The good checkpoint with another pickle and further entries."""
    with (
        zipfile.ZipFile(folder / "good.ckpt") as archive,
        zipfile.ZipFile(folder / "evil.ckpt", "w") as made,
    ):
        for one in archive.infolist():
            is_pickle = one.filename.endswith("data.pkl") and pickled is not None
            made.writestr(one.filename, pickled if is_pickle else archive.read(one))
        for name, content in more.items():
            made.writestr(name, content)


def operations(repeated: bytes, count: int, end: bytes = b".") -> Change:
    return lambda folder: repacked(b"\x80\x02" + repeated * count + end, folder)


def listed(folder: Path) -> None:
    """An archive whose list names a million entries."""
    out = io.BytesIO()
    name = b"x"
    fields = (0x02014B50, 0x031E, 20, 0, 0, 0, 33, 0, 0, 0, len(name), 0, 0, 0, 0, 0, 0)
    one = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, 0, 0, 0, 33, *fields[7:]) + name
    out.write(one * 1_000_000)
    size = out.tell()
    out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, size, 0, 0))
    (folder / "evil.ckpt").write_bytes(out.getvalue())


def checkpoint(change: Callable[[dict[str, Any]], object]) -> Change:
    """The good checkpoint, changed and saved again."""

    def made(folder: Path) -> None:
        found = torch.load(folder / "good.ckpt", weights_only=True)
        change(found)
        torch.save(found, folder / "evil.ckpt")

    return made


def tokenizer_of_checkpoint(change: Change) -> Change:
    """A checkpoint with the tokenizer of a hostile folder."""

    def made(folder: Path) -> None:
        change(folder)
        text = (folder / TOKENIZER).read_text("utf-8")
        checkpoint(lambda found: found["tfzoo"]["tokenizer"].update(states=[text]))(folder)

    return made


MEMORY = pickle.dumps(bytearray, 2)[2:-1]
CHECKPOINTS: dict[str, Change] = {
    "many values": operations(b"N", 30_000_000),
    "many lists": operations(b"]", 30_000_000),
    "many levels": operations(b"(", 3_000_000, b"t" * 3_000_000 + b"."),
    "many numbers": operations(b"]\x94(K\1K\1e", 5_000_000),
    "a long number": operations(b"\x8b" + struct.pack("<i", 10**6) + b"\1" * 10**6, 1),
    "a long number of 2 GB": operations(b"\x8b" + struct.pack("<i", 2**31 - 1), 1),
    "all memory": operations(b"cbuiltins\nbytearray\n\x8a\6\0\0\0\0\0\1\x85R", 1),
    "no pickle": operations(b"\xff", 1),
    "half a pickle": operations(b"", 0, b""),
    "many entries": listed,
    "a format of a list": checkpoint(lambda found: found["tfzoo"].update(format=[2])),
    "a recipe of a text": checkpoint(lambda found: found["tfzoo"].update(recipe="x")),
    "weights of a list": checkpoint(lambda found: found.update(state_dict=[1])),
    "weights of texts": checkpoint(lambda found: found.update(state_dict={"a": "b"})),
    "a tokenizer of bytes": checkpoint(
        lambda found: found["tfzoo"]["tokenizer"].update(states=[b"{}"])
    ),
    "a tokenizer that pads": tokenizer_of_checkpoint(
        part("padding", PARTS["padding"]["to a billion"])
    ),
    "a tokenizer that doubles": tokenizer_of_checkpoint(
        part("normalizer", PARTS["normalizer"]["forty that double"])
    ),
    "a tokenizer with a slow expression": tokenizer_of_checkpoint(
        part("pre_tokenizer", PARTS["pre_tokenizer"]["slow"])
    ),
    "a pipe": lambda folder: pipe(folder / "evil.ckpt"),
    "endless": lambda folder: link("/dev/zero")(folder / "evil.ckpt"),
}

FOLDERS: dict[str, Change] = {
    **{
        f"tokenizer, {key}, {name}": part(key, value)
        for key, values in PARTS.items()
        for name, value in values.items()
    },
    **{f"tokenizer, model, {name}": change for name, change in MODELS.items()},
    **{f"tokenizer, text, {name}": change for name, change in TEXTS.items()},
    **{f"config, {name}": change for name, change in CONFIGS.items()},
    **{
        f"{name}, {what}": partial(instead, name, make)
        for name in (CONFIG, TOKENIZER, WEIGHTS)
        for what, make in NO_FILES.items()
    },
    **{f"weights, {name}": change for name, change in SAFETENSORS.items()},
}
"""Changes of the folder itself."""
FILES: dict[str, Change] = {f"checkpoint, {name}": one for name, one in CHECKPOINTS.items()}
"""Changes that write ``evil.ckpt`` beside."""


def hostile(name: str, whole: Path, place: Path) -> str:
    """Make the hostile folder of a name from a copy of a good one; the RUN to give to a command."""
    shutil.copytree(whole, place)
    if name in FILES:
        FILES[name](place)
        return str(place / "evil.ckpt")
    (place / "good.ckpt").unlink()
    FOLDERS[name](place)
    return str(place)
