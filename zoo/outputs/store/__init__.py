"""The store of outputs on disk: sharded, checksummed, written atomically, and found by model and dataset.

Every name loads its module on first use, so that `zoo.outputs.store.layout` can be imported without torch.
"""

from typing import TYPE_CHECKING

from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
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

_MODULES = {
    "SHARD_ROWS": "layout", "Identity": "layout", "open_runs": "lookup", "stored": "lookup", "RunFolder": "run_folder",
    "read_fits": "run_folder", "save_fit": "run_folder", "Shard": "shards", "Checked": "verification",
    "Verification": "verification", "verify": "verification", "save": "writer",
}  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()})
