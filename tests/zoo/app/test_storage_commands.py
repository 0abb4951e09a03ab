"""`zoo outputs`, `zoo rm` and `zoo verify`."""

import pytest
from raised import fields

from zoo.errors import InputError, UnknownName


@pytest.fixture
def stored(store_outputs):
    for data in ("old-set", "new-set"):
        for seed, name in enumerate(["weak", "good"]):
            store_outputs(name, seed, data=data)


def test_outputs_are_listed_and_removed(cli, stored, zoo_home, invoke):
    printed = cli("outputs", "--data", "old-set")
    assert "weak" in printed.out
    assert "2 stored" in printed.err
    rows = cli("outputs", "w*", "--json").json
    assert {(row["model"], row["dataset"], row["examples"]) for row in rows} == {
        ("weak", "old-set", 400), ("weak", "new-set", 400)
    }  # fmt: skip
    assert all(row["bytes"] == sum(f.stat().st_size for f in (zoo_home / row["path"]).iterdir()) for row in rows)
    assert "--yes" in cli("rm", "weak", "--data", "old-set", code=2).err
    foreign = zoo_home / rows[0]["path"] / "my-notes.txt"
    foreign.write_text("mine")
    with pytest.raises(InputError, match=r"my-notes\.txt"):
        invoke("rm", "weak", "--yes")
    assert len(cli("outputs", "--json").json) == 4
    foreign.unlink()
    assert "2 removed" in cli("rm", "weak", "--yes").err
    assert not list(zoo_home.glob("outputs/*/*weak*"))
    with pytest.raises(UnknownName, match="weak"):
        invoke("rm", "weak", "--yes")
    with pytest.raises(InputError, check=fields(hint="'*'")):
        invoke("rm")
    cli("rm", "--data", "old-set", "--yes")
    names = [row["name"] for row in cli("datasets", "--json").json]
    assert ("old-set" in names, "new-set" in names) == (False, True)


def test_verify_finds_damage(cli, stored, zoo_home):
    printed = cli("verify")
    assert "weak" in printed.out
    assert "4 checked, 0 damaged" in printed.err
    shard = next(zoo_home.glob("outputs/[!.]*/[!.]*/00000.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    found = cli("verify", "--json", "--set-aside", code=1).json
    assert found["clean"] is False
    assert list(found["set_aside"]) == [str(shard)]
    assert shard.with_name("00000.safetensors.corrupt-1").exists()


def test_a_damaged_file_is_named(invoke, stored, zoo_home):
    shard = next(zoo_home.glob("outputs/[!.]*/[!.]*/00000.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    result = invoke("verify")
    assert result.exit_code == 1
    assert str(shard) in result.stdout


def test_verify_of_an_empty_home(cli):
    assert cli("verify").out == ""
    assert cli("verify", "--json").json == {"clean": True, "runs": [], "set_aside": {}}
