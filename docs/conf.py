"""The documents as a site, by `make site`. The pages are Markdown as a code host shows it, and nothing is fetched.

The navigation is the list of links of docs/README.md. Strict as `make site` is, a page that no list names fails it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "include"))

from kafka_rebalance import __version__  # noqa: E402  the package need not be installed

project, author, release = "kafka-rebalance", "the authors of kafka-rebalance", __version__
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "docs"]
highlight_language = "text"
smartquotes = False  # "--" is an option, not a dash
myst_heading_anchors = 4  # links name a heading as a code host does

html_theme = "furo"  # its fonts are those of the reader's machine
html_title = f"kafka-rebalance {release}"
html_copy_source = False
html_show_sphinx = False
html_search_scorer = "docs/search_scorer.js"

LISTS = ("docs/README", "docs/decisions/README")


def navigation_of(text: str) -> str:
    """Hidden tables of contents, one for each heading of a page, of the pages that its list items link to."""
    trees = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        pages = re.findall(r"^- \[.+?\]\(([^)#]+)\.md\)", part, flags=re.MULTILINE)
        trees.append("\n".join(["```{toctree}", ":hidden:", f":caption: {part.splitlines()[0]}", "", *pages, "```"]))
    return "\n\n".join(trees)


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    if name in LISTS:
        source[0] += "\n" + navigation_of(source[0])


class InBothModes(SphinxTransform):
    """A picture `x.png` with an `x-dark.png` beside it: each mode of the theme shows its own."""

    default_priority = 400  # before Sphinx collects the pictures

    def apply(self) -> None:
        page = Path(self.env.doc2path(self.env.docname))
        for picture in list(self.document.findall(nodes.image)):
            dark = Path(picture["uri"]).with_name(f"{Path(picture['uri']).stem}-dark.png")
            if (page.parent / dark).is_file():
                other = picture.deepcopy()
                other["uri"] = dark.as_posix()
                picture["classes"].append("only-light")
                other["classes"].append("only-dark")
                picture.parent.insert(picture.parent.index(picture) + 1, other)


def lead_to_the_first_page(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        refresh = f'<meta http-equiv="refresh" content="0; url={root_doc}.html">'
        page = f"<!doctype html>\n<title>{html_title}</title>\n{refresh}\n"
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.add_transform(InBothModes)
    app.connect("source-read", add_navigation)
    app.connect("build-finished", lead_to_the_first_page)
