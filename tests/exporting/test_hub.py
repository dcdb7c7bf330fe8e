"""Models are loaded from a Hub that is a folder: nothing reaches the network."""

import shutil

import huggingface_hub
import pytest
import torch
import transformers
from huggingface_hub.utils import filter_repo_objects

import tfzoo
from tests.exporting.tasks import LINES, translator
from tfzoo import TranslationTask
from tfzoo.commands.main import main
from tfzoo.errors import BadRun


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that stands for the Hub."""
    place = tmp_path / "hub"

    def snapshot_download(repo_id, *, allow_patterns, **rest):
        huggingface_hub.utils.validate_repo_id(repo_id)
        if not (place / repo_id).is_dir():
            raise OSError(f"404 Client Error.\n\nRepository Not Found: {repo_id}")
        copy = tmp_path / "copy" / str(rest["revision"])
        copy.mkdir(parents=True, exist_ok=True)
        names = [path.name for path in (place / repo_id).iterdir()]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            shutil.copy(place / repo_id / name, copy)
        return str(copy)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return place


def test_what_was_uploaded_is_loaded_by_its_address(hub, tmp_path, capsys):
    task = translator()
    task.save_pretrained(hub / "me/numbers")
    assert TranslationTask.load("hf://me/numbers").translate(LINES) == task.translate(LINES)
    (tmp_path / "lines").write_text("one two\n", "utf-8")
    assert main(["predict", "hf://me/numbers@v1", str(tmp_path / "lines")]) == 0
    assert capsys.readouterr().out == f"{task.translate(['one two'])[0]}\n"


def test_a_published_model_is_read_by_its_address_in_python_too(hub):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**sizes, vocab_size=20, num_hidden_layers=1)
    peer = transformers.LlamaForCausalLM(config).eval()
    peer.save_pretrained(hub / "you/llama")
    text = torch.tensor([[5, 9, 12]])
    torch.testing.assert_close(tfzoo.from_pretrained("hf://you/llama")(text), peer(text).logits)
    with pytest.raises(BadRun, match="no folder you/llama; at the Hub it is hf://owner/name"):
        tfzoo.from_pretrained("you/llama")


def test_only_the_files_of_a_model_are_fetched(hub, tmp_path):
    translator().save_pretrained(hub / "me/numbers")
    for name in ("modeling.py", "evil.pkl", "pytorch_model.bin"):
        (hub / "me/numbers" / name).touch()
    TranslationTask.load("hf://me/numbers")
    fetched = {path.name for path in (tmp_path / "copy/None").iterdir()}
    assert fetched == {"model.safetensors", "config.json", "tokenizer.json", "README.md"}


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("hf://me/nothing", "404 Client Error"),
        ("hf://me", "no address of the form"),
        ("hf://me/-numbers-", "cannot load"),
        ("hf://../../etc", "no address of the form"),
        ("hf://me/numbers/../x", "no address of the form"),
    ],
)
def test_an_address_without_a_model_is_one_line(hub, address, says):
    with pytest.raises(BadRun, match=says) as error:
        TranslationTask.load(address)
    assert "\n" not in str(error.value)
