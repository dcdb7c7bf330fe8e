"""The cache is one folder, and what stands in it is whole."""

import pytest

from tfzoo.base import cache


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(path, content="four"):
    with cache.filling(path) as folder:
        (folder / "file").write_text(content)


def test_without_it_the_users_cache_folder_is_taken(monkeypatch, tmp_path):
    monkeypatch.delenv("TFZOO_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "tfzoo"


def test_an_entry_appears_when_it_is_complete(empty):
    path = cache.entry("ids", "key")
    with cache.filling(path) as folder:
        (folder / "file").write_text("half")
        assert not path.exists()
    assert (path / "file").read_text() == "half"


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_one_that_is_interrupted_leaves_nothing(stop):
    path = cache.entry("ids", "key")

    def half():
        with cache.filling(path) as folder:
            (folder / "file").write_text("half")
            raise stop

    with pytest.raises(stop):
        half()
    assert not path.exists()
    assert cache.size() == 0


def test_size_counts_what_tfzoo_made_and_nothing_else(empty):
    assert cache.size() == 0
    fill(cache.entry("ids", "key"))
    (empty / "thesis.txt").write_text("mine")
    size = sum(len(path.read_bytes()) for path in (empty / cache.SHELF).glob("*/*"))
    assert cache.size() == size > 4


HARMS = {
    "flipped": ("file", "fous"),
    "torn": ("file", "fou"),
    "missing": ("file", None),
    "no checksums": (cache.CHECKSUMS, None),
    "no JSON": (cache.CHECKSUMS, "{"),
    "a list": (cache.CHECKSUMS, "[[]]"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_entry_is_named_and_replaced(harm, capsys):
    path = cache.entry("ids", "key")
    assert not cache.is_whole(path)
    fill(path)
    assert cache.is_whole(path)
    assert not capsys.readouterr().err
    name, content = HARMS[harm]
    (path / name).unlink()
    if content is not None:
        (path / name).write_text(content)
    assert not cache.is_whole(path)
    what = "file" if name == "file" else "checksums"
    said = f"data: the cache entry ids-key is damaged ({what}) and is made again\n"
    assert said in capsys.readouterr().err
    fill(path)
    assert cache.is_whole(path)


def test_of_two_that_make_an_entry_neither_fails_and_the_first_is_kept():
    path = cache.entry("ids", "key")
    with cache.filling(path) as slow:
        (slow / "file").write_text("otherwise")
        fill(path)
        with (path / "file").open() as held:
            fill(path)
            assert held.read() == "four"
    assert (path / "file").read_text() == "four"
    assert cache.is_whole(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
