"""A document as one self-contained HTML page: styles, script, chart library and data inside, nothing fetched."""

import html
import json
from typing import Any

from zoo.app.printing import plain
from zoo.app.report.bundle import asset, bundle
from zoo.app.report.document import Document, Figure, Section, Table, Thumbnail, shown
from zoo.core.text import as_text

# Inline styles and scripts only; Vega compiles its expressions, hence unsafe-eval. No address can be reached.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"


def to_html(document: Document) -> str:
    """The static page's text."""
    sections = "\n".join(section_html(section) for section in document.sections)
    titles = {section.id: section.title for section in document.sections}
    data = {"specs": chart_specs(document), "numbers": plain(document.numbers)}
    return page(document, titles, sections, data, "static")


def page(
    document: Document,
    titles: dict[str, str],
    sections: str,
    data: dict[str, Any],
    script: str,
    blocks: str = "",
    style: str = "",
) -> str:
    """A page of sections, with `data` as JSON for the script and whatever else it reads in `blocks`."""
    links = "".join(f'<li><a href="#{id}">{escape(title)}</a></li>' for id, title in titles.items())
    embedded = "\n".join(
        f'<script type="application/json" id="{id}">{_embedded(value)}</script>' for id, value in data.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(document.title)}</title>
<style>
{asset("page.css")}{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the findings</a>
<header>
<h1>{escape(document.title)}</h1>
<p class="soft">{escape(document.subtitle)}</p>
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main id="content">
{_findings(document)}
{sections}
</main>
<footer>
{_provenance(document)}
</footer>
{embedded}
{blocks}
<script>{_chart_library() if data["specs"] else ""}</script>
<script type="module">
{bundle(script)}</script>
</body>
</html>
"""


def chart_specs(document: Document, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Vega-Lite specifications by the figures' ids."""
    figures = [figure for section in document.sections for figure in section.figures]
    return {figure.id: _spec(figure) for figure in figures if figure.id not in without}


def escape(text: str) -> str:
    """Whatever a name, class or id holds, shown as text: no markup, nothing unseen, no reversed reading direction."""
    return html.escape(as_text(text))


def _findings(document: Document) -> str:
    items = "".join(
        f'<li data-section="{f.section}"{" class=warning" if f.warning else ""}>'
        f"<strong>{escape(f.number)}</strong> {escape(f.sentence)}</li>"
        for f in document.findings
    )
    return f'<ul class="findings" aria-label="Findings">{items}</ul>'


def section_html(section: Section, before: str = "", after: str = "") -> str:
    """A chapter, with markup that is put before its tables and after all."""
    lead = f"<p>{escape(section.lead)}</p>" if section.lead else ""
    if section.population:
        lead += f'<p class="soft population">On {escape(section.population)}.</p>'
    figures = "".join(figure_html(figure) for figure in section.figures)
    figures = f'<div class="figures">{figures}</div>' if figures else ""
    tables = "".join(table_html(table) for table in section.tables)
    images = "".join(_image(image) for image in section.images)
    images = f'<ul class="images">{images}</ul>' if images else ""
    title = f'<h2 id="{section.id}-title">{escape(section.title)}</h2>'
    content = f"{title}{lead}{before}{tables}{figures}{images}{after}"
    return f'<section id="{section.id}" aria-labelledby="{section.id}-title">{content}</section>'


def figure_html(figure: Figure) -> str:
    title = escape(figure.title)
    buttons = "".join(
        f'<button type="button" data-save="{kind}" aria-label="Save {title} as {kind.upper()}">{kind.upper()}</button>'
        for kind in ("svg", "png", "csv")
    )
    return f"""<figure id="{figure.id}"{' class="wide"' if figure.wide else ""}>
<figcaption><h3>{title}</h3>{escape(figure.caption)}</figcaption>
<div class="chart" role="img" aria-label="{title}"></div>
<div class="downloads">{buttons}</div>
</figure>
"""


def table_html(table: Table) -> str:
    numeric = {column: table.is_number(column) for column in table.columns}
    head = "".join(
        f'<th scope="col"{" class=number" if numeric[column] else ""}><button type="button">{escape(column)}</button></th>'
        for column in table.columns
    )
    rows = "".join(f"<tr>{_cells(row, table, numeric)}</tr>" for row in table.rows)
    search = ""
    if table.filterable:
        search = (
            '<div class="filter"><label for="filter">Filter</label> <input id="filter" type="search" '
            'placeholder="words in any column"> '
            f'<span id="shown" role="status" class="soft">{len(table.rows)} shown</span></div>'
        )
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    return (
        f'{title}{search}<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title or table.id)}">'
        f'<table class="sortable" id="{table.id}"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cells(row: dict[str, Any], table: Table, numeric: dict[str, bool]) -> str:
    cells = []
    for index, column in enumerate(table.columns):
        value = row[column]
        text = escape(shown(value, column in table.percent))
        if index == 0:
            cells.append(f'<th scope="row">{text}</th>')
        elif numeric[column]:
            exact = "" if value is None or value != value else repr(value)
            cells.append(f'<td class="number" data-value="{exact}">{text}</td>')
        else:
            cells.append(f"<td>{text}</td>")
    return "".join(cells)


def _image(image: Thumbnail) -> str:
    lines = "<br>".join(escape(line) for line in image.lines)
    name = escape(image.name)
    return f'<li><img src="{image.uri}" alt="Example {name}" decoding="async"><b>{name}</b><br>{lines}</li>'


def _provenance(document: Document) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in document.provenance.items())
    return f"<details open><summary>Settings, versions and fingerprints</summary><table>{rows}</table></details>"


def _spec(figure: Figure) -> dict[str, Any]:
    """The chart as a Vega-Lite specification, without the address of the schema and the colours, which the page gives."""
    spec: dict[str, Any] = _as_text(figure.chart.to_dict())
    spec.pop("$schema", None)
    spec.pop("config", None)
    return spec


def _as_text(value: Any) -> Any:
    """`value` with every text in it as it may be shown: one that reverses the reading direction would do so to its title."""
    if isinstance(value, dict):
        return {key: _as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return as_text(value) if isinstance(value, str) else value


def _embedded(value: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")


def _chart_library() -> str:
    import altair
    import vl_convert

    version = ".".join(altair.VEGALITE_VERSION.split(".")[:2])
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # the stub is stricter
    return bundle.replace("</script", "<\\/script")
