"""Outputs of models on datasets: in memory, in the store on disk, imported from elsewhere, bundled into one file."""
