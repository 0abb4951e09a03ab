"""From a name to a card, and to the weights that belong to it."""
