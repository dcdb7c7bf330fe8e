"""Chromium without a network, for the tests of pages. The fixture ``browser`` is in conftest.py."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
QUIET = (
    *(
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ),
    *("--disable-sync", "--disable-quic"),
)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


def opened(browser: Any, file: Path) -> tuple[Any, list[str]]:
    """The page, and all that the browser said of it or fetched for it."""
    page, said = browser.new_page(viewport={"width": 1200, "height": 900}), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda request: said.append(request.url) if request.url != file.as_uri() else None,
    )
    page.goto(file.as_uri())
    return page, said
