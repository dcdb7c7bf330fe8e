"""The benchmark of a GPU runs on a CPU at small sizes, part by part, and writes no table of it."""

import pytest
import torch

from benchmarks import gpu


@pytest.mark.parametrize("part", gpu.PARTS, ids=lambda part: part.title.split(",")[0])
def test_a_part_prints_a_row_for_each_case(part, capsys):
    run = gpu.Run(torch.device("cpu"), small=True, products=1e9, bandwidth=1e9)
    gpu.measure(part, run, gpu.Page(None))
    lines = capsys.readouterr().out.strip().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) >= 2
    assert all(row.count("|") == len(part.columns) + 1 for row in rows)
    assert not any(line.startswith("Stopped") for line in lines), lines[-1]


def test_the_table_is_of_a_gpu_at_full_size_alone(capsys):
    for arguments in (["--write", "--device", "cpu"], ["--write", "--small", "--device", "cpu"]):
        with pytest.raises(SystemExit, match="2"):
            gpu.main(arguments)
        assert "figures of a GPU" in capsys.readouterr().err


def test_a_part_that_fails_says_so_and_the_others_go_on(capsys):
    def rows(run):
        yield ["1", "2"]
        raise torch.OutOfMemoryError("out of memory\nlong")

    part = gpu.Part("Title", ["a", "b"], rows, 10, 1)
    gpu.measure(part, gpu.Run(torch.device("cpu"), small=True), gpu.Page(None))
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "| 1 | 2 |",
        "",
        "Stopped: OutOfMemoryError: out of memory",
    ]


def test_a_part_ends_when_its_time_is_over(capsys):
    part = gpu.Part("Title", ["a"], lambda run: iter([["1"]] * 9), 0, 9)
    gpu.measure(part, gpu.Run(torch.device("cpu"), small=True), gpu.Page(None))
    said = capsys.readouterr().out.splitlines()
    assert said.count("| 1 |") == 1
    assert said[-1] == "Stopped after 0 seconds."
