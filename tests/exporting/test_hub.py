"""Models are pushed to and loaded from a Hub that is a folder: nothing reaches the network."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
import transformers
from huggingface_hub.utils import filter_repo_objects

import tfzoo
from tests.exporting.tasks import LINES, translator
from tfzoo import TranslationTask
from tfzoo.commands.main import main
from tfzoo.errors import BadRun, TfzooError


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder that stands for the Hub."""
    place = tmp_path / "hub"

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, **rest):
        names = [path.name for path in Path(folder_path).iterdir()]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            shutil.copy(Path(folder_path) / name, place / repo_id)
        return SimpleNamespace(commit_url=f"https://huggingface.co/{repo_id}/commit/1")

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

    def create_repo(self, repo_id, **rest):
        huggingface_hub.utils.validate_repo_id(repo_id)
        if repo_id.startswith("other/"):
            raise OSError("403 Forbidden: you have no right to write here")
        (place / repo_id).mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create_repo)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload_folder)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return place


def test_what_is_pushed_is_loaded_by_its_address(hub, tmp_path, capsys):
    task = translator()
    assert task.push_to_hub("me/numbers") == "https://huggingface.co/me/numbers/commit/1"
    card = (hub / "me/numbers/README.md").read_text("utf-8")
    assert 'tfzoo.load("hf://me/numbers")' in card
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
    translator().push_to_hub("me/numbers")
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


def test_a_refusal_of_the_hub_is_one_line(hub):
    with pytest.raises(TfzooError, match=r"cannot push to other/x: 403 Forbidden"):
        translator().push_to_hub("other/x")
    with pytest.raises(TfzooError, match="cannot push to"):
        translator().push_to_hub("a b")
