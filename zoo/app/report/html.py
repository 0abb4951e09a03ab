"""A report as one self-contained HTML page: styles, scripts, chart library and data are inside, nothing is fetched.

`to_html` writes a static page; `to_explorer` one that computes any pair and any ensemble in the browser.
"""

import json
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from zoo.app.report.assets import asset, bundle
from zoo.app.report.document import Document, Figure
from zoo.app.report.page_data import page_data
from zoo.app.report.pair import ANGLE, OWNED_TITLE
from zoo.app.terminal import plain
from zoo.core.text import UNBROKEN, as_text

# Inline styles and scripts only, no network. Vega compiles its expressions, which needs unsafe-eval.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:"
# Charts that the explorer's script draws from the predictions inside the page.
LIVE = frozenset({"inconsistency", "gain", "categories", "theta", "classes"})


def to_html(document: Document) -> str:
    """Return the static page."""
    data = {"specs": chart_specs(document), "numbers": plain(document.numbers)}
    return _render(document, data, "static")


def to_explorer(document: Document) -> str:
    """Return the page that goes on computing: any pair, any ensemble, any example, of the models that are shown."""
    about, arrays, images = page_data(document)
    numbers = {name: value for name, value in document.numbers.items() if name != "inconsistency"}
    data = {"specs": chart_specs(document, LIVE), "numbers": plain(numbers), "about": about}
    sheets = "\n".join(f".sheet-{i} {{ background-image: url({uri}); }}" for i, uri in enumerate(images))
    return _render(document, data, "explorer", arrays, sheets)


def chart_specs(document: Document, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the Vega-Lite specifications by the figures' ids."""
    figures = [figure for section in document.sections for figure in section.figures]
    return {figure.id: _spec(figure) for figure in figures if figure.id not in without}


def _render(
    document: Document, data: dict[str, Any], script: str, arrays: dict[str, str] | None = None, style: str = ""
) -> str:
    environment = Environment(
        loader=FunctionLoader(lambda name: asset(f"markup/{name}")), autoescape=True, undefined=StrictUndefined,
        finalize=_visible, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["unbroken"] = _unbroken
    analysis, explorer = document.analysis, script == "explorer"
    titles = {section.id: section.title for section in document.sections}
    if explorer:
        titles |= {"pair": "Side by side"}
        titles = {id: title for key in titles for id, title in _with_examples(key, titles[key])}
    first = next(iter(analysis.runs.values()))
    return environment.get_template("page.html").render(
        document=document, analysis=analysis, explorer=explorer, titles=titles, policy=POLICY,
        short_names={name: analysis.short(name) for name in analysis.runs} if analysis.shared_ending else {},
        missing_images=first.dataset if analysis.inputs.images is None else None, angle=ANGLE, owned_title=OWNED_TITLE,
        json={id: Markup(_json(value)) for id, value in data.items()}, arrays=arrays or {}, unbroken=UNBROKEN.pattern,
        style=Markup(asset("page.css") + style), script=Markup(bundle(script)),
        library=Markup(_chart_library() if data["specs"] else ""),
    )  # fmt: skip


def _unbroken(text: str) -> Markup:
    """Return a sentence whose intervals, and numbers with what they count, stay on one line."""
    parts = enumerate(UNBROKEN.split(as_text(text)))
    return Markup("").join(Markup('<span class="whole">{}</span>').format(part) if i % 2 else part for i, part in parts)


def _with_examples(id: str, title: str) -> list[tuple[str, str]]:
    """Return a section of the explorer, followed by that of the examples if it is the ensemble's."""
    return [(id, title), ("examples", "Examples")] if id == "ensemble" else [(id, title)]


def _visible(value: Any) -> Any:
    """Return a text without invisible characters and without a reversed reading direction; jinja escapes its markup."""
    return as_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _spec(figure: Figure) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification without schema and theme."""
    chart = figure.chart if isinstance(figure.chart, dict) else figure.chart.to_dict()
    spec: dict[str, Any] = _cleaned(chart)
    spec.pop("$schema", None)
    spec.pop("config", None)
    return spec


def _cleaned(value: Any) -> Any:
    """Return a specification with every text made visible."""
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if not isinstance(value, dict):
        return as_text(value) if isinstance(value, str) else value
    return {key: _cleaned(item) for key, item in value.items()}


def _json(value: Any) -> str:
    """Return JSON that may stand inside a script element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")


def _chart_library() -> str:
    import altair
    import vl_convert

    version = ".".join(altair.VEGALITE_VERSION.split(".")[:2])
    script: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # the stub is stricter
    return script.replace("</script", "<\\/script")
