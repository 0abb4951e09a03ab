"""The old place of `to_explorer`, for modules that still import it from here."""

from zoo.app.report.html import to_explorer as to_explorer
