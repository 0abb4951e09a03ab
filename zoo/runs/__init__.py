"""From models and images to outputs on disk: selection, runs and their engines."""
