"""The Jinja environment of the unit's own files."""

from __future__ import annotations

from typing import Any

import jinja2

from longhand.emit.text.quoting import markdown, markdown_code, python_docstring, visible

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("longhand.templates", "unit"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)
_ENVIRONMENT.filters |= {
    "docstring": python_docstring,
    "visible": visible,
    "markdown": markdown,
    "code": markdown_code,
}


def render_template(template: str, **values: Any) -> str:
    """A template of templates/unit, filled."""
    return _ENVIRONMENT.get_template(template).render(**values)
