"""Every test gets an empty home, no network and one thread, whatever the machine it runs on has."""

import os

# Before torch or a hub client is imported. Tests run in as many processes as there are cores, so one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest


@pytest.fixture(autouse=True)
def zoo_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("ZOO_HOME", str(home))
    for name in ("ZOO_DATASET", "ZOO_DATA", "ZOO_AUTOTRAIN"):
        monkeypatch.delenv(name, raising=False)
    return home
