"""`zoo triage`, on stored outputs."""

import pandas as pd
import pytest
from raised import fields

import diversity
from zoo.errors import InputError
from zoo.outputs.outputs import Runs


@pytest.fixture
def runs(store_outputs):
    return Runs(store_outputs(f"mine-{seed}", seed, data="known", skill=2 + 0.5 * seed) for seed in range(4))


def test_json_equals_the_function(cli, runs, tmp_path):
    found = cli("triage", "mine-*", "-n", "7", "--json", "-o", tmp_path / "all.csv").json
    expected = diversity.triage(runs)
    assert [row["id"] for row in found["rows"]] == expected.frame["id"][:7].tolist()
    assert found["kinds"] == expected.counts()
    assert len(pd.read_csv(tmp_path / "all.csv")) == 400 == found["examples"]
    first = expected.frame.iloc[0]
    printed = cli("triage", "mine-*", "-n", "3")
    assert printed.out.splitlines()[1].split()[:2] == [first["id"], first["kind"]]
    assert f"{100 * first['wrong']:.1f}%" in printed.out
    ambiguous = cli("triage", "mine-*", "--only", "ambiguous", "-n", "3", "--json").json["rows"]
    assert [row["id"] for row in ambiguous] == expected.of_kind("ambiguous")["id"][:3].tolist()


def test_a_checked_sample_estimates_the_number_of_wrong_labels(cli, runs, tmp_path, invoke):
    file = tmp_path / "sample.csv"
    cli("triage", "mine-*", "--sample", "40", "-o", file)
    drawn = pd.read_csv(file, dtype=str)
    expected = diversity.triage(runs).sample(40)
    assert drawn["id"].tolist() == expected["id"].tolist()
    drawn["correct"] = ["no"] * 3 + ["yes"] * 36 + [""]
    drawn.to_csv(file, index=False)
    found = cli("triage", "mine-*", "--checked", file, "--json").json["wrong_labels"]
    checked = {row_id: text == "yes" for row_id, text in zip(drawn["id"], drawn["correct"], strict=True) if text}
    count = diversity.triage(runs, checked=checked).wrong_labels
    assert (found["checked"], found["wrong"], tuple(found["interval"])) == (39, 3, count.interval)
    assert f"{count.interval[1]:,}" in cli("triage", "mine-*", "--checked", file).err
    assert cli("triage", "mine-*", "--json").json["wrong_labels"] is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,answer\n1,yes\n", {"expected": "correct", "found": "answer"}),
        ("correct\nyes\n", {"expected": "a column id"}),
        ("id,correct\n1,yes\n1,no\n", {"problem": "'1' occurs twice"}),
        ("id,correct\nnobody,yes\n", {"problem": "'nobody'"}),
        ("id,correct\n", {"expected": "at least one"}),
        ("id,correct\nknown/0,\n", {"expected": "at least one"}),
        ("id,correct\nknown/0,maybe\n", {"problem": "'maybe'", "where": "known/0"}),
        (f"id,correct\nknown/0,{2**70}\n", {"where": "known/0"}),
        ("id,correct\nknown/0,-3\n", {"where": "known/0"}),
        ("id;correct\n1;yes\n", {"expected": "a column id", "found": "id;correct"}),
        ("", {"where": "bad.csv"}),
        ("id,correct\n\ud800,yes\n", {"where": "bad.csv"}),
    ],
)
def test_invalid_files_of_checked_labels(runs, invoke, tmp_path, text, expected):
    (tmp_path / "bad.csv").write_bytes(text.encode("utf-8", "surrogatepass"))  # one of them is not UTF-8
    with pytest.raises(InputError, check=fields(argument="checked", **expected)):
        invoke("triage", "mine-*", "--checked", tmp_path / "bad.csv")


def test_errors(cli, runs, tmp_path, invoke):
    assert "--first" in cli("triage", "mine-*", "-n", "0", code=2).err
    with pytest.raises(InputError, check=fields(argument="output", expected=".csv")):
        invoke("triage", "mine-*", "-o", tmp_path / "t.txt")
    for path in (tmp_path, tmp_path / "absent.csv", "x" * 5000):
        with pytest.raises(InputError, check=fields(argument="checked")):
            invoke("triage", "mine-*", "--checked", path)
    with pytest.raises(InputError, check=fields(argument="sample", found=401)):
        invoke("triage", "mine-*", "--sample", "401")
    with pytest.raises(InputError, check=fields(argument="models", found="mine-0")):
        invoke("triage", "mine-0")
    with pytest.raises(InputError, check=fields(argument="only")):
        invoke("triage", "mine-*", "--sample", "4", "--only", "ambiguous")
    with pytest.raises(InputError, check=fields(argument="sample")):
        invoke("triage", "mine-*", "--sample", "4", "--checked", tmp_path / "t.csv")
