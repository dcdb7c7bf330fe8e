"""What all pages share: their style, and a policy that lets no script but the page's own run."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

BASE = Path(__file__).parent / "base.css"


def render(template: Path, *, served: bool = False, **given: object) -> str:
    """The page of a Jinja template ``NAME.html`` with the files ``NAME.css`` and ``NAME.js`` beside
    it, if there are any. The template begins with ``head.html``, which has policy and style, and
    writes ``script`` where it belongs. All other text is escaped.

    Args:
        served: the page may ask its own server, show the answer in a frame, and have the icon
            that browsers ask for.
    """
    style = BASE.read_text("utf-8") + beside(template, ".css")
    script = beside(template, ".js")
    own = "'self'" if served else "'none'"
    pictures = own if served else "data:"
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        f"frame-src {own}; img-src {pictures}; connect-src {own}; base-uri 'none'; "
        f"form-action {own}"
    )
    environment = Environment(
        loader=FileSystemLoader(BASE.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.from_string(template.read_text("utf-8"))
    return page.render(policy=policy, style=Markup(style), script=Markup(script), **given)


def beside(template: Path, suffix: str) -> str:
    """The text of the file beside a template; "" if there is none."""
    path = template.with_suffix(suffix)
    return path.read_text("utf-8") if path.exists() else ""


def digest(text: str) -> str:
    """The hash by which the page's security policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
