"""The old name of `zoo.app.candidates`, for modules that still import it."""

from zoo.app.candidates import candidate_cards as candidate_cards
