"""Text at an address is copied into the cache once a version; other addresses are refused."""

from pathlib import Path

import fsspec
import pytest

from tests.data.servers import respond, served
from tests.typed import typed
from tfzoo.commands.main import main
from tfzoo.config.recipe import Source
from tfzoo.data import remote
from tfzoo.data.classification import ClassificationData
from tfzoo.data.source import find_texts
from tfzoo.data.table import TextFormat
from tfzoo.data.translation import TranslationData
from tfzoo.errors import BadData, BadOption, BadRecipe

TABLE = b"text\tlabel\na b\tx\nc d\ty\n"
DICTS = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.pipe("/text/train.tsv", TABLE)
    system.pipe("/text/pairs.en", b"one\n")
    system.pipe("/text/pairs.de", b"eins\n")
    yield system
    system.rm("/text", recursive=True)


def read(*addresses):
    columns = ("text", "label")
    return list(find_texts(Path(), addresses, TextFormat(columns, ("en", "de"))))


def test_a_table_at_an_address_is_read_and_copied_into_the_cache(tmp_path):
    address = "memory://text/train.tsv"
    data = ClassificationData(train=address, val=address, test={"tests": address})
    data.prepare_data()
    assert data.labels == ["x", "y"]
    assert data.test_names == ["tests"]
    assert Path(data.splits["val"].path).is_relative_to(tmp_path / "cache")


def test_pairs_and_lists_of_addresses_are_read():
    found = read("memory://text/pairs", "memory://text/train.tsv")
    assert found == [("one", "eins"), ("a b", "x"), ("c d", "y")]


def test_a_server_is_read_once_for_each_version():
    asked, tables = [], [TABLE]

    def answer(handler):
        asked.append(handler.command)
        respond(handler, 200, tables[-1], ETag=len(tables))

    with served(answer) as port:
        address = f"http://127.0.0.1:{port}/train.tsv?download=1"
        assert read(address) == [("a b", "x"), ("c d", "y")]
        assert "GET" in asked
        asked.clear()
        assert len(read(address)) == 2
        assert "GET" not in asked
        tables.append(TABLE + b"e\tx\n")
        assert len(read(address)) == 3
    assert len(read(address)) == 3  # the server is gone, and the copy is there
    with pytest.raises(BadData, match=r"cannot read http://127.* Check the address"):
        read(f"{address}&other")


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "github://owner:name@/train.tsv",
        "reference://x",
        "sftp://host/train.tsv",
        "data:text/plain::https://host/x",
        "simplecache::https://host/train.tsv",
        "filecache::s3://bucket/train.tsv",
        "zip://train.tsv::https://host/all.zip",
        "HTTPS://host/train.tsv",
    ],
)
def test_an_address_that_is_no_plain_read_is_refused_everywhere(address):
    with pytest.raises(BadOption, match="is no address that tfzoo reads: it begins with one of gs"):
        TranslationData(train=[address, "a.tsv"], val="b.tsv").prepare_data()
    with pytest.raises(BadOption, match="is no address that tfzoo reads"):
        read(address)
    with pytest.raises(BadRecipe, match=r"mine.yaml: data.test.a.0: .* is no address that tfzoo r"):
        Source({"data": {"test": {"a": [address]}}}, "mine.yaml")


def test_an_address_stays_as_it_is_in_a_recipe_that_names_one(capsys):
    command = typed("fit classification/trec6 --data.train https://host/a.csv.gz --print_config")
    assert main(command) == 0
    assert "train: https://host/a.csv.gz" in capsys.readouterr().out
    command[3] = "http://host/a.csv"
    assert main(command) == 2
    assert "a recipe does not read http://, only https://" in capsys.readouterr().err


def test_what_cannot_be_reached_is_read_from_the_cache(monkeypatch, tmp_path, capsys):
    class Files:
        there = True

        def info(self, path):
            if not self.there:
                raise ConnectionError("no network")
            return {"size": 5}

        def get_file(self, path, to):
            Path(to).write_text("a\tb\n", "utf-8")

    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path))
    monkeypatch.setattr(remote, "opened", lambda address: (Files(), address))
    copy = remote.local_copy("https://x.org/a.tsv")
    Files.there = False
    assert remote.local_copy("https://x.org/a.tsv") == copy
    assert "the copy in the cache is used" in capsys.readouterr().err
    with pytest.raises(BadData, match="no network"):
        remote.local_copy("https://x.org/b.tsv")
