"""Real processes: a training ends as it did, with a signal, and with whoever started it, in a new
Python and as a fork of the warm parent; and a fork is as much a process of its own.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.sweep.files import sweep_file
from tests.waiting import soon
from tfzoo.sweep.run import processes, warm_parent
from tfzoo.sweep.run.processes import WarmParent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

LARGE = 300 * 2**20
TRAINING = """
import os, resource, signal, subprocess, sys, time
if __name__ != "__main__":
    bytes(300 * 2**20)  # the warm parent once took this much
else:
    what = sys.argv[1]
    def say(name, value):
        open(f"{name}.tmp", "w").write(str(value))
        os.replace(f"{name}.tmp", name)
    if what == "say":
        imported = "training" in sys.modules
        threads = len(os.listdir("/proc/self/task"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pids = os.getpid(), os.getppid(), os.getpgid(0)
        given = os.environ["WORD"], sys.argv[2:], sys.stdin.read() == ""
        print(*given, imported, threads, peak, *pids)
    elif what == "wait":
        worker = subprocess.Popen(["sleep", "1000"])
        say("worker", worker.pid)
        say("command", os.getpid())
        time.sleep(100)
    elif what == "stop":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
        say("command", os.getpid())
        time.sleep(100)
    elif what == "exit":
        sys.exit(int(sys.argv[2]))
    elif what == "kill":
        os.kill(os.getpid(), int(sys.argv[2]))
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def number(path):
    """Of a process that has written it there."""
    return int(soon(lambda: path.is_file() and path.read_text(), 20))


def gone(*pids):
    return soon(lambda: not any(map(alive, pids)), 20)


@pytest.fixture
def parent(own_folder):
    (own_folder / "training.py").write_text(TRAINING)
    made = WarmParent(["training"], [], os.environ)
    yield made
    made.close()


def starter(start):
    def begin(*words):
        with Path("output.txt").open("ab") as output:
            environment = {**os.environ, "WORD": "given"}
            return start(["-m", "training", *words], environment, output)

    return begin


@pytest.fixture
def begin(parent):
    return starter(parent.start)


@pytest.fixture(params=["in a new Python", "forked"])
def begin_either(request, parent):
    return starter(parent.start if request.param == "forked" else processes.start)


def finish(child):
    code = child.wait()
    if child.stdin:
        child.stdin.close()
    return code


def test_a_supervisor_ends_as_its_training_does(begin_either):
    ends = [("exit", "0"), ("exit", "75"), ("kill", "9"), ("kill", "15")]
    children = [begin_either(*words) for words in ends]
    assert [finish(child) for child in children] == [0, 75, -9, -15]


def test_a_signal_to_the_supervisor_stops_the_training(begin_either):
    child = begin_either("stop")
    number(Path("command"))
    child.send_signal(signal.SIGTERM)
    assert finish(child) == 75


def test_a_training_and_its_workers_end_with_the_sweep(begin_either):
    child = begin_either("wait")
    family = number(Path("worker")), number(Path("command"))
    assert all(map(alive, family))
    child.stdin.close()
    assert gone(*family)
    assert finish(child) == -9


def test_a_training_ends_with_a_supervisor_that_is_killed(begin_either):
    child = begin_either("stop")
    command = number(Path("command"))
    os.kill(child.pid, signal.SIGKILL)
    assert finish(child) == -9
    assert gone(command)


def test_a_fork_is_a_process_of_its_own(begin, parent):
    child = begin("say", "a", "b")
    assert finish(child) == 0
    word, _, rest = Path("output.txt").read_text().partition(" ")
    assert word == "given", "its environment"
    assert rest.startswith("['a', 'b'] True True 1 "), (
        "its arguments, an empty standard input, what its parent has imported, one thread"
    )
    peak, pid, above, group = map(int, rest.split()[5:])
    assert peak * 1024 < LARGE, "what the parent once took is not the run's"
    assert pid != above == group == child.pid, "its supervisor leads the group"
    assert parent.process.pid != above


def test_a_parent_that_died_is_replaced_and_its_trainings_go_on(begin, parent, capsys):
    child = begin("stop")
    command = number(Path("command"))
    parent.process.kill()
    parent.process.wait()
    assert finish(begin("exit", "3")) == 3
    assert "the process that forks trainings ended (exit code -9)" in capsys.readouterr().err
    assert alive(command)
    child.send_signal(signal.SIGTERM)
    assert finish(child) == 75


def test_where_no_parent_lives_trainings_start_by_themselves(begin, monkeypatch):
    monkeypatch.setattr(warm_parent, "__name__", "no.such.module")
    assert finish(begin("exit", "3")) == 3


def test_the_parent_ends_with_the_sweep(begin, parent):
    assert finish(begin("exit", "0")) == 0
    parent.requests.close()
    assert parent.process.wait(20) == 0


def test_the_parent_ends_with_a_sweep_that_is_killed_while_it_imports(own_folder):
    (own_folder / "slow.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path('importing.tmp').write_text(str(os.getpid()))\n"
        "os.replace('importing.tmp', 'importing')\n"
        "time.sleep(60)\n"
    )
    sweep = os.fork()
    if not sweep:
        with suppress(BaseException):
            parent = WarmParent(["slow"], [], os.environ)
            parent.launch()
            time.sleep(60)
        os._exit(0)
    importing = number(Path("importing"))
    os.kill(sweep, signal.SIGKILL)
    os.waitpid(sweep, 0)
    assert gone(importing)


def sweep_in(folder, file, mark):
    from tfzoo.commands.main import main

    os.environ["TFZOO_TEST_MARK"] = mark
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    main(["sweep", file, "--run", folder, "--jobs", "2"])


def marked(mark):
    """The processes that a sweep has started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TFZOO_TEST_MARK={mark}".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [line for line in found if line]  # a zombie has none


@pytest.mark.nightly
def test_a_sweep_that_is_killed_at_any_moment_leaves_no_process(tmp_path):
    file = sweep_file(tmp_path, overrides={"trainer.max_steps": 200})
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.testing.warm"])
    started = 0
    for kill in range(20):
        mark = f"{os.getpid()}-{kill}"
        sweep = context.Process(target=sweep_in, args=(str(tmp_path / str(kill)), str(file), mark))
        sweep.start()
        time.sleep(0.3 + 0.6 * kill)
        started += bool(marked(mark))
        sweep.kill()
        sweep.join()
        time.sleep(2)
        assert not marked(mark), f"after kill {kill}"
    print(f"{started} of 20 sweeps had processes of their own when they were killed")
    assert started >= 5, "too few to tell"
