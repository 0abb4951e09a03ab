"""The report: what several models' outputs say, as one page a person can keep (HTML, Markdown or JSON)."""
