"""Models: from a name to a card, its weights and a `Model` that embeds and predicts."""
