"""Importing outputs from files, frames, arrays and the models of other libraries."""
