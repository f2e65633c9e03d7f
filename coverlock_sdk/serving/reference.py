"""The page at ``/docs``: the OpenAPI description as plain HTML, without scripts or other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "code,pre{background:#8882;border-radius:4px;padding:.1em .3em}pre{padding:1em;overflow:auto}"
    "th{text-align:left}td,th{padding:.2em .8em .2em 0;vertical-align:top}"
    ":root{color-scheme:light dark}"
)


def reference_page(description: dict[str, Any]) -> str:
    """A page that says what can be asked, and how."""
    about = description["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{escape(about['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{escape(about['title'])}</h1><p>{escape(about.get('description', ''))}</p>",
        "<p>The same as <a href=openapi.json>OpenAPI</a>.</p>",
        *(
            section
            for path, operations in description["paths"].items()
            for method, operation in operations.items()
            for section in _operation(method.upper(), path, operation)
        ),
    ]
    return "\n".join(parts) + "\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
    parameters = operation.get("parameters", [])
    if parameters:
        rows = (f"?{p['name']}=" for p in parameters)
        yield _table(zip(rows, (p.get("description", "") for p in parameters), strict=True))
    if "requestBody" in operation:
        yield f"<p>Body: {escape(operation['requestBody'].get('description', ''))}</p>"
        token = ' -H "Authorization: Bearer TOKEN"' if operation.get("security") else ""
        named = f"?{parameters[0]['name']}=NAME" if parameters else ""
        yield f'<pre>curl{token} --data-binary @photo.jpg "http://HOST{escape(path)}{named}"</pre>'
    answers = operation["responses"].items()
    yield _table((status, answer.get("description", "")) for status, answer in answers)


def _table(rows: Any) -> str:
    cells = (f"<tr><th><code>{escape(a)}</code><td>{escape(b)}" for a, b in rows)
    return f"<table>{''.join(cells)}</table>"
