"""A document as a page that goes on computing: any pair, any ensemble, any example, of the models one wants to see."""

from string import Template

from zoo.app.printing import plain
from zoo.app.report.bundle import asset
from zoo.app.report.document import Document, Section
from zoo.app.report.explorable import explorable
from zoo.app.report.html import chart_specs, escape, figure_html, page, section_html

# Charts that the page draws itself, from the answers inside it.
LIVE = frozenset({"inconsistency", "gain", "categories", "theta", "classes"})

CLICK = '<p class="hint">Click a cell or a dot to see the two models side by side.</p>'


def to_explorer(document: Document) -> str:
    """The page's text."""
    about, blocks, images = explorable(document, document.evidence)
    numbers = {name: value for name, value in document.numbers.items() if name != "inconsistency"}
    sections, titles = [_markup("toolbar")], {}
    for section in document.sections:
        titles[section.id] = "Side by side" if section.id == "pair" else section.title
        if section.id == "pair":
            sections.append(_pair(section))
        elif section.id == "ensemble":
            angle = " and θ" if document.evidence.has_probabilities else ""
            sections += [section_html(section, after=_markup("ensemble")), _markup("examples", angle=angle)]
            titles["examples"] = "Examples"
        else:
            hint = CLICK if section.id == "errors" else ""
            sections.append(section_html(section, before=hint))
    packed = "\n".join(f'<script type="text/plain" id="block-{name}">{text}</script>' for name, text in blocks.items())
    sheets = "\n".join(f".sheet-{i} {{ background-image: url({uri}); }}" for i, uri in enumerate(images))
    data = {"specs": chart_specs(document, LIVE), "numbers": plain(numbers), "about": about}
    return page(document, titles, "\n".join(sections), data, "explorer", packed, sheets)


def _pair(section: Section) -> str:
    """The section on two models, empty: the script fills it for whichever are looked at."""
    figures = "".join(figure_html(figure) for figure in section.figures)
    lead = (
        "Any two models: choose them here, or click a cell or a dot above. The angle θ compares their confidences on one "
        "example: to the right the first is surer, to the left the second. A specialist is surer where it alone is right."
        if figures
        else "Any two models: choose them here, or click a cell above."
    )
    return _markup("pair", title=escape(section.title), lead=lead, figures=figures)


def _markup(name: str, **parts: str) -> str:
    return Template(asset(f"markup/{name}.html")).substitute(parts)
