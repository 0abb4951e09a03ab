"""The outputs store: sharded, checksummed, atomic, keyed by model, weights, transform, precision and dataset."""

from zoo.outputs.store.layout import SHARD_ROWS as SHARD_ROWS
from zoo.outputs.store.layout import Identity as Identity
from zoo.outputs.store.lookup import open_runs as open_runs
from zoo.outputs.store.lookup import stored as stored
from zoo.outputs.store.run_folder import RunFolder as RunFolder
from zoo.outputs.store.run_folder import read_fits as read_fits
from zoo.outputs.store.run_folder import save_fit as save_fit
from zoo.outputs.store.shards import Shard as Shard
from zoo.outputs.store.verification import Checked as Checked
from zoo.outputs.store.verification import Verification as Verification
from zoo.outputs.store.verification import verify as verify
from zoo.outputs.store.writer import save as save

__all__ = ["RunFolder", "Verification", "open_runs", "read_fits", "save", "save_fit", "stored", "verify"]
