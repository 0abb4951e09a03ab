"""One Chromium for all tests of pages."""

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
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
