"""Engines: who computes the shards of a run. `local`: this process and its devices; `ray`: many machines."""
