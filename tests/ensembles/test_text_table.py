"""Tables of models as text: shared endings are printed once, and long names are wrapped."""

from hypothesis import given
from hypothesis import strategies as st

from ensembles.text_table import text_table


def test_the_shared_ending_is_printed_once():
    lines = text_table({"model": ["resnet8-softmax.digits", "vgg-cosine.digits"], "score": ["0.9", "0.85"]})
    assert [line.count(".digits") for line in lines] == [1, 0, 0]
    assert [line.split()[0] for line in lines[1:]] == ["resnet8-softmax", "vgg-cosine"]
    assert [line.split()[-1] for line in lines] == ["score", "0.9", "0.85"]
    lines = text_table({"model": ["a.digits", "b.cifar10"], "score": ["1", "2"]})
    assert [line.split()[0] for line in lines] == ["model", "a.digits", "b.cifar10"]


@given(st.lists(st.text("ab-", min_size=1, max_size=120), min_size=1, max_size=8))
def test_whole_names_fit_eighty_characters(names):
    lines = text_table({"#": ["1"] * len(names), "model": names, "score": ["x"] * len(names)})
    assert max(map(len, lines)) <= 80
    rows = "".join(line.replace("x", "").removeprefix("1").strip() + "/" * line.endswith("x") for line in lines[1:])
    assert rows.replace("/", "") == "".join(names)


def test_columns_are_aligned():
    names = [f"a-model-with-a-very-long-name-indeed-and-then-some-more-of-it-{i}-variant" for i in range(3)]
    lines = text_table({"#": ["1", "2", "10"], "model": names, "differs in": ["–"] * 3, "score": ["0.1"] * 3})
    assert len({len(line) for line in lines if line.endswith(("score", "0.1"))}) == 1
    assert [line[:4] for line in lines if line[0] != " "] == ["#   ", "1   ", "2   ", "10  "]
