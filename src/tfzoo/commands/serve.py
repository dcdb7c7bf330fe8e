"""tfzoo serve RUN: a page and a JSON API for a trained run."""

from argparse import Namespace

from tfzoo.base.loading import require
from tfzoo.base.terminal import notify, print_result
from tfzoo.commands.argument_parser import CommandParser
from tfzoo.errors import TfzooError
from tfzoo.runs.folder import check_exists
from tfzoo.serving import Limits

MOST = 10**9
LIMITS = {
    "characters": "characters of a text",
    "texts": "texts of a request",
    "bytes": "bytes of a request",
    "seconds": "seconds until a request is answered, its wait for the model included",
    "waiting": "requests that wait for the model; more get status 503",
    "connections": "connections of clients; more get status 503",
}
EPILOG = """\
The page shows what the model makes of a text, and its attention. Programs send {"text": "..."} or
{"texts": ["...", "..."]} as JSON to /predict;
/openapi.json has the details. There is no password: with another --host, others can use the model,
too: put a proxy in front. After Ctrl-C or SIGTERM the server answers what it was asked, and ends.
"""


def serve_parser() -> CommandParser:
    """The arguments of the command."""
    parser = CommandParser("serve", run, "Serve a trained run: a page and a JSON API.", EPILOG)
    parser.add_run()
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen (default: %(default)s, this machine alone)",
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="0: a free one (default: %(default)s)"
    )
    parser.add_device()
    for name, default in zip(LIMITS, Limits(), strict=True):
        parser.add_argument(
            f"--max-{name}",
            type=type(default),
            default=default,
            metavar="N",
            help=f"{LIMITS[name]} (default: %(default)s)",
        )
    return parser


def run(given: Namespace) -> int:
    """Serve one run until it is stopped.

    Raises:
        TfzooError: no such run or device; the address is taken; FastAPI is not installed.
    """
    limits = Limits(*(getattr(given, f"max_{name}") for name in LIMITS))
    for name, value in zip(LIMITS, limits, strict=True):
        if not 0 < value < MOST:
            raise TfzooError(f"--max-{name} {value:g} must be above 0, below {MOST:,}")
    check_exists(given.run)
    for package in ("fastapi", "uvicorn"):
        require(package, "serve")
    from tfzoo.commands.predict import load_task
    from tfzoo.learning.trained_run import TrainedRun
    from tfzoo.serving import server
    from tfzoo.serving.app import make_app

    with server.listen(given.host, given.port) as bound:
        task = load_task(TrainedRun(given.run), given.device)
        hosts = server.hosts_of(bound, given.host)
        if hosts is None:
            notify("others can reach this address, and there is no password")
        app = make_app(task, given.run, limits, hosts)
        print_result(f"{server.address(bound)}  (Ctrl-C ends)")
        server.serve(app, bound, limits)
    return 0
