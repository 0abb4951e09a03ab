"""The records of the measures are complete, and correct about the measures they describe."""

import numpy as np
import pytest
from raised import fields

import diversity
from diversity.measures import MEASURES, find, names, title
from diversity.pair_ensembles import EnsembleTable
from diversity.summary import GAIN_PARTS
from diversity.tables import CELLS, ErrorTable
from zoo.errors import InputError

COUNTS = {"examples", "both_right", "only_first", "only_second", "same_wrong", "both_wrong", "inconsistent",
          "first_wrong", "second_wrong", "outcomes", *GAIN_PARTS}  # fmt: skip


def properties(kind):
    return {name for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, property)}


def table(*cells):
    return EnsembleTable(np.array(cells, float), np.array(cells, float))


def test_every_measure_of_a_table_has_a_record():
    assert properties(ErrorTable) - COUNTS == set(names("errors"))
    assert properties(EnsembleTable) - COUNTS == set(names("errors", "ensemble"))
    assert all(hasattr(diversity.Comparison, name) for name in MEASURES)


@pytest.mark.parametrize(
    "name", [name for name in names("errors") if MEASURES[name].greater in ("more diverse", "less diverse")]
)
def test_greater_values_mean_what_the_record_says(name):
    """A pair with the same errors against one of the same accuracies whose errors never meet."""
    alike, apart = table(70, 5, 5, 20, 0), table(52, 23, 23, 0, 2)
    assert alike.accuracy_first == apart.accuracy_first == 0.75
    sign = 1 if MEASURES[name].greater == "more diverse" else -1
    assert sign * (getattr(apart, name) - getattr(alike, name)) > 0


@pytest.mark.parametrize(
    "name", [name for name, measure in MEASURES.items() if measure.chance is not None and name != "capa"]
)
def test_chance_is_the_value_for_independent_errors(name):
    independent = table(0.8 * 0.7 * 100, 0.8 * 0.3 * 100, 0.2 * 0.7 * 100, 0.2 * 0.3 * 100, 0)
    assert getattr(independent, name) == pytest.approx(MEASURES[name].chance, abs=1e-12)


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if measure.of is not None])
def test_a_fraction_has_the_denominator_it_names(name):
    """Fraction times denominator is a whole number for every table."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        cells = rng.integers(1, 40, len(CELLS))
        drawn = EnsembleTable(cells.astype(float), (cells * rng.random(5)).astype(int).astype(float))
        hits = getattr(drawn, name) * getattr(drawn, MEASURES[name].of)
        assert hits == pytest.approx(round(hits), abs=1e-9)
        assert 0 <= hits <= getattr(drawn, MEASURES[name].of)


def test_names_and_titles():
    assert title("gain_over_mean") == "gain over the mean member"
    assert title("some_column") == "some column"
    assert len({measure.title for measure in MEASURES.values()}) == len(MEASURES)
    with pytest.raises(InputError, check=fields(argument="measure", name="capa")):
        find("capa", "errors")
