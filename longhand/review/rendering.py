"""The review page as one HTML file: Jinja with escaping on, small CSS and JavaScript inside, nothing from elsewhere.

All that a unit, a lock or a model says is data. It is escaped where it stands, and the page tells the browser to load
nothing and to run one script alone, by its digest: what an escape might miss would not run either.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

import jinja2
import markupsafe

from longhand.review.page_content import Page
from longhand.review.quantities import bytes_text

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "review"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=True,
)


def _visible(text: object) -> str:
    """Text without characters that reorder or hide what stands beside them (U+202E and the like)."""
    return "".join(
        one if one.isprintable() or one in "\t\n" else "\N{REPLACEMENT CHARACTER}" for one in str(text)
    )


_ENVIRONMENT.filters |= {"bytes": bytes_text, "visible": _visible}


def render_page(page: Page) -> str:
    """The file's text."""
    style, script = _own("page.css"), _own("page.js")
    return _ENVIRONMENT.get_template("page.html.jinja").render(
        page=page,
        style=markupsafe.Markup(style),
        script=markupsafe.Markup(script),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'",
    )


def _own(name: str) -> str:
    return (resources.files("longhand.templates") / "review" / name).read_text(encoding="utf-8").strip()


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
