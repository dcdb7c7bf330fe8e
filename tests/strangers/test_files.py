"""A stranger's recipe, options, checkpoint or folder runs no code: any value, any place."""

import ast
import io
import json
import os
import pickle
import random
import shutil
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import tfzoo
from tests.tiny import numbers
from tests.typed import typed
from tfzoo.base.registry import registry
from tfzoo.base.yaml_files import parse_yaml
from tfzoo.commands.main import main
from tfzoo.config.config import sections
from tfzoo.config.recipe import TOP
from tfzoo.errors import BadRecipe

BESIDE = "import os, pathlib\npathlib.Path(os.environ['MARKER']).touch()\nMine = object\n"
TOUCH = "touch $MARKER"


class Calls:
    """Pickles to a call."""

    def __reduce__(self):
        return os.system, (TOUCH,)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a module that must not be imported, and a trained run."""
    folder = tmp_path_factory.mktemp("strangers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("MARKER", str(folder / "marker"))
        Path("beside.py").write_text(BESIDE, "utf-8")
        Path("text").write_text("one two\n", "utf-8")
        assert main([*FIT, "--trainer.max_steps", "2"]) == 0
        assert main(["export", "run", "--to", "safetensors", "--output", "model"]) == 0
        yield folder


FIT = (
    *("fit", "translation/numbers", "--run", "run", *numbers(train=100, val=2, test=2)),
    *typed("--trainer.val_check_interval 2 --optim.schedule inverse_sqrt"),
)


@pytest.fixture
def refused(place, capsys):
    """Run a command, which must succeed or say one line; returns the exit code."""

    def run(*words):
        capsys.readouterr()
        code = main(list(words))
        err = capsys.readouterr().err
        assert "Traceback" not in err, err
        assert not (place / "marker").exists(), words
        assert "beside" not in sys.modules, words
        said = [line for line in err.splitlines() if line.startswith("tfzoo: ")]
        assert all(line.isprintable() for line in said)
        if code == 1:  # numbers that ended in NaN when they were used
            assert "finite" in said[-1], (words, err)
        elif code:
            assert code == 2, (words, code, err)
            assert len(said) == 1, (words, err)
        return code

    return run


# Recipes

CODE: dict[str, Any] = {
    "a class beside": {"class_path": "beside.Mine"},
    "its name": "beside.Mine",
    "a list of it": [{"class_path": "beside.Mine"}],
    "os.system": "os.system",
    "os behind a file of Lightning's": "lightning.pytorch.callbacks.model_checkpoint.os.system",
    "another's class in a file of Lightning's": "lightning.pytorch.callbacks.timer.timedelta",
    "a class in a text": '{"class_path": "beside.Mine"}',
    "LambdaCallback": {"class_path": "LambdaCallback", "init_args": {"setup": "os.system"}},
    "a function as an option": {
        "class_path": "StochasticWeightAveraging",
        "init_args": {"swa_lrs": 1.0, "avg_fn": "os.system"},
    },
    "a program": {
        "class_path": "WandbLogger",
        "init_args": {"settings": {"x_executable": "evil.sh"}},
    },
}
ELSEWHERE: dict[str, Any] = {
    "above": "../../evil",
    "elsewhere": "/elsewhere/evil",
    "at home": "~/evil",
    "an address": "https://example.com/mine",
    "a folder of a logger": {"class_path": "CSVLogger", "init_args": {"name": "../evil"}},
    "a callback's folder": {
        "class_path": "ModelCheckpoint",
        "init_args": {"dirpath": "evil", "monitor": "val/chrf"},
    },
}
ODD: dict[str, Any] = {
    **{"null": None, "nothing": "", "a list": [], "a mapping": {}, "yes": True, "below": -1},
    **{"a fraction": 0.5, "nan": float("nan"), "inf": float("inf"), "huge": 10**19},
    **{"a billion": 10**9, "many digits": 10**38, "words": "two words", "a zero": "a\0b"},
    **{"half a character": "a\ud800", "long": "x" * 300, "escapes": "\x1b[31mred\x9b"},
    **{"a list of lists": [[1], [2]], "deep": [[[[[[1]]]]]], "numbers": [1, 2], "keys": {"a": 1}},
    **{"a mapping of none": {"name": None}, "a key of none": {None: 1}, "a tuple of keys": {1: 2}},
}
KEYS = [
    *TOP,
    *(
        f"{name}.{key}"
        for name, section in sections(registry("task").entry("translation").cls).items()
        for key in section.hints
    ),
]


def recipe(key, value):
    """A recipe with a value in the place of a key."""
    values: dict[str, Any] = {"task": "translation", "data": {"dataset": "numbers"}}
    first, _, second = key.partition(".")
    if second:
        values[first] = {**values.get(first, {}), second: value}
    else:
        values[first] = value
    Path("mine.yaml").write_text(yaml.safe_dump(values), "utf-8")
    return "mine.yaml"


PARTS = 12


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
def test_any_value_in_the_place_of_any_key_of_a_recipe_is_taken_or_refused(part, refused):
    values = [*CODE.values(), *ELSEWHERE.values(), *ODD.values()]
    pairs = [(key, value) for key in KEYS for value in values]
    random.Random(0).shuffle(pairs)
    for key, value in pairs[part::PARTS]:
        refused("fit", recipe(key, value), "--print_config")


@pytest.mark.parametrize("key", ["callbacks", "logger", "strategy", "profiler", "plugins"])
def test_what_names_code_is_refused_wherever_lightning_would_import_it(key, refused):
    for name, value in CODE.items():
        assert refused("fit", recipe(f"trainer.{key}", value), "--print_config") == 2, name
        option = f"--trainer.{key}={json.dumps(value)}"
        assert refused("fit", "translation/numbers", option, "--print_config") == 2, name


@pytest.mark.parametrize("key", ["checkpoint.filename", "checkpoint.dirpath", "trainer.logger"])
def test_what_would_be_written_elsewhere_is_refused(key, refused):
    for name, value in ELSEWHERE.items():
        assert refused("fit", recipe(key, value), "--print_config") == 2, name


@pytest.mark.parametrize("key", ["from", "data.root", "data.train", "model.attention"])
def test_no_address_is_fetched_but_those_of_text(key, refused):
    for address in ("http://169.254.169.254/latest", "file:///etc/passwd", "ftp://example.com/x"):
        assert refused("fit", recipe(key, address), "--print_config") == 2, address


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.{1..1}", "10.0.0.{1..9}", "%31%32%37.0.0.1", "localhost", "[::1]"],
)
def test_no_address_of_text_names_a_private_host(host, refused):
    said = refused("fit", recipe("data.train", f"https://{host}/x.tsv"), "--print_config")
    assert said == 2


TAGS = (
    *("int", "float", "bool", "null", "str", "seq", "map", "timestamp", "binary", "set", "omap"),
    *("pairs", "merge", "value", "python/name:os.system", "python/module:beside"),
    *("python/object/apply:os.system", "python/object/new:os.system", "python/tuple", "include"),
)
SCALARS = (
    *('""', "maybe", "x", "1", "-", "0x", "1:2", ".inf", "[]", "[1]", "{}", "{a: 1}", "{a: }"),
    *("[a, b]", "[[a, b]]", "[{a: 1}]", "? [a]", "2020-13-45", "'\\0'", '"\\0"', '"\\uD800"', "~"),
    *(f"['{TOUCH}']", "&a [*a]", "*a", "<<", "{<<: 1}", "{<<: [1]}", "{? {a: 1} : 2}"),
    *("9" * 5000, "[" * 500, "{a: " * 500, "!x y", "!!", "%", "@", "`", "\t", "- a\nb", "a: b: c"),
)
NESTED = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
TEXTS = (f"a0: &a0 [x]\n{NESTED}", "a: 1\na: 2", "#" * 300_000, "a: \udcff", "]", "base: mine.yaml")


def test_any_tag_before_any_scalar_is_a_plain_value_or_refused(place):
    for tag in ("", *(f"!!{tag} " for tag in TAGS), *(f"!{tag} " for tag in TAGS)):
        for scalar in SCALARS:
            with suppress(BadRecipe):
                json.dumps(parse_yaml(f"a: {tag}{scalar}", "mine.yaml"))
    assert "beside" not in sys.modules
    assert not (place / "marker").exists()


def test_a_text_that_is_no_recipe_is_refused(refused):
    for text in TEXTS:
        Path("mine.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert refused("fit", "mine.yaml", "--print_config") == 2
    for base in ("/dev/zero", "http://example.com/x.yaml", "..", "mine.yaml"):
        Path("mine.yaml").write_text(f"base: {base}\n", "utf-8")
        assert refused("fit", "mine.yaml", "--print_config") == 2


def test_a_name_from_a_file_cannot_command_the_terminal(refused, capsys):
    Path("mine.yaml").write_text('task: translation\nmodel: {"\\e[31mred": 1}\n', "utf-8")
    assert refused("fit", "mine.yaml") == 2
    assert main(["fit", "mine.yaml"]) == 2
    assert "\\x1b[31mred" in capsys.readouterr().err


# Checkpoints


def within() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


WRONG: dict[str, Any] = {
    **{"null": None, "a list": [], "a mapping": {}, "a text": "x", "yes": True, "below": -1},
    **{
        "nan": float("nan"),
        "huge": 10**40,
        "bytes": b"x",
        "a set": {1},
        "a list in itself": within,
    },
    **{"numbers": [1, 2], "complex": torch.ones(2, dtype=torch.complex64), "code": Calls()},
    **{"float8": torch.ones(2).to(torch.float8_e4m3fn), "a tensor": torch.ones(3), "a zero": "\0"},
    **{"without memory": torch.empty(2, device="meta"), "sparse": torch.eye(2).to_sparse()},
    **{"escapes": "\x1b[31m", "a path": "../../evil", "a key": {"\x1b[31m": 1}, "a size": 10**9},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The keys to each value in nested ones; of a list, and of tensors, to the first alone."""
    found, tensors = [path] if path else [], 0
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value[:1]):
            tensors += isinstance(inner, torch.Tensor)
            if tensors < 2 or not isinstance(inner, torch.Tensor):
                found += places(inner, (*path, key))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Nested values with another one in a place."""
    if not path:
        return new() if callable(new) else new
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = put(copy[key], tuple(rest), new)
    return copy


COMMANDS: tuple[Callable[[str], list[str]], ...] = (
    lambda run: ["predict", run, "text"],
    lambda run: ["export", run, "--output", "exported"],
    lambda run: ["fit", "translation/numbers", "--from", run, "--print_config"],
    lambda run: ["score", run, "--data.dataset.val", "1"],
)


def clear() -> None:
    shutil.rmtree("exported", ignore_errors=True)


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, 10))]
)
def test_any_value_in_any_place_of_a_checkpoint_is_taken_or_refused(part, refused):
    good = torch.load("run/checkpoints/last.ckpt", weights_only=True)
    paths = [path for path in places(good) if path[0] in ("tfzoo", "state_dict")]
    pairs = [(path, value) for path in paths for value in WRONG.values()]
    random.Random(0).shuffle(pairs)
    for number, (path, value) in enumerate(pairs[part::60]):
        torch.save(put(good, path, value), "evil.ckpt")
        clear()
        refused(*COMMANDS[number % len(COMMANDS)]("evil.ckpt"))


@pytest.mark.parametrize("name", ["complex", "float8", "code", "sparse", "without memory"])
def test_weights_of_another_kind_are_taken_or_refused_by_every_command(name, refused):
    good = torch.load("run/checkpoints/last.ckpt", weights_only=True)
    for first in (next(iter(good["state_dict"])), "beside"):
        changed = put(good, ("state_dict",), {**good["state_dict"], first: WRONG[name]})
        torch.save(changed, "evil.ckpt")
        for command in COMMANDS:
            clear()
            refused(*command("evil.ckpt"))


TRAINED = ("loops", "optimizer_states", "lr_schedulers", "callbacks", "global_step", "epoch")


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, 10))]
)
def test_a_run_goes_on_from_a_checkpoint_with_any_value_or_it_is_refused(part, refused):
    good = torch.load("run/checkpoints/last.ckpt", weights_only=True)
    paths = [path for path in places(good) if path[0] in TRAINED]
    pairs = [(path, value) for path in paths for value in WRONG.values()]
    random.Random(1).shuffle(pairs)
    for path, value in pairs[part::400]:
        goes_on(refused, put(good, path, value))


def goes_on(refused, checkpoint):
    shutil.rmtree("again", ignore_errors=True)
    shutil.copytree("run", "again")
    Path("again/checkpoints/best.ckpt").unlink()
    torch.save(checkpoint, "again/checkpoints/last.ckpt")
    return refused(*FIT, "--run", "again", "--trainer.max_steps", "3")


@pytest.mark.parametrize("key", ["loops", "optimizer_states"])
def test_a_training_without_its_states_does_not_go_on(key, refused):
    good = torch.load("run/checkpoints/last.ckpt", weights_only=True)
    for value in ([], {}, [{}], [1], {"fit_loop": {}}, "x", None):
        assert goes_on(refused, {**good, key: value}) == 2, value


def repacked(pickled: bytes) -> None:
    """``evil.ckpt``: the good checkpoint with another pickle, whose checksum is right."""
    with (
        zipfile.ZipFile("run/checkpoints/last.ckpt") as archive,
        zipfile.ZipFile("evil.ckpt", "w") as made,
    ):
        for entry in archive.infolist():
            is_pickle = entry.filename.endswith("data.pkl")
            made.writestr(entry.filename, pickled if is_pickle else archive.read(entry))


def test_a_pickle_with_any_byte_changed_or_a_call_put_in_it_runs_nothing(refused):
    with zipfile.ZipFile("run/checkpoints/last.ckpt") as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        good = archive.read(name)
    draw, call = random.Random(0), pickle.dumps(Calls(), 2)[2:-1]
    for _ in range(60):
        at = draw.randrange(2, len(good))
        repacked(good[:at] + bytes([draw.randrange(256)]) + good[at + 1 :])
        refused("predict", "evil.ckpt", "text")
        repacked(good[:at] + call + good[at:])
        refused("predict", "evil.ckpt", "text")
    for evil in (pickle.dumps(Calls(), 0), pickle.dumps(Calls()), b"", b"PK", b"\x80"):
        Path("evil.ckpt").write_bytes(evil)
        assert refused("predict", "evil.ckpt", "text") == 2
    old = io.BytesIO()
    torch.save({"a": Calls()}, old, _use_new_zipfile_serialization=False)
    Path("evil.ckpt").write_bytes(old.getvalue())
    assert refused("predict", "evil.ckpt", "text") == 2


# Folders


def test_any_value_in_any_place_of_a_folder_s_configuration_is_taken_or_refused(refused):
    config = json.loads(Path("model/config.json").read_text("utf-8"))
    shutil.copytree("model", "evil")
    values = [one for one in WRONG.values() if pretrained_value(one)]
    pairs = [(path, value) for path in places(config) for value in values]
    random.Random(0).shuffle(pairs)
    for path, value in pairs[:150]:
        Path("evil/config.json").write_text(json.dumps(put(config, path, value)), "utf-8")
        refused("predict", "evil", "text")
    for text in ("", "[1]", "[" * 10**5, "\xff", '{"format": ' + "9" * 5000 + "}"):
        Path("evil/config.json").write_text(text, "latin-1")
        assert refused("predict", "evil", "text") == 2


def pretrained_value(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def test_every_load_says_that_it_takes_weights_alone():
    """Explicitly: an environment variable turns the default off."""
    loads = 0
    for path in Path(tfzoo.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called.endswith(("torch.load", "load_from_checkpoint")):
                loads += 1
                assert any(
                    word.arg == "weights_only" and ast.unparse(word.value) == "True"
                    for word in node.keywords
                ), path
            if called == "pickle.loads" and "pickle.dumps(" in ast.unparse(node):
                continue  # a copy of an object of this process
            wrong = "pickle.load pickle.loads eval exec yaml.unsafe_load yaml.full_load"
            assert called not in wrong.split(), path
    assert loads
