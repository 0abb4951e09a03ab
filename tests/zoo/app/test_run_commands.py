"""`zoo run` and `zoo predict`."""

import pandas as pd
import pytest
from PIL import Image
from raised import fields

import zoo
from zoo.errors import InputError, UnknownName

RUN = ("run", "timm:test_vit", "--random", "--data", "digits:test[:6]")


def test_run_prints_a_table_and_the_folder_of_the_outputs(cli, zoo_home):
    printed = cli(*RUN)
    assert "timm:test_vit" in printed.out
    assert "digits:test[:6]" in printed.out
    assert f"{zoo_home}/outputs/digits-test-6-" in printed.err
    assert "other classes" in printed.err
    again = cli(*RUN, "--json")
    (row,) = again.json
    assert (row["model"], row["examples"], row["accuracy"], row["dimensions"]) == ("timm:test_vit", 6, None, 64)
    assert again.err == ""
    assert "6 images" in cli(*RUN, "--fresh", "--json").err


def test_a_dry_run_prints_the_plan_and_stores_no_outputs(cli, zoo_home):
    two = ("run", "timm:test_vit", "timm:test_resnet", "--random", "--data", "digits:test[:6]")
    planned = cli(*two, "--dry-run", "--json").json
    assert not list(zoo_home.glob("outputs/*"))
    (group,) = planned["groups"]
    assert (group["models"], group["images"]) == (["timm:test_vit", "timm:test_resnet"], 6)
    assert planned["bytes"] == sum(row["bytes"] for row in planned["models"]) > 0
    assert planned["seconds"] > 0
    cli(*RUN)
    printed = cli(*two, "--dry-run")
    assert [line.split()[:2] for line in printed.out.splitlines()[1:]] == [
        ["timm:test_vit", "stored"], ["timm:test_resnet", "to"]
    ]  # fmt: skip
    assert "1 model x 6 images" in printed.err


def test_a_profile_lists_every_stage(cli):
    printed = cli(*RUN, "--profile", "--fresh")
    named = [line.split()[0] for line in printed.out.splitlines()]
    assert named[named.index("stage") + 1 :] == ["read", "decode", "transform", "copy", "forward", "write"]
    printed = cli(*RUN, "--profile", "--json")
    assert printed.json[0]["model"] == "timm:test_vit"
    assert "nothing was computed" in printed.err


def test_several_models_have_one_line_each(cli):
    printed = cli("run", "resnet7-softmax.cifar10", "r7x2.cifar10")  # shipped outputs, no images
    lines = printed.out.splitlines()
    assert lines[0].split() == ["model", "(.cifar10)", "accuracy", "top-5"]
    assert lines[2].split()[:2] == ["r7x2", "93.0%"]
    assert "10,000 examples of cifar10:test" in printed.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("timm:test_vit", "--data", "digitz"), "digitz"),
        (("no-such-model", "--data", "digits"), "no-such-model"),
        (("timm:test_vit", "--random", "--data", "folder:/nowhere"), "/nowhere"),
        (("timm:test_vit", "--random", "--data", "digits", "--precision", "int8"), "int8"),
        (("timm:test_vit", "--random", "--data", "digits", "--device", "cuda:9"), "cuda:9"),
    ],
)
def test_errors_are_one_line(cli, arguments, text):
    printed = cli("run", *arguments, code=2)
    assert text in printed.err
    assert printed.err.startswith("zoo: ")
    assert printed.err.count("\n") == 1


def test_undecodable_images_are_reported(cli, tmp_path):
    (tmp_path / "d").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "d/good.png")
    (tmp_path / "d/bad.png").write_bytes(b"")
    printed = cli("run", "timm:test_vit", "--random", "--data", f"folder:{tmp_path / 'd'}", "--json")
    assert "1 of 2 images" in printed.remarks
    assert printed.json[0]["undecodable"][0]["id"] == "bad.png"


class TestPredict:
    NAME = "resnet7-softmax.cifar10"

    @pytest.fixture
    def photos(self, tmp_path):
        folder = tmp_path / "photos"
        (folder / "more").mkdir(parents=True)
        for name, colour in (("a.png", "red"), ("more/b.jpg", "green")):
            Image.new("RGB", (40, 30), colour).save(folder / name)
        (folder / "notes.txt").write_text("not an image")
        return folder

    def test_classes_and_confidences(self, cli, photos, tmp_path):
        rows = cli("predict", self.NAME, photos, "--top", "3", "--json", "-o", tmp_path / "p.csv").json
        model = zoo.load(self.NAME, device="cpu")
        paths = [photos / "a.png", photos / "more/b.jpg"]
        probabilities = model.predict(paths).softmax(1)
        for number, path in enumerate(paths):
            mine = [row for row in rows if row["image"] == str(path)]
            best = probabilities[number].topk(3)
            assert [row["class"] for row in mine] == [model.classes[k] for k in best.indices]
            assert [row["confidence"] for row in mine] == pytest.approx(best.values.tolist(), rel=1e-4)
        table = pd.read_csv(tmp_path / "p.csv")
        assert table["confidence"].tolist() == pytest.approx([row["confidence"] for row in rows])
        text = cli("predict", self.NAME, photos / "a.png").out
        assert text.splitlines()[1].split()[-2:] == [rows[0]["class"], f"{100 * rows[0]['confidence']:.1f}%"]

    def test_images_that_cannot_be_decoded_are_skipped(self, cli, photos, invoke):
        (photos / "bad.png").write_bytes(b"")
        printed = cli("predict", self.NAME, photos, "--json")
        assert len(printed.json) == 2
        assert "bad.png" in printed.err
        with pytest.raises(InputError, check=fields(argument="paths")):
            invoke("predict", self.NAME, photos / "bad.png")

    def test_errors(self, invoke, photos, tmp_path):
        with pytest.raises(InputError, check=fields(argument="paths", where="absent.png")):
            invoke("predict", self.NAME, tmp_path / "absent.png")
        (tmp_path / "empty").mkdir()
        with pytest.raises(InputError, check=fields(argument="paths", where="empty")):
            invoke("predict", self.NAME, tmp_path / "empty")
        with pytest.raises(UnknownName, check=fields(suggestions=("r7x2.cifar10",))):
            invoke("predict", "r7x2", photos)
        with pytest.raises(InputError, check=fields(argument="output")):
            invoke("predict", self.NAME, photos, "-o", tmp_path / "p.svg")
