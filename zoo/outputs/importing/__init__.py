"""Outputs made elsewhere, whatever file or object they come in."""
