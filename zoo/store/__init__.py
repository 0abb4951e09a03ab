"""The outputs store: sharded, checksummed, atomic, keyed by model, weights, transform, precision and dataset."""

from zoo.store.checking import Checked as Checked
from zoo.store.checking import Verification as Verification
from zoo.store.checking import verify as verify
from zoo.store.finding import open_runs as open_runs
from zoo.store.finding import stored as stored
from zoo.store.folder import RunFolder as RunFolder
from zoo.store.folder import read_fits as read_fits
from zoo.store.folder import save_fit as save_fit
from zoo.store.layout import SHARD_ROWS as SHARD_ROWS
from zoo.store.layout import Identity as Identity
from zoo.store.saving import save as save
from zoo.store.shards import Shard as Shard

__all__ = ["RunFolder", "Verification", "open_runs", "read_fits", "save", "save_fit", "stored", "verify"]
