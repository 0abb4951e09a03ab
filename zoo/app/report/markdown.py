"""A report as Markdown: the findings, and the tables and captions of every section."""

from zoo.app.report.document import Document, Table
from zoo.core.text import as_text


def to_markdown(document: Document) -> str:
    """Return the report as text for a terminal, a pull request or a notebook."""
    lines = [f"# {_text(document.title)}", "", _text(document.subtitle), "", "## Findings", ""]
    lines += [f"- {'⚠ ' if f.warning else ''}**{f.title}: {f.number}.** {_text(f.sentence)}" for f in document.findings]
    for section in document.sections:
        lines += ["", f"## {_text(section.title)}"]
        lines += ["", _text(section.lead)] if section.lead else []
        lines += ["", f"On {_text(section.population)}."] if section.population else []
        for table in section.tables:
            lines += ["", *_table(table)]
        lines += [line for figure in section.figures for line in ("", f"*{_text(figure.title)}.* {_text(figure.caption)}")]
    lines += ["", "## Settings, versions and fingerprints", ""]
    lines += [f"- {_text(key)}: `{_text(value)}`" for key, value in document.provenance.items()]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    """Return a text without markup or invisible characters."""
    return as_text(text).replace("<", "&lt;").replace("|", "\\|")


def _table(table: Table) -> list[str]:
    head = "| " + " | ".join(map(_text, table.columns)) + " |"
    rule = "| " + " | ".join("---:" if table.is_number(column) else "---" for column in table.columns) + " |"
    rows = ["| " + " | ".join(_text(table.text(row, column)) for column in table.columns) + " |" for row in table.rows]
    return ([f"### {_text(table.title)}", ""] if table.title else []) + [head, rule, *rows]
