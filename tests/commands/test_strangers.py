"""Files that a stranger sends run nothing, fetch nothing, write nowhere else and take neither hours
nor all memory.

Every line of docs/threats.md names a test of this file, or of another.
"""

import ast
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import tfzoo
from tests.docs.pages import ROOT
from tfzoo import Optim, Transformer, TranslationTask
from tfzoo.base.registry import create
from tfzoo.commands.main import main
from tfzoo.config.sources import MAX_BYTES
from tfzoo.data.tokenizer import TokenizerPair
from tfzoo.errors import BadOption, BadRun

HEAD = "task: translation\ndata: {dataset: {name: numbers, train: 100, val: 4, test: 4, long: 4}}\n"
EVIL = "import os, pathlib\npathlib.Path(os.environ['MARKER']).touch()\nMine = object\n"
SYSTEM = "lightning.pytorch.callbacks.model_checkpoint.os.system"
TOUCH = "touch $MARKER"

GOOD = {
    "plain": "model: {dim: 16, heads: 2}",
    "a class of Lightning's": "trainer: {callbacks: [{class_path: EarlyStopping, "
    "init_args: {monitor: val/chrf, mode: max}}]}",
    "a class of Lightning's by its path": "trainer: {callbacks: [{class_path: "
    "lightning.pytorch.callbacks.LearningRateMonitor}]}",
    "a class of Lightning's by its file": (
        "trainer: {callbacks: [{class_path: "
        "lightning.pytorch.callbacks.lr_monitor.LearningRateMonitor}]}"
    ),
    "a logger": "trainer: {logger: {class_path: CSVLogger, init_args: {name: mine}}}",
    "aliases": "model: {encoder: &side {layers: 2, heads: 2}, decoder: *side, dim: 16}",
    "a file name": "checkpoint: {filename: '{step}', monitor: val/exact_match}",
    "the most bytes": "#" * (MAX_BYTES - len(HEAD) - 1),
    "steps that are not logged": "trainer: {log_every_n_steps: 0}",
}


def given(key, class_path, **options):
    """A recipe that gives the Trainer an object of a class."""
    made = {"class_path": class_path, "init_args": options}
    return yaml.safe_dump({"trainer": {key: [made] if key == "callbacks" else made}})


callback, logger = partial(given, "callbacks"), partial(given, "logger")
AVERAGING = "StochasticWeightAveraging"
PASSED_ON = logger("WandbLogger", settings={"x_executable": "evil.sh"}).replace(
    "init_args", "dict_kwargs"
)


def nested(levels):
    return "[" * levels + "]" * levels


def bomb(levels, each=9):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    return "\n".join(
        [*lines, *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * each)}]" for n in range(1, levels))]
    )


