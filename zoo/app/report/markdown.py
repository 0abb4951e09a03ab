"""A document as Markdown: the findings, the tables and the numbers behind each chart's caption."""

from zoo.app.report.document import Document, Table, shown
from zoo.core.text import as_text


def to_markdown(document: Document) -> str:
    """The report's text for a terminal, a pull request or a notebook."""
    lines = [f"# {_text(document.title)}", "", _text(document.subtitle), "", "## Findings", ""]
    lines += [f"- {'⚠ ' if f.warning else ''}**{f.number}** {_text(f.sentence)}" for f in document.findings]
    for section in document.sections:
        lines += ["", f"## {_text(section.title)}", "", _text(section.lead)]
        lines += ["", f"On {_text(section.population)}."] if section.population else []
        for table in section.tables:
            lines += ["", *_table(table)]
        lines += [line for figure in section.figures for line in ("", f"*{_text(figure.title)}.* {_text(figure.caption)}")]
    lines += ["", "## Settings, versions and fingerprints", ""]
    lines += [f"- {_text(key)}: `{_text(value)}`" for key, value in document.provenance.items()]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """What a name holds as text: no markup, nothing unseen."""
    return as_text(text).replace("<", "&lt;").replace("|", "\\|")


def _table(table: Table) -> list[str]:
    head = "| " + " | ".join(map(_text, table.columns)) + " |"
    rule = "| " + " | ".join("---:" if table.is_number(column) else "---" for column in table.columns) + " |"
    rows = []
    for row in table.rows:
        cells = [_text(shown(row[column], column in table.percent)) for column in table.columns]
        rows.append("| " + " | ".join(cells) + " |")
    return ([f"### {_text(table.title)}", ""] if table.title else []) + [head, rule, *rows]
