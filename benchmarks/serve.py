"""Load on ``tfzoo serve``: requests of many clients at a time, among them mistakes and clients that
go away; times, and the server's memory as it goes on.

    python benchmarks/serve.py runs/numbers/1     # 1,000 requests, 50 at a time
    python benchmarks/serve.py --requests 200     # an untrained model of the size of numbers

Exit code 1 if a request gets another status than it should, a request still has its place in the
end, or Ctrl-C does not end the server with 130. Reads memory on Linux.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode, urlsplit

WORDS = ["one", "two", "three", "twenty", "thirty", "ninety", "hundred", "thousand", "and"]
JSON = {"Content-Type": "application/json"}
GONE = 0
"""In place of a status: the client left."""


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 8)))


def request(chance: random.Random) -> tuple[int, str, str | None, dict[str, str]]:
    """What should come back, the path, the body, the headers."""
    kind = chance.choices(
        ["one", "several", "page", "no JSON", "too long", "unknown key", "leaves"],
        [60, 10, 10, 5, 5, 5, 5],
    )[0]
    path = "/translate"
    if kind == "page":
        return 200, "/show", urlencode({"text": text(chance)}), {}
    if kind == "several":
        return 200, path, json.dumps({"texts": [text(chance) for _ in range(8)]}), JSON
    if kind == "no JSON":
        return 400, path, '{"text": ', JSON
    if kind == "too long":
        return 422, path, json.dumps({"text": "a" * 5000}), JSON
    if kind == "unknown key":
        return 422, path, json.dumps({"txet": text(chance)}), JSON
    return 200 if kind == "one" else GONE, path, json.dumps({"text": text(chance)}), JSON


def ask(port: int, seed: int) -> tuple[int, int, float]:
    """The status that should come, the one that came, and the seconds."""
    wanted, path, body, headers = request(random.Random(seed))
    started = time.monotonic()
    if wanted == GONE:
        with socket.create_connection(("127.0.0.1", port)) as leaving:
            size = f"Content-Type: application/json\r\nContent-Length: {len(body or '')}"
            head = f"Host: localhost\r\n{size}"
            leaving.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}".encode())
            time.sleep(random.Random(seed).random() / 20)
        return GONE, GONE, time.monotonic() - started
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return wanted, answer.status, time.monotonic() - started
    finally:
        connection.close()


def memory(process: int) -> float:
    """Memory in MB of a process and all that it has started; what they share counts once."""
    own = Path(f"/proc/{process}/smaps_rollup").read_text()
    (line,) = [line for line in own.splitlines() if line.startswith("Pss:")]
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for path in tasks for child in path.read_text().split()]
    return int(line.split()[1]) / 1024 + sum(map(memory, children))


def untrained(folder: Path) -> Path:
    """A checkpoint of a model that has not been trained."""
    import torch

    import tfzoo
    from tfzoo.base.registry import create
    from tfzoo.data.tokenizer import TokenizerPair

    tokenizer = create("tokenizer", "bytes")
    pair = TokenizerPair(tokenizer, tokenizer, "en", "de", "bytes")
    recipe = {"model": {"dim": 128, "heads": 4, "layers": 3}, "search": {"max_length": 0.0}}
    task = tfzoo.TranslationTask.build(recipe, pair)
    checkpoint = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    torch.save(checkpoint, folder / "untrained.ckpt")
    return folder / "untrained.ckpt"


def load(port: int, server: int, count: int, clients: int) -> bool:
    """Send all requests, in ten parts, and print each part; whether all is as it should be."""
    wrong, statuses, seconds = [], Counter(), []
    with ThreadPoolExecutor(clients) as threads:
        for part in range(10):
            seeds = range(part * count // 10, (part + 1) * count // 10)
            started = time.monotonic()
            done = list(threads.map(lambda seed: ask(port, seed), seeds))
            rate = len(done) / (time.monotonic() - started)
            wrong += [one for one in done if one[0] != one[1]]
            statuses.update("left" if came == GONE else str(came) for _, came, _ in done)
            seconds += [spent for _, came, spent in done if came == 200]
            print(f"{seeds.stop:6,} requests  {rate:6.1f} a second  {memory(server):7.1f} MB")
    print("  ".join(f"{status}: {number}" for status, number in sorted(statuses.items())))
    cuts = statistics.quantiles(seconds, n=20)
    print(f"seconds to an answer: median {cuts[9]:.3f}, 95 % within {cuts[18]:.3f}")
    for wanted, came, _ in wrong[:5]:
        print(f"wrong: status {came} in place of {wanted}")
    return not wrong


def placed(port: int) -> int:
    """How many requests the server counts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/health")
    found = int(json.loads(connection.getresponse().read())["requests"])
    connection.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w") as log:
        run = given.run or str(untrained(Path(folder)))
        command = [sys.executable, "-m", "tfzoo", "serve", run, "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            said = server.stdout.readline() if server.stdout else ""
            port = urlsplit(said.split()[0]).port if said else None
            if port is None:
                print(Path(folder, "log").read_text())
                return 1
            for seed in range(20):  # until it listens, and has computed something
                try:
                    ask(port, seed)
                except ConnectionRefusedError:
                    time.sleep(0.5)
            print(f"  the first requests                 {memory(server.pid):7.1f} MB")
            right = load(port, server.pid, given.requests, given.clients)
            time.sleep(1)
            left = placed(port)
            print(f"requests that still have a place: {left}")
            server.send_signal(signal.SIGINT)
            code = server.wait(60)
            print(f"exit code after Ctrl-C: {code}")
            return int(not right or left != 0 or code != 130)
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
