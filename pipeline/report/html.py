"""One HTML page that stands alone: no other file, no network, no clock; complete without script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.report.page import Page
from pipeline.report.plain import printable


def html(page: Page) -> str:
    """Return the page. Texts out of images are escaped, and printable before that.

    Its own style and script are named by their hashes, and nothing else may be loaded or run.
    """
    environment = _environment()
    parts = {name: _source(name) for name in ("report.css", "report.js")}
    return environment.get_template("report.html").render(
        page=page,
        style=Markup(parts["report.css"]),
        script=Markup(parts["report.js"]),
        style_hash=_hash(parts["report.css"]),
        script_hash=_hash(parts["report.js"]),
    )


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )


def _printable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _source(name: str) -> str:
    """Return a file of our own, as it is, but for the line ends of a checkout."""
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].replace("\r\n", "\n")


def _hash(text: str) -> str:
    """Hash as a Content-Security-Policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
