"""Isolate every test from the machine: an empty home, no network access and one thread.

`make test` runs every property on the same examples each time. `make fuzz` sets `HYPOTHESIS_PROFILE=fuzz`, which draws new
examples, many more of them, and prints how to reproduce a failure.
"""

import atexit
import os
import random
import shutil
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# These are read once, when numpy, torch, a hub client or the command line is imported, so they are set before.
PROXIES = [f"{kind}_proxy" for kind in ("http", "https", "all", "no")]
DISPLAY = ["GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "COLUMNS", "LINES"]  # affect printed output
PLACES = ["HF_ENDPOINT", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_TOKEN", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"]
SETTINGS = [name for name in os.environ if name.startswith("ZOO_") and name != "ZOO_TEST_DATA"]
for name in [*PROXIES, *map(str.upper, PROXIES), *DISPLAY, *PLACES, *SETTINGS]:
    os.environ.pop(name, None)
for name in ("HF_HOME", "TORCH_HOME", "ZOO_HOME"):  # hide models and data stored on this machine
    os.environ[name] = tempfile.mkdtemp(prefix="zoo-tests-")
    atexit.register(shutil.rmtree, os.environ[name], ignore_errors=True)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # because tests run in one process per core
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

MORE = 20  # factor by which the fuzz profile increases the number of examples

# Neither profile has a deadline, because the machine may be busy.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", patient, derandomize=True)
settings.register_profile("fuzz", patient, max_examples=MORE * patient.max_examples, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under the fuzz profile, increase the number of examples of properties with their own `max_examples` too."""
    if os.environ.get("HYPOTHESIS_PROFILE") != "fuzz":
        return
    tests = {getattr(item, "obj", None) for item in items}
    for test in {getattr(test, "__func__", test) for test in tests}:  # settings belong to a method's function
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples != settings.default.max_examples:
            test._hypothesis_internal_use_settings = settings(own, max_examples=MORE * own.max_examples)


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Seed all generators, so that random numbers do not depend on the tests run before."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(autouse=True)
def zoo_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("ZOO_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def browser():
    """Start one headless Chromium for all tests of HTML pages."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no chromium and chromedriver on this machine")
    options = Options()
    options.binary_location = chromium
    quiet = ("background-networking", "component-update", "sync", "gpu")
    for argument in ("headless=new", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in quiet)):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()
