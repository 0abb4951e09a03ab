"""Model cards: what is known about a model before its weights are loaded, and the names and recipes cards are made of."""