REFUSED: dict[str, dict[str, str]] = {
    "'beside.Mine'": {
        "callback beside": "trainer: {callbacks: [{class_path: beside.Mine}]}",
        "callback beside, by name": "trainer: {callbacks: [beside.Mine]}",
        "callback beside, alone": "trainer: {callbacks: beside.Mine}",
        "logger beside": "trainer: {logger: {class_path: beside.Mine}}",
        "strategy beside": "trainer: {strategy: {class_path: beside.Mine}}",
        "profiler beside": "trainer: {profiler: beside.Mine}",
        "plugin beside": "trainer: {plugins: [beside.Mine]}",
        "accelerator beside": "trainer: {accelerator: beside.Mine}",
        "optimiser beside": "optim: {class_path: beside.Mine}",
    },
    "LambdaCallback": {
        "lambda": callback("LambdaCallback", on_fit_start=TOUCH),
        "lambda of os.system": callback(
            "lightning.pytorch.callbacks.LambdaCallback", setup="os.system"
        ),
    },
    "os.system": {
        "a function as an option": callback(AVERAGING, swa_lrs=1.0, avg_fn="os.system"),
        "os behind a file of Lightning's": f"trainer: {{callbacks: [{{class_path: {SYSTEM}}}]}}",
        "os behind a file, as an option": callback(AVERAGING, swa_lrs=1.0, avg_fn=SYSTEM),
    },
    "beside.Mine": {
        "a class in a string": "trainer: {callbacks: ['{class_path: beside.Mine}']}",
        "a class in a string of an option": callback(
            "EarlyStopping", monitor='{"class_path": "beside.Mine"}'
        ),
    },
    "tag": {
        "python/object/apply": f"model: !!python/object/apply:os.system ['{TOUCH}']",
        "python/object/new": f"model: !!python/object/new:os.system ['{TOUCH}']",
        "python/name": "model: {norm: !!python/name:os.system ''}",
        "python/module": "model: !!python/module:beside ''",
        "include": "model: !include /etc/passwd",
    },
    "more than 10,000 values": {
        "alias bomb": bomb(12),
        "merge bomb": "\n".join(
            [
                "a0: &a0 {x: 1}",
                *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)),
            ]
        ),
        "many values": f"model: [{', '.join(['1'] * 20_000)}]",
    },
    "an alias that contains itself": {
        "an alias of itself": "model: &model {encoder: *model}",
    },
    "nested deeper": {
        "deep brackets": f"model: {nested(100_000)}",
        "deep lines": "\n".join(f"{' ' * n}a:" for n in range(400)),
        "deep aliases": bomb(60, 1),
        "a deep alias of deep brackets": f"model: [&a {nested(20)}, {'[' * 20}*a{']' * 20}]",
    },
    "bytes": {
        "many bytes": "#" * 300_000,
    },
    "digits": {
        "many digits": f"seed: {'9' * 5000}",
    },
    "the most is": {
        "a huge seed": f"seed: {10**30}",
        "a wide model": "model: {dim: 1000000000000}",
        "a long table": "model: {max_length: 1e12}",
    },
    "model.layers is 1e+09; the most is 1,000": {
        "many layers": "model: {layers: 1000000000}",
    },
    "the most is 1,000": {
        "many layers of one side": "model: {encoder: {layers: 100000}}",
    },
    "occurs twice": {
        "a key twice, deep": "trainer: {callbacks: [{class_path: EarlyStopping, class_path: x.Y}]}",
    },
    "https://example.com/bert": {
        "weights of an address": "from: 'https://example.com/bert'",
    },
    "https://example.com/text": {
        "an address as data": "data: {root: 'https://example.com/text'}",
    },
    "no address that tfzoo reads": {
        "an address of this machine": "data: {train: 'file:///etc/passwd'}",
        "an address that is cached elsewhere": "data: {test: {a: ['simplecache::https://example.com/a.tsv']}}",
    },
    "only https://": {
        "an address of a cloud's passwords": "data: {val: 'http://169.254.169.254/latest'}",
    },
    "s3://bucket/x": {
        "an address of another section": "model: {attention: 's3://bucket/x'}",
    },
    "http://example.com": {
        "an address of a logger": logger("MLFlowLogger", tracking_uri="http://example.com"),
    },
    "file:/elsewhere/x": {
        "a file's address": logger("MLFlowLogger", tracking_uri="file:/elsewhere/x"),
    },
    "https://example.com": {
        "a callback to fetch": "trainer: {callbacks: 'https://example.com/callbacks.yaml'}",
    },
    "--run FOLDER": {
        "checkpoints outside": "checkpoint: {filename: ../../../evil}",
        "checkpoints elsewhere": "checkpoint: {dirpath: /elsewhere/evil}",
        "metrics outside": logger("CSVLogger", name="../../evil"),
        "metrics elsewhere": logger("TensorBoardLogger", version="/elsewhere/evil"),
        "metrics at home": logger("TensorBoardLogger", sub_dir="~/evil"),
        "a profile outside": given("profiler", "SimpleProfiler", filename="a/../../evil"),
        "a callback's own folder": callback("ModelCheckpoint", dirpath="evil", monitor="x"),
    },
    "could start a program": {
        "a program for W&B": logger("WandbLogger", settings={"x_executable": "evil.sh"}),
        "a program for W&B, passed on": PASSED_ON,
    },
    "not UTF-8": {
        "not text": "model: \udcff",
    },
    "line": {
        "no recipe": "]",
    },
}
"""Lines of recipes, by a part of the message that refuses them."""
RECIPES = {name: (made, says) for says, found in REFUSED.items() for name, made in found.items()}
OPTIONS = {
    "callback": ("--trainer.callbacks+=beside.Mine", "'beside.Mine'"),
    "callback's class": ("--trainer.callbacks.class_path=beside.Mine", "'beside.Mine'"),
    "layers": ("--model.layers=1000000000", "the most is 1,000"),
    "layers of one side": ("--model.encoder={layers: 1000000000}", "the most is 1,000"),
    "bomb": (f"--model.encoder={nested(1000)}", "nested deeper"),
    "address": ("--config=https://example.com/mine.yaml", "reads files only"),
    "address of weights": ("--from=https://example.com/bert", "https://example.com"),
    "address as data": ("--data.root=https://example.com/mine", "https://example.com"),
    "outside": ("--checkpoint.filename=../../evil", "--run FOLDER"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("strangers")
    (place / "beside.py").write_text(EVIL, "utf-8")
    for kind, texts in (
        ("good", GOOD),
        ("evil", {name: text for name, (text, _) in RECIPES.items()}),
    ):
        (place / kind).mkdir()
        for name, text in texts.items():
            more = "\n".join(
                line
                for line in HEAD.splitlines()
                if not (line.startswith("data:") and text.startswith("data:"))
            )
            (place / kind / f"{name.replace('/', ' ')}.yaml").write_bytes(
                f"{more}\n{text}\n".encode("utf-8", "surrogateescape")
            )
    return place


@pytest.fixture(scope="module")
def told(folder):
    """What ``tfzoo fit`` did with every hostile recipe and option, in one process, into which they
    load nothing heavy.
    """
    evil = {path.stem: ["fit", str(path)] for path in sorted((folder / "evil").glob("*.yaml"))}
    evil |= {
        f"option: {name}": ["fit", str(folder / "good" / "plain.yaml"), word]
        for name, (word, _) in OPTIONS.items()
    }
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{folder}",
        "MARKER": str(folder / "marker"),
    }
    script = [sys.executable, str(Path(__file__).with_name("strangers.py"))]
    words = json.dumps([*evil.values()])
    done = subprocess.run(
        script, input=words, env=env, cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(evil, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", GOOD)
def test_a_good_recipe_of_each_kind_passes(name, folder):
    assert main(["fit", str(folder / "good" / f"{name}.yaml"), "--print_config"]) == 0


def is_refused(found, says):
    assert found["code"] == 2, found
    assert found["out"] == ""
    assert found["err"].startswith("tfzoo: ")
    assert found["err"].count("\n") == 1, found["err"]
    assert "Traceback" not in found["err"]
    assert says in found["err"], found["err"]
    assert found["seconds"] < 10


HOSTILE = RECIPES | {f"option: {name}": option for name, option in OPTIONS.items()}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_recipe_is_refused_in_one_line_before_anything_is_imported(name, told, folder):
    found = told[name.replace("/", " ")]
    is_refused(found, HOSTILE[name][1])
    assert found["imported"] == []
    assert not (folder / "marker").exists()


def test_nothing_was_written_beside_the_recipes(told, folder):
    assert told
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {
        "beside.py",
        "evil",
        "good",
    }


class Calls:
    """Pickles to a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = function, args

    def __reduce__(self):
        return self.call


def touch():
    return Calls(os.system, "touch $MARKER")


def archived(whole, compression=zipfile.ZIP_STORED, **more):
    """The same entries, packed again, some of them changed: ``data_pkl`` is ``data.pkl``."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(whole)) as archive,
        zipfile.ZipFile(out, "w", compression) as made,
    ):
        for entry in archive.infolist():
            key = entry.filename.rpartition("/")[2].replace(".", "_")
            made.writestr(entry.filename, more.get(key, archive.read(entry)))
    return out.getvalue()


def pickled(whole):
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return next(
            archive.read(entry)
            for entry in archive.infolist()
            if entry.filename.endswith("data.pkl")
        )


def overlapping(whole):
    """The list of an archive names a thousand entries, all of them the same bytes."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        largest, start = (
            max(archive.infolist(), key=lambda entry: entry.file_size),
            archive.start_dir,
        )
    entries = []
    for n in range(1000):
        name = f"{largest.filename}{n}".encode()
        fields = (
            0x02014B50,
            0x031E,
            20,
            0,
            0,
            0,
            33,
            largest.CRC,
            largest.file_size,
            largest.file_size,
            len(name),
        )
        entries.append(
            struct.pack("<IHHHHHHIIIHHHHHII", *fields, 0, 0, 0, 0, 0, largest.header_offset) + name
        )
    body = b"".join(entries)
    return (
        whole[:start]
        + body
        + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1000, 1000, len(body), start, 0)
    )


def lying(whole):
    """Every storage is said to have 268 million numbers."""
    data = re.sub(
        rb"(cpuq.)(?:K.|M..)tq",
        lambda found: found[1] + b"J\xff\xff\xff\x0ftq",
        pickled(whole),
        flags=re.DOTALL,
    )
    assert data != pickled(whole)
    return archived(whole, data_pkl=data)


def laughs(levels):
    value = ["ha"] * 9
    for _ in range(levels):
        value = [value] * 9
    return value


def within_itself():
    value = []
    value.append(value)
    return value


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


def changed(good, **changes):
    """The good checkpoint with other values: ``recipe__model__dim=8`` changes one in the middle of
    its key ``tfzoo``.
    """
    kept = json.loads(json.dumps(good["tfzoo"]))
    for path, value in changes.items():
        *parents, last = path.split("__")
        here = kept
        for key in parents:
            here = here[key]
        here[last] = value
    return {**good, "tfzoo": kept}


def with_weight(good, weight):
    first = next(iter(good["state_dict"]))
    return {**good, "state_dict": {**good["state_dict"], first: weight}}


def saved(value):
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def flipped(whole):
    return (
        whole[: len(whole) // 2]
        + bytes([whole[len(whole) // 2] ^ 1])
        + whole[len(whole) // 2 + 1 :]
    )


def legacy(value):
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


BESIDE = {"trainer": {"callbacks": [{"class_path": "beside.Mine"}]}}
Make = Callable[[dict[str, Any]], bytes]
SPOILT: dict[str, dict[str, Make]] = {
    "bare pickle": {
        "a bare pickle": lambda good: pickle.dumps(touch()),
        "the old format": lambda good: legacy({**good, "callbacks": touch()}),
    },
    "no checkpoint": {
        "an old pickle": lambda good: pickle.dumps(touch(), 0),
    },
    "holds more than tensors": {
        "os.system": lambda good: saved({**good, "callbacks": touch()}),
        "eval": lambda good: saved(
            {**good, "loops": Calls(eval, "__import__('os').system('touch $MARKER')")}
        ),
        "exec": lambda good: saved(Calls(exec, "import beside")),
        "a module beside it": lambda good: archived(
            saved(good), data_pkl=b"\x80\x02cbeside\nMine\n)R."
        ),
        "torch's own loader": lambda good: saved(Calls(torch.load, "other.ckpt")),
        "a whole module": lambda good: saved({**good, "model": torch.nn.Linear(2, 2)}),
    },
    "_instantiator": {
        "an instantiator": lambda good: saved(
            {**good, "callbacks": {"x": {"_instantiator": "os.system"}}}
        ),
    },
    "hyper_parameters": {
        "an instantiator of a module": lambda good: saved(
            {**good, "hyper_parameters": {"_instantiator": "os.system", "command": TOUCH}}
        ),
    },
    "damaged": {
        "a flipped bit": lambda good: flipped(saved(good)),
        "a storage larger than the file": lambda good: lying(saved(good)),
    },
    "cut short": {
        "cut short": lambda good: saved(good)[:-100],
    },
    "empty": {
        "nothing": lambda good: b"",
    },
    "compressed": {
        "deflated": lambda good: archived(saved(good), zipfile.ZIP_DEFLATED),
        "a deflated bomb": lambda good: archived(
            saved({**good, "x": torch.zeros(25_000_000)}), zipfile.ZIP_DEFLATED
        ),
    },
    "more than its": {
        "entries over each other": lambda good: overlapping(saved(good)),
    },
    "holds a tensor of shape [1000000000000]": {
        "a stride of 0": lambda good: saved(with_weight(good, torch.zeros(1).expand(10**12))),
    },
    "holds a tensor": {
        "rows over each other": lambda good: saved(
            {**good, "x": torch.zeros(10**4).as_strided((9000, 1000), (1, 1))}
        ),
    },
    "holds a tensor of a kind": {
        "a tensor without memory": lambda good: saved(
            with_weight(good, torch.empty(10**12, device="meta"))
        ),
        "a sparse tensor": lambda good: saved(with_weight(good, torch.eye(3).to_sparse())),
    },
    "refused": {
        "a quantized tensor": lambda good: saved(with_weight(good, quantized())),
    },
    "values or": {
        "values in values": lambda good: saved({**good, "loops": laughs(12)}),
    },
    "levels": {
        "a list in itself": lambda good: saved({**good, "loops": within_itself()}),
    },
    "do not fit": {
        "a wider model than is stored": lambda good: saved(changed(good, recipe__model__dim=4096)),
        "a table of gigabytes": lambda good: saved(
            changed(good, recipe__model__position="relative_bias", recipe__model__max_length=10**7)
        ),
    },
    "model.layers is 900; the most is": {
        "more layers than are stored": lambda good: saved(changed(good, recipe__model__layers=900)),
    },
    "model.layers is 1e+06; the most is": {
        "a million layers": lambda good: saved(changed(good, recipe__model__layers=10**6)),
    },
    "no norm named": {
        "a recipe that names code": lambda good: saved(
            changed(good, recipe__model__norm="beside.Mine")
        ),
    },
    "incomplete": {
        "a recipe of a list": lambda good: saved(changed(good, recipe=[1])),
    },
    "contents do not match": {
        "a model of a list": lambda good: saved(changed(good, recipe__model=[1])),
        "a tokenizer of nothing": lambda good: saved(changed(good, tokenizer={})),
        "a tokenizer of noise": lambda good: saved(changed(good, tokenizer__states=["{"])),
        "a counter that is none": lambda good: saved(changed(good, batches="many")),
    },
    "no tokenizer named": {
        "a tokenizer by path": lambda good: saved(changed(good, tokenizer__tokenizer="../../evil")),
    },
    "": {
        "weights that are none": lambda good: saved({**good, "state_dict": "none"}),
    },
    "it is missing": {
        "a missing weight": lambda good: saved({**good, "state_dict": {"x": torch.ones(1)}}),
    },
    "not 'translation'": {
        "another task": lambda good: saved(changed(good, task="os:system")),
    },
}
"""Checkpoints, by a part of the message that refuses them."""
CHECKPOINTS = {name: (made, says) for says, found in SPOILT.items() for name, made in found.items()}


@pytest.fixture(scope="module")
def good():
    """A checkpoint as a training writes it."""
    tokenizer = create("tokenizer", {"name": "bpe", "vocab_size": 270})
    tokenizer.train(["one two three", "four five six"])
    model = Transformer(vocab_size=len(tokenizer), dim=16, heads=2, layers=1)
    task = TranslationTask(
        model,
        TokenizerPair(tokenizer, tokenizer, "en", "de", {"name": "bpe", "vocab_size": 270}),
        optim=Optim(),
    )
    task.recipe |= {"data": {"dataset": "numbers"}, "trainer": {}}
    checkpoint = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    return checkpoint


@pytest.fixture
def place(own_folder, monkeypatch):
    (own_folder / "beside.py").write_text(EVIL, "utf-8")
    (own_folder / "text").write_text("one\n", "utf-8")
    monkeypatch.syspath_prepend(str(own_folder))
    monkeypatch.setenv("MARKER", str(own_folder / "marker"))
    return own_folder


def test_a_good_checkpoint_passes(good, place, capsys):
    (place / "good.ckpt").write_bytes(saved(good))
    assert main(["translate", "good.ckpt", "text"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_hostile_checkpoint_is_refused_in_one_line(name, good, place, capsys):
    make, says = CHECKPOINTS[name]
    (place / "evil.ckpt").write_bytes(make(good))
    start = time.perf_counter()
    code = main(["translate", "evil.ckpt", "text"])
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines(keepends=True) if not line.startswith("checkpoint: ")]
    is_refused(
        {"code": code, "out": out, "err": "".join(lines), "seconds": time.perf_counter() - start},
        says,
    )
    assert not (place / "marker").exists()
    assert "beside" not in sys.modules


def test_a_checkpoint_whose_recipe_names_code_is_refused_by_every_command_that_reads_its_recipe(
    good, place, capsys
):
    (place / "evil.ckpt").write_bytes(
        saved(changed(good, recipe__data={"root": "https://example.com"}, recipe__callbacks=BESIDE))
    )
    for command in ("test", "validate", "predict"):
        assert main([command, "evil.ckpt"]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert not (place / "marker").exists()


def test_what_is_refused_on_the_command_line_is_refused_from_python(good, place):
    (place / "evil.ckpt").write_bytes(saved(changed(good, recipe__model__dim=10**6)))
    with pytest.raises(BadRun, match="do not fit"):
        TranslationTask.load("evil.ckpt")


def test_every_load_says_that_it_takes_weights_alone():
    """Explicitly: an environment variable turns the default off."""
    loads = 0
    for path in Path(tfzoo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and called.endswith(
                ("torch.load", "load_from_checkpoint")
            ):
                loads += 1
                assert any(
                    word.arg == "weights_only" and ast.unparse(word.value) == "True"
                    for word in node.keywords
                ), path
            if called == "pickle.loads" and "pickle.dumps(" in ast.unparse(node):
                continue  # a copy of an object of this process
            assert called not in (
                "pickle.load",
                "pickle.loads",
                "eval",
                "exec",
                "yaml.unsafe_load",
                "yaml.full_load",
            ), path
    assert loads


@pytest.mark.parametrize(
    "name", ["../../evil", "a/b", "/evil", "..", ".hidden", "a\\b", "a:b", "a\nb", ""]
)
@pytest.mark.parametrize("data", [tfzoo.ClassificationData, tfzoo.TranslationData])
def test_a_test_set_is_not_named_as_a_path(name, data):
    with pytest.raises(BadOption, match=r"data\.test: a test set cannot be named"):
        data(root=".", test={name: "x"})


@pytest.mark.parametrize(
    "base", ["/dev/zero", "/dev/stdin", "http://example.com/x.yaml", "..", "mine.yaml", "code.yaml"]
)
def test_a_hostile_base_is_refused_in_one_line(base, tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(f"base: {base}\n", "utf-8")
    (tmp_path / "code.yaml").write_text(
        "task: translation\ntrainer: {callbacks: [os.system]}\n", "utf-8"
    )
    assert main(["fit", str(tmp_path / "mine.yaml"), "--print_config"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_every_line_of_the_page_names_a_test():
    rows = [
        line
        for line in (ROOT / "docs/threats.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| attack ")
    ]
    assert len(rows) > 10
    tests = [Path(__file__), *sorted((ROOT / "tests/serving").glob("*.py"))]
    here = "".join(path.read_text("utf-8") for path in tests)
    for row in rows:
        named = row.rstrip(" |").rpartition(" | ")[2]
        assert named.startswith("same") or "`" in named, row
        for name in re.findall(r"`(test_\w+)`", named):
            assert f"def {name}(" in here, name
