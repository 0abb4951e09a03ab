"""From models and images to outputs on disk."""
