"""The documentation's site: ``nox -s docs`` builds it in docs/_build/html.

Its source is the repository's root, so that every relative link that works in the repository works
on the site: a link to a page of it opens the page, one to another file downloads the file.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent)]

import tfzoo  # noqa: E402

project = "tfzoo"
author = "The tfzoo authors"
copyright = author
version = release = tfzoo.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs._ext.reference"]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/*.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "**/_*", "**/__pycache__", "build", "dist", "runs", "src", "tests"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# The code of the pages is run by tests/docs, in the folders and with the files that it needs.
nb_execution_mode = "off"

python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_param = False  # else arguments that are described together are torn apart
napoleon_custom_sections = [("Options", "params_style")]

html_theme = "furo"
html_title = "tfzoo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "redirect.html"}
html_show_sourcelink = False
html_copy_source = False
