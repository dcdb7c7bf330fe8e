"""What all pages share: their style, and a policy that lets no script but the page's own run."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

BASE = Path(__file__).parent / "base.css"


def render(template: Path, **given: object) -> str:
    """The page of a Jinja template ``NAME.html`` with the files ``NAME.css`` and ``NAME.js`` beside
    it. The template writes ``policy``, ``style`` and ``script`` where they belong. All other text
    is escaped.
    """
    style = BASE.read_text("utf-8") + template.with_suffix(".css").read_text("utf-8")
    script = template.with_suffix(".js").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(template.read_text("utf-8"))
    return page.render(policy=policy, style=Markup(style), script=Markup(script), **given)


def digest(text: str) -> str:
    """The hash by which the page's security policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
