"""Engines that compute the shards of a run: on this machine, or on a Ray cluster."""
