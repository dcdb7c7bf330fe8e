"""Training text that is read as a stream."""

import gzip
from collections import Counter
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.data.servers import respond, served
from tfzoo import ClassificationData, TranslationData
from tfzoo.data import loaders
from tfzoo.data.documents import DocumentData, MaskedData
from tfzoo.data.source import files_of
from tfzoo.data.table import TextFormat
from tfzoo.errors import BadData, BadOption, BadRun

FILES, PAIRS = 10, 40


def pairs(file):
    """Pairs of several lengths, none of which is in another file."""
    return [(f"a{file} b{row}" + " c" * (row % 7), f"d{file} e{row}") for row in range(PAIRS)]


def table(file):
    return "".join(f"{en}\t{de}\n" for en, de in [("en", "de"), *pairs(file)]).encode()


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Blocks that are smaller than files."""
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loaders, "ROWS", 8 * 15)


@pytest.fixture
def text(tmp_path):
    for file in range(FILES):
        with gzip.open(tmp_path / f"part-{file:02}.tsv.gz", "wb") as whole:
            whole.write(table(file))
    (tmp_path / "val.tsv").write_bytes(table(99))
    return tmp_path


def of(text, **options):
    given = {"train": str(text / "part-*.tsv.gz"), "val": str(text / "val.tsv"), "stream": 30}
    data = TranslationData(**{**given, "tokenizer": "word", "max_tokens": 64, **options})
    data.prepare_data()
    data.setup("fit")
    return data


def read(data, batches):
    """The text of batches."""
    both = data.tokenizers
    return [
        [*zip(both.source.decode(source), both.target.decode(target), strict=True)]
        for source, target in ((one.source.tolist(), one.target.tolist()) for one in batches)
    ]


def process(data, rank, world_size):
    """The batches of one of several processes."""
    place = {"global_rank": rank, "world_size": world_size}
    data.trainer = SimpleNamespace(**place, limit_train_batches=None)
    return data.train_dataloader()


def resumed(data, state):
    """The batches after those of a state."""
    loader = data.train_dataloader()
    loader.load_state_dict(state)
    return loader


def test_a_pass_has_every_row_once_and_the_next_one_another_order(text):
    data = of(text)
    passes = [{}, {}]
    begun = Counter[int]()
    for number, place, batch in data.train_dataloader().stream:
        if begun[number] < 2:
            passes[begun[number]].setdefault(number, []).extend(read(data, [batch])[0])
        begun[number] = place.passes
        if len(begun) == loaders.READERS and min(begun.values()) == 2:
            break
    first, second = ([row for rows in each.values() for row in rows] for each in passes)
    assert Counter(first) == Counter(pair for file in range(FILES) for pair in pairs(file))
    assert Counter(second) == Counter(first)
    assert second != first


def test_batches_have_rows_of_similar_length_and_at_most_the_tokens(text):
    shuffled = {batch.source.size(1) for batch in of(text).train_dataloader()}
    assert len(shuffled) > 3
    for batch in of(text).train_dataloader():
        assert batch.source.numel() <= 64
        assert batch.target[:, 1:].numel() <= 64
        lengths = (batch.source != 0).sum(1)
        assert lengths.max() - lengths.min() <= 4


def test_the_order_is_that_of_the_seed_whatever_the_workers(text):
    wanted = read(of(text), of(text).train_dataloader())
    assert len(wanted) == 30
    assert wanted == read(of(text), of(text, workers=2).train_dataloader())
    assert wanted == read(of(text), of(text, workers=3).train_dataloader())
    assert wanted != read(of(text), of(text, seed=1).train_dataloader())


@pytest.mark.parametrize("workers", [0, 2])
def test_several_processes_take_turns_in_the_order_of_one_and_read_their_own_files(text, workers):
    wanted = read(of(text), of(text, stream=40).train_dataloader())
    data = [of(text, stream=20, workers=workers) for _ in (0, 1)]
    each = [read(one, process(one, rank, 2)) for rank, one in enumerate(data)]
    assert [batch for both in zip(*each, strict=True) for batch in both] == wanted
    first, second = ({pair[0].split()[0] for batch in one for pair in batch} for one in each)
    assert not first & second


@pytest.mark.parametrize(("taken", "workers"), [(1, 0), (23, 2), (61, 0), (95, 3)])
def test_a_stream_goes_on_in_the_middle_of_a_file(text, taken, workers):
    whole = of(text, stream=140)
    loader = whole.train_dataloader()
    batches = iter(loader)
    list(islice(batches, taken))
    state = loader.state_dict()
    rest = read(whole, batches)
    again = of(text, stream=140, workers=workers)
    assert read(again, resumed(again, state)) == rest
    assert len(rest) == 140 - taken


def test_a_resume_reads_no_file_that_was_read_before(text, monkeypatch):
    loader = of(text, stream=140).train_dataloader()
    list(islice(loader, 120))
    places = loader.state_dict()["places"].values()
    again = resumed(of(text, stream=140), loader.state_dict())
    opened, own = [], loaders.Files.open

    def opening(files, name):
        opened.append(name)
        return own(files, name)

    monkeypatch.setattr(loaders.Files, "open", opening)
    next(iter(again))
    assert any(place["file"] or place["passes"] for place in places)
    assert len(opened) <= 3 * loaders.READERS


def test_a_place_of_other_processes_goes_on_unless_there_are_other_readers(text):
    one = of(text, stream=40)
    loader = one.train_dataloader()
    batches = iter(loader)
    list(islice(batches, 10))
    state, rest = loader.state_dict(), read(one, batches)
    two = []
    for rank in (0, 1):
        data = of(text, stream=20)
        loader = process(data, rank, 2)
        loader.load_state_dict(state)
        two.append(read(data, loader))
    assert [batch for both in zip(*two, strict=True) for batch in both] == rest
    with pytest.raises(BadRun, match=r"the checkpoint has 8 readers .* 3 processes have 6"):
        process(data, 0, 3).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_row_that_cannot_be_read_ends_training_with_its_file_and_line(text, workers):
    with gzip.open(text / "part-11.tsv.gz", "wb") as whole:
        whole.write(b"en\tde\n" + b"a\tb\n" * 20 + b"alone\n")
    data = of(text, stream=1000, workers=workers)
    with pytest.raises(BadData, match=r"part-11.tsv.gz, line 22: 1 column\(s\) inst") as error:
        list(data.train_dataloader())
    assert "\n" not in str(error.value)


def test_text_of_which_no_row_can_be_used_is_an_error(tmp_path):
    for file in range(2):
        (tmp_path / f"part-{file}.tsv").write_text("en\tde\n" + "a b c\td e f\n" * 9)
    (tmp_path / "val.tsv").write_text("en\tde\na\tb\n")
    data = of(tmp_path, train=str(tmp_path / "part-*.tsv"), max_length=2)
    with pytest.raises(BadData, match="no row can be used"):
        list(data.train_dataloader())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stream": 0}, "data.stream"),
        ({"val": None}, "data.val is not given"),
        ({"val": None, "val_fraction": 0.1}, "data.val is not given, and nothing is held out of a"),
        ({"train": [("a", "b")]}, "data.stream reads files"),
        ({"train": pd.DataFrame({"en": ["a"], "de": ["b"]})}, "data.stream reads files"),
        ({"train": None, "val": None, "dataset": "numbers"}, "data.stream reads files"),
        ({"train": "https://host/part-*.tsv"}, "https:// lists no files for a pattern"),
    ],
)
def test_what_cannot_be_a_stream_is_refused(text, options, words):
    with pytest.raises(BadOption, match=words):
        of(text, **options)


def test_text_with_labels_and_too_few_files_for_the_processes_are_refused(text):
    with pytest.raises(BadOption, match=r"data.stream: what labels there are"):
        ClassificationData(train="a.tsv", val="b.tsv", stream=10)
    with pytest.raises(BadData, match="10 files are too few for 11 processes"):
        process(of(text), 0, 11)


@pytest.mark.parametrize("kind", [DocumentData, MaskedData])
def test_documents_are_read_as_a_stream(kind, tmp_path):
    for file in range(3):
        lines = [f"file{file} line{row}" for row in range(30)]
        (tmp_path / f"{file}.txt").write_text("\n\n".join(lines) + "\n", "utf-8")
    (tmp_path / "val").write_text("one line\n", "utf-8")

    def made():
        options = {"tokenizer": "word", "max_tokens": 64, "max_length": 16, "stream": 20}
        data = kind(train=str(tmp_path / "*.txt"), val=str(tmp_path / "val"), **options)
        data.prepare_data()
        data.setup("fit")
        return data

    data = made()
    batches = [batch.tokens.tolist() for batch in data.train_dataloader()]
    assert len(batches) == 20
    assert batches == [batch.tokens.tolist() for batch in made().train_dataloader()]
    assert "stream of 3 files, 20 batches an epoch" in data.describe()


# Addresses


@contextmanager
def server(broken=""):
    """A server of the tables, which breaks off one of them; the addresses, and what was asked."""
    found = SimpleNamespace(asked=Counter())

    def answer(handler):
        name = handler.path.rpartition("/")[2]
        found.asked[name] += handler.command == "GET"
        body = gzip.compress(table(int(name[5:7])), mtime=0)
        handler.close_connection = name == broken
        part = body[:40] if handler.close_connection else body
        respond(handler, 200, part, Content_Length=len(body), ETag=name)

    with served(answer) as port:
        names = [f"part-{number:02}.tsv.gz" for number in range(FILES)]
        found.addresses = [f"http://127.0.0.1:{port}/{name}" for name in names]
        yield found


def test_addresses_are_read_as_files_are(text):
    wanted = read(of(text), of(text).train_dataloader())
    with server() as there:
        data = of(text, train=there.addresses)
        found = read(data, data.train_dataloader())
    assert found == wanted
    assert set(there.asked.values()) == {1}


def test_a_server_that_breaks_off_ends_training_in_one_line(text):
    with server(broken="part-08.tsv.gz") as there:
        data = of(text, train=there.addresses, stream=1000)
        with pytest.raises(BadData, match=r"cannot read http://.*part-08.tsv.gz .*the network"):
            list(data.train_dataloader())


def test_a_pattern_at_an_address_is_listed():
    system = MemoryFileSystem()
    for name in ("b.tsv", "a.tsv", "c.txt", "p1.en", "p1.de", "p2.en", "p2.de"):
        system.pipe_file(f"/listed/{name}", b"x")
    form = TextFormat(("en", "de"), ("en", "de"))
    for pattern, names in (("*.tsv", ["a.tsv", "b.tsv"]), ("p*", ["p1", "p2"])):
        found = files_of(Path(), [f"memory://listed/{pattern}"], form)
        assert found == [f"memory://listed/{name}" for name in names]
    with pytest.raises(BadData, match="no file matches"):
        files_of(Path(), ["memory://listed/*.csv"], form)
