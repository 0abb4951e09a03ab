"""`zoo run`, `zoo import`, `zoo verify` as a user meets them: results, notes, exit codes, one line for a mistake."""

import json
import sys

import numpy as np
import pytest

from zoo.app import main as command_line


@pytest.fixture
def zoo(capsys, monkeypatch):
    """Run a command in this process; (exit code, standard output, standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call


RUN = ("run", "timm:test_vit", "--random", "--data", "digits:test[:6]")


def test_run_prints_a_table_and_says_where_things_are(zoo, zoo_home):
    code, out, err = zoo(*RUN)
    assert code == 0
    assert "timm:test_vit" in out
    assert "digits:test[:6]" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "6 images in" in err
    assert f"stored in {zoo_home}/outputs/digits-test-6-" in err
    assert "predicts other classes than digits:test[:6] has" in err
    code, out, err = zoo(*RUN, "--json")
    (row,) = json.loads(out)
    assert (row["model"], row["examples"], row["accuracy"], row["dimensions"]) == ("timm:test_vit", 6, None, 64)
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("run", "timm:test_vit", "--data", "digitz"), 2, "unknown dataset 'digitz'; did you mean digits?"),
        (("run", "no-such-model", "--data", "digits"), 2, "unknown model 'no-such-model'"),
        (("run", "timm:test_vit", "--random", "--data", "folder:/nowhere"), 2, "/nowhere is not a folder"),
        (("run", "timm:test_vit", "--random", "--data", "digits", "--precision", "int8"), 2, "precision 'int8'"),
        (("run", "timm:test_vit", "--random", "--data", "digits", "--device", "cuda:9"), 2, "'cuda:9' is not here"),
        (("import", "absent.npz"), 2, "absent.npz: there is no such file"),
        (("import", "a.pkl"), 2, "a pickle could run code"),
    ],
)
def test_mistakes_end_in_one_line(zoo, arguments, code, message):
    ended, out, err = zoo(*arguments)
    assert (ended, out) == (code, "")
    assert message in err
    assert err.startswith("zoo: ")
    assert err.count("\n") == 1


def test_undecodable_images_are_noted(zoo, tmp_path):
    from PIL import Image

    (tmp_path / "d").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "d/good.png")
    (tmp_path / "d/bad.png").write_bytes(b"")
    code, out, err = zoo("run", "timm:test_vit", "--random", "--data", f"folder:{tmp_path / 'd'}", "--json")
    assert code == 0
    assert "zoo: " in err
    assert "1 of 2 images cannot be decoded and are left out: bad.png" in err
    assert json.loads(out)[0]["undecodable"][0]["id"] == "bad.png"


def test_import_then_verify_then_damage(zoo, tmp_path, zoo_home):
    logits = np.random.default_rng(0).normal(size=(5, 10)).astype(np.float32)
    np.save(tmp_path / "mine.npy", logits)
    code, _, err = zoo("import", tmp_path / "mine.npy")
    assert (code, "say what the array is" in err) == (2, True)
    (tmp_path / "labels.txt").write_text("\n".join("01234"))
    (tmp_path / "classes.txt").write_text("\n".join("0123456789"))
    extra = ("--labels", tmp_path / "labels.txt", "--classes", tmp_path / "classes.txt", "--data", "cifar100:test")
    code, out, err = zoo("import", tmp_path / "mine.npy", "--kind", "logits", *extra, "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert row["accuracy"] == np.mean(logits.argmax(1) == np.arange(5))
    assert row["top-5"] == np.mean([k in np.argsort(-values)[:5] for k, values in enumerate(logits)])
    from zoo.outputs.store import open_runs

    assert np.array_equal(open_runs("mine", data="cifar100")["mine"].logits, logits)

    code, out, err = zoo("verify")
    assert (code, "mine" in out, "1 checked, 0 damaged" in err) == (0, True, True)
    np.save(tmp_path / "mine.npy", logits + 1)
    again = ("import", tmp_path / "mine.npy", "--kind", "logits", *extra)
    code, _, err = zoo(*again)
    assert (code, "--replace" in err) == (2, True)
    assert zoo(*again, "--replace")[0] == 0

    shard = next(path for path in zoo_home.glob("outputs/[!.]*/[!.]*/00000.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-1])
    code, out, _ = zoo("verify")
    assert code == 1
    assert f"{shard}: does not match its checksum" in out.replace("\n", "")
    code, out, _ = zoo("verify", "--json", "--set-aside")
    assert code == 1
    told = json.loads(out)
    assert told["clean"] is False
    assert list(told["set_aside"]) == [str(shard)]
    assert shard.with_name("00000.safetensors.corrupt-1").exists()


def test_nothing_to_verify(zoo):
    assert zoo("verify") == (0, "", "nothing is stored\n")
    code, out, _ = zoo("verify", "--json")
    assert (code, json.loads(out)) == (0, {"clean": True, "runs": [], "set_aside": {}})


@pytest.mark.parametrize("command", ["run", "import", "verify"])
def test_help_has_an_example(zoo, command):
    code, out, _ = zoo(command, "--help")
    assert code == 0
    assert f"zoo {command} " in out.replace("Usage:", "").split("zoo", 1)[1] or out.count(f"zoo {command}") > 1
