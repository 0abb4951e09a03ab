"""Tables of models as text: shared endings are printed once, and different names stay different."""

from hypothesis import given
from hypothesis import strategies as st

from ensembles.text_table import shorten, text_table


def test_the_shared_ending_is_printed_once():
    lines = text_table({"model": ["resnet8-softmax.digits", "vgg-cosine.digits"], "score": ["0.9", "0.85"]})
    assert [line.count(".digits") for line in lines] == [1, 0, 0]
    assert [line.split()[0] for line in lines[1:]] == ["resnet8-softmax", "vgg-cosine"]
    assert [line.split()[-1] for line in lines] == ["score", "0.9", "0.85"]
    lines = text_table({"model": ["a.digits", "b.cifar10"], "score": ["1", "2"]})
    assert [line.split()[0] for line in lines] == ["model", "a.digits", "b.cifar10"]


def test_columns_are_aligned_and_long_names_are_cut_to_eighty_characters():
    names = [f"a-model-with-a-very-long-name-indeed-and-then-some-more-of-it-{i}-variant" for i in range(3)]
    lines = text_table({"step": ["1", "2", "10"], "model": names, "category": ["–", "arch", "reinit"], "score": ["0.1"] * 3})
    assert {len(line) for line in lines} == {80}
    assert [line[:4] for line in lines] == ["step", "   1", "   2", "  10"]
    assert len({line.split()[1] for line in lines}) == 4


@given(st.lists(st.text("ab-", min_size=1, max_size=30), min_size=1, max_size=8), st.integers(0, 20))
def test_different_names_are_never_cut_to_the_same_text(names, width):
    short = shorten(names, width)
    assert len(set(short)) == len(set(names))
    for name, cut in zip(names, short, strict=True):
        head, _, tail = cut.partition("…")
        assert cut == name or (name.startswith(head) and name.endswith(tail) and len(cut) < len(name))


def test_names_that_differ_in_the_middle_only():
    assert shorten(["ab-x-cd", "ab-y-cd"], 5) == ["ab-x-cd", "ab-y-cd"]
    assert shorten(["one-long-name", "another-long-name"], 8) == ["one…name", "ano…name"]
