"""Every environment variable of the package is read and documented in one module."""

import re
from pathlib import Path

import pytest
from raised import fields

from zoo.core import limits, settings
from zoo.errors import InputError

PACKAGES = [Path(settings.__file__).parents[2] / name for name in ("zoo", "diversity", "ensembles", "probes")]


def test_every_variable_is_documented() -> None:
    used = {name for package in PACKAGES for path in package.rglob("*.py") for name in _variables(path.read_text())}
    documented = _variables(settings.__doc__ or "")
    assert used == documented
    assert len(documented) == 10


def _variables(text: str) -> set[str]:
    return set(re.findall(r"\bZOO_[A-Z_]+[A-Z]\b", text)) - {"ZOO_TEST_DATA"}


@pytest.mark.parametrize(
    ("variable", "default"),
    [("CLASSES", 10**6), ("ID_BYTES", 4096), ("NETWORKS", 256), ("PIXELS", 178_956_970), ("UNPACKED", 2**28)],
)
def test_limits_are_whole_numbers_with_a_default(variable: str, default: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = getattr(settings, f"max_{variable.lower()}")
    assert limit() == default
    monkeypatch.setenv(f"ZOO_MAX_{variable}", "123")
    assert limit() == 123
    for text in ("many", "-1", "1.5", "٣", "9" * 30):
        monkeypatch.setenv(f"ZOO_MAX_{variable}", text)
        with pytest.raises(InputError, check=fields(where=f"ZOO_MAX_{variable}", expected="whole number", found=text)):
            limit()


def test_an_ensemble_loads_at_least_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_MAX_NETWORKS", "0")
    with pytest.raises(InputError, check=fields(where="ZOO_MAX_NETWORKS", expected="at least 1", found="0")):
        settings.max_networks()


@pytest.mark.parametrize(("text", "value"), [("0", False), ("no", False), ("FALSE", False), ("1", True), ("yes", True)])
def test_switches(text: str, value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_AUTOTRAIN", text)
    assert settings.autotrain() is value
    monkeypatch.setenv("ZOO_AUTOTRAIN", "maybe")
    with pytest.raises(InputError, check=fields(where="ZOO_AUTOTRAIN", found="maybe")):
        settings.autotrain()
    assert settings.debug() is False
    monkeypatch.setenv("ZOO_DEBUG", "1")
    assert settings.debug() is True


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    assert settings.home() == tmp_path
    monkeypatch.delenv("ZOO_HOME")
    assert settings.home() == Path.home() / ".cache" / "zoo"
    assert (settings.default_dataset(), settings.data_folders()) == ("digits", [])
    monkeypatch.setenv("ZOO_DATA", f"{tmp_path}:~/data:")
    assert settings.data_folders() == [tmp_path, Path.home() / "data"]


def test_a_label_above_the_number_of_classes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    limits.check_classes(999_999, "x.csv")
    with pytest.raises(InputError, check=fields(where="x.csv", problem="1000001", hint="ZOO_MAX_CLASSES")):
        limits.check_classes(10**6, "x.csv")
    monkeypatch.setenv("ZOO_MAX_CLASSES", "2000000")
    limits.check_classes(10**6, "x.csv")
