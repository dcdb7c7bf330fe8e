"""A redirect leads only to what the address itself could name; all servers are local."""

import ssl
from contextlib import contextmanager
from pathlib import Path
from socket import AF_INET, AI_NUMERICHOST
from types import SimpleNamespace

import pytest

from tests.data.servers import respond, served
from tfzoo.config.recipe import Source
from tfzoo.data import remote
from tfzoo.errors import BadData, BadRecipe

CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Of ``localhost`` and 127.0.0.1, with its key, made for these tests."""
TABLE = b"text\tlabel\na b\tx\nc d\ty\n"


CONTEXT = "aiohttp.connector._SSL_CONTEXT_VERIFIED"
"""What aiohttp's clients verify servers with."""


@contextmanager
def moving(secured=None):
    """A server of TABLE at /file, and of a redirect to ``target`` at /moved."""
    found = SimpleNamespace(asked=[], target="")

    def answer(handler):
        found.asked.append(handler.path)
        if handler.path.startswith("/moved"):
            respond(handler, 302, Location=found.target)
        else:
            respond(handler, 200, TABLE)

    with served(answer, secured) as found.port:
        yield found


@pytest.fixture(scope="module")
def servers():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with moving(context) as secure, moving(context) as other, moving() as plain:
        yield SimpleNamespace(secure=secure, other=other, plain=plain)


@pytest.fixture(autouse=True)
def known(tmp_path, monkeypatch, servers):
    monkeypatch.setenv("TFZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(CONTEXT, ssl.create_default_context(cafile=CERTIFICATE))
    for one in vars(servers).values():
        one.asked.clear()


REFUSED = {
    "plain": "http://127.0.0.1:{plain}/file",
    "plain, the same name": "http://localhost:{plain}/file",
    "another port": "https://localhost:{other}/file",
    "this machine by its number": "https://127.0.0.1:{secure}/file",
    "this machine by a short number": "https://127.1:{secure}/file",
    "this machine by another number": "https://2130706433:{secure}/file",
    "this machine in IPv6": "https://[::1]:{secure}/file",
    "this machine inside IPv6": "https://[::ffff:127.0.0.1]/file",
    "passwords of a cloud": "http://169.254.169.254/latest/meta-data/",
    "passwords of a cloud, with https": "https://169.254.169.254/latest/meta-data/",
    "a private network": "https://10.0.0.1/file",
    "a file": "file:///etc/passwd",
    "another protocol": "ftp://localhost/file",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_redirect_to_what_the_address_could_not_name_is_refused(name, servers):
    ports = {key: one.port for key, one in vars(servers).items()}
    servers.secure.target = REFUSED[name].format(**ports)
    with pytest.raises(BadData, match=r"[Rr]edirect") as error:
        remote.local_copy(f"https://localhost:{servers.secure.port}/moved")
    assert "\n" not in str(error.value)
    assert set(servers.secure.asked) == {"/moved"}
    assert servers.plain.asked == servers.other.asked == []


def test_a_redirect_on_the_same_host_is_followed(servers):
    servers.secure.target = "/file"
    copy = remote.local_copy(f"https://localhost:{servers.secure.port}/moved")
    assert copy.read_bytes() == TABLE


def resolve(patch, numbers):
    """Let names stand for the numbers that a function gives for a port."""

    async def found(self, host, port=0, family=0):
        known = {"port": port, "family": AF_INET, "proto": 0, "flags": AI_NUMERICHOST}
        return [{"hostname": host, "host": one, **known} for one in numbers(port)]

    patch.setattr("aiohttp.resolver.ThreadedResolver.resolve", found)
    patch.setattr(CONTEXT, ssl._create_unverified_context())


def test_a_redirect_to_a_public_host_is_followed(servers, monkeypatch):
    """Of another name and port; here this machine counts as public."""
    resolve(monkeypatch, lambda port: ["127.0.0.1"])
    monkeypatch.setattr(remote, "ip_address", lambda number: SimpleNamespace(is_global=True))
    servers.secure.target = f"https://cdn.example:{servers.other.port}/file"
    copy = remote.local_copy(f"https://intern.example:{servers.secure.port}/moved")
    assert copy.read_bytes() == TABLE
    assert {*servers.other.asked} == {"/file"}


@pytest.mark.parametrize(
    ("target", "numbers"),
    [
        ("https://cdn.example/file", ["127.0.0.1"]),
        ("https://cdn.example/file", ["93.184.216.34", "10.1.2.3"]),
        ("https://cdn.example/file", ["fd00:ec2::254"]),
        ("https://cdn.example/file", ["::ffff:127.0.0.1"]),
        ("https://intern.example:{other}/file", ["127.0.0.1"]),
    ],
)
def test_a_redirect_to_another_name_or_port_must_stand_for_public_addresses(
    target, numbers, servers, monkeypatch
):
    """A private host is read where an address names it, and at its own port alone."""

    own = servers.secure.port
    resolve(monkeypatch, lambda port: ["127.0.0.1"] if port == own else numbers)
    servers.secure.target = target.format(other=servers.other.port)
    with pytest.raises(BadData, match=r"a redirect is refused: .* is on no public host"):
        remote.local_copy(f"https://intern.example:{servers.secure.port}/moved")
    assert servers.other.asked == []
    servers.secure.target = "/file"
    copy = remote.local_copy(f"https://intern.example:{servers.secure.port}/moved")
    assert copy.read_bytes() == TABLE


@pytest.mark.parametrize(
    "address",
    [
        "https://localhost/a.tsv",
        "https://a.localhost:8443/a.tsv",
        "https://127.0.0.1/a.tsv",
        "https://127.1/a.tsv",
        "https://2130706433/a.tsv",
        "https://0x7f.0.0.1/a.tsv",
        "https://①②⑦.⓪.⓪.①/a.tsv",
        "https://[::1]/a.tsv",
        "https://[::ffff:7f00:1]/a.tsv",
        "https://169.254.169.254/latest",
        "https://user:word@169.254.169.254/latest",
        "https://0/a.tsv",
        "https://192.168.1.1/a.tsv",
        "zip://a.tsv::https://localhost/a.zip",
        "https:///a.tsv",
    ],
)
def test_a_recipe_names_no_host_of_this_machine_or_network_by_its_number(address):
    with pytest.raises(BadRecipe, match=r"data.train: ") as error:
        Source({"data": {"train": address}}, "mine.yaml")
    assert "\n" not in str(error.value)
