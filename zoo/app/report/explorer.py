"""A document as a page that goes on computing: any pair, any ensemble, any example, of the models one wants to see."""

from zoo.app.printing import plain
from zoo.app.report.document import Document, Figure, Section
from zoo.app.report.explorable import explorable
from zoo.app.report.html import chart_specs, escape, figure_html, page, section_html

# Charts that the page draws itself, from the answers inside it.
LIVE = frozenset({"inconsistency", "gain", "categories", "theta", "classes"})


def to_explorer(document: Document) -> str:
    """The page's text."""
    about, blocks, images = explorable(document, document.evidence)
    numbers = {name: value for name, value in document.numbers.items() if name != "inconsistency"}
    sections, titles = [TOOLBAR], {}
    for section in document.sections:
        titles[section.id] = "Side by side" if section.id == "pair" else section.title
        if section.id == "pair":
            sections.append(_pair(section))
        elif section.id == "ensemble":
            angle = " and θ" if document.evidence.has_probabilities else ""
            sections += [section_html(section, after=ENSEMBLE), EXAMPLES.format(angle=angle)]
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
    shown = {"theta", "classes"} & {figure.id for figure in section.figures}
    figures = "".join(figure_html(figure) for figure in _PAIR_FIGURES if figure.id in shown)
    lead = (
        "Any two models: choose them here, or click a cell or a dot above. The angle θ compares their confidences on one "
        "example: to the right the first is surer, to the left the second. A specialist is surer where it alone is right."
        if shown
        else "Any two models: choose them here, or click a cell above."
    )
    return f"""<section id="pair" aria-labelledby="pair-title">
<h2 id="pair-title">{escape(section.title)}</h2>
<p>{lead}</p>
<div class="controls">
<label>First <select id="pair-first"></select></label>
<button type="button" id="pair-swap" aria-label="Swap the two models">⇄</button>
<label>Second <select id="pair-second"></select></label>
<label>On the examples <select id="pair-on"></select></label>
</div>
<p class="soft population" id="pair-population" role="status"></p>
<div class="beside">
<div><div class="scroll" tabindex="0" role="region" aria-label="Measures" id="pair-measures"></div>
<p class="soft" id="pair-close"></p></div>
<div><h3>Who is right</h3><div class="scroll" id="pair-outcomes"></div>
<p class="soft">Where exactly one of the two is right, their ensemble has something to decide.</p>
<div class="figures">{figures}</div></div>
</div>
<h3>Which classes each owns: better with p &lt; 0.05, by McNemar's test and Holm's correction for all classes</h3>
<div class="scroll" tabindex="0" role="region" aria-label="Classes" id="pair-owned"></div>
<ul class="images" id="pair-images" aria-label="Examples that only one of them gets right, and is surest of"></ul>
</section>"""


_PAIR_FIGURES = (
    Figure(
        "theta",
        "Who is surer, by who is right",
        "Examples by the angle θ. Between the dotted lines neither prediction reliably prevails in the ensemble.",
        None,
    ),
    Figure(
        "classes",
        "Where in the classes they differ",
        "Examples that exactly one of the two gets right: their class, and who is surer.",
        None,
    ),
)

CLICK = '<p class="hint">Click a cell or a dot to see the two models side by side.</p>'

TOOLBAR = """<div id="toolbar" role="region" aria-label="Models shown">
<label>Colour by <select id="colour"></select></label>
<details><summary>Show models by …</summary>
<label>Field <select id="field"></select></label>
<div id="values" role="group" aria-label="Values shown"></div>
</details>
<span id="visible" role="status" class="soft"></span>
<button type="button" id="show-all">Show all</button>
</div>"""

ENSEMBLE = """<div id="any-ensemble" class="panel">
<h3>Any ensemble</h3>
<p class="soft">Tick members in the table of models, add them here, or start from one that was found. Beside each member: by how
much the accuracy on the test examples falls without it.</p>
<div class="controls">
<label>Start from <select id="ensemble-start"></select></label>
<label>Add <select id="ensemble-add"></select></label>
</div>
<div class="beside">
<ul id="ensemble-members" aria-label="Members"></ul>
<div id="ensemble-numbers">
<div class="scroll" id="ensemble-scores" role="status"></div>
<p class="soft">Whoever tries many ensembles and keeps the best on the test examples has chosen on them: choose on selection.</p>
<div class="recipe"><code id="ensemble-shell"></code> <button type="button" id="copy-shell">Copy</button></div>
<div class="recipe"><code id="ensemble-python"></code> <button type="button" id="copy-python">Copy</button></div>
</div>
</div>
<p class="soft" id="ensemble-close"></p>
</div>"""

EXAMPLES = """<section id="examples" aria-labelledby="examples-title">
<h2 id="examples-title">Examples</h2>
<p>Every example with what the models say of it. Outcome{angle} are of the two models side by side above; how many are right, entropy
and disagreement are of all models shown.</p>
<div class="controls">
<label>Class <select id="example-class"></select></label>
<label>Outcome <select id="example-outcome"></select></label>
<label>Models right <input id="example-least" type="number" min="0" size="4"> to</label>
<label class="joined"><span class="unseen">at most</span><input id="example-most" type="number" min="0" size="4"></label>
<label>Half <select id="example-half"></select></label>
<label>Id <input id="example-words" type="search" placeholder="part of an id"></label>
<label>Sort by <select id="example-sort"></select></label>
<label><span class="unseen">Order</span>
<select id="example-order"><option value="descending">greatest first</option><option value="ascending">least first</option></select></label>
<span id="example-count" role="status" class="soft"></span>
</div>
<div class="beside">
<div id="example-list" role="listbox" tabindex="0" aria-label="Examples"><div id="example-space"><div id="example-window"></div></div></div>
<div id="example-open" aria-live="polite" hidden></div>
</div>
</section>"""
