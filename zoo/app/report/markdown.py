"""A document as Markdown: the findings, the tables and the numbers behind each chart's caption."""

from zoo.app.report.document import Document, Table, shown


def to_markdown(document: Document) -> str:
    """The report's text for a terminal, a pull request or a notebook."""
    lines = [f"# {document.title}", "", document.subtitle, "", "## Findings", ""]
    lines += [f"- {'⚠ ' if f.warning else ''}**{f.number}** {f.sentence}" for f in document.findings]
    for section in document.sections:
        lines += ["", f"## {section.title}", "", section.lead]
        for table in section.tables:
            lines += ["", *_table(table)]
        lines += [line for figure in section.figures for line in ("", f"*{figure.title}.* {figure.caption}")]
    lines += ["", "## Settings, versions and fingerprints", ""]
    lines += [f"- {key}: `{value}`" for key, value in document.provenance.items()]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> list[str]:
    head = "| " + " | ".join(table.columns) + " |"
    rule = "| " + " | ".join("---:" if table.is_number(column) else "---" for column in table.columns) + " |"
    rows = []
    for row in table.rows:
        cells = [shown(row[column], column in table.percent).replace("|", "\\|") for column in table.columns]
        rows.append("| " + " | ".join(cells) + " |")
    return ([f"### {table.title}", ""] if table.title else []) + [head, rule, *rows]
