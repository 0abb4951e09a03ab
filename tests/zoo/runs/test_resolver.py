"""From names to outputs: imports are used and named, stored runs serve without images, one bad output blocks nothing."""

import numpy as np
import pytest
from small_models import save_images, small_model

import zoo
from zoo.errors import InputError, MissingWeights, UnknownName, ZooError, ZooWarning
from zoo.outputs import bundle, store
from zoo.outputs.outputs import Outputs
from zoo.runs import runner
from zoo.runs.runner import run

DATA = "digits:test[:20]"
LABELS = np.arange(20) % 10


def imported(name, seed=0, data=DATA, rows=20, **more):
    logits = np.random.default_rng(seed).normal(size=(rows, 10)).astype(np.float32)
    return store.save(Outputs.from_arrays(name, logits=logits, labels=LABELS[:rows], dataset=data, **more))


def test_an_import_under_the_name_of_a_model_is_taken_and_said(zoo_home):
    mine = imported("timm:test_resnet")
    with pytest.warns(ZooWarning, match=r"taking the outputs imported for .* which is timm:test_resnet@run"):
        runs = run("timm:test_resnet", data=DATA)
    np.testing.assert_array_equal(runs["timm:test_resnet"].logits, mine.logits)
    asked = run("timm:test_resnet@import", data=DATA)  # asked for by its kind: nothing to say
    np.testing.assert_array_equal(asked["timm:test_resnet"].logits, mine.logits)
    model = run("timm:test_resnet@run", data=DATA, pretrained=False, progress=False)
    assert model["timm:test_resnet"].logits.shape == (20, 1000)
    assert run("timm:test_resnet", data=DATA, pretrained=False)["timm:test_resnet"].path == model["timm:test_resnet"].path


def test_an_import_on_another_dataset_is_not_taken(zoo_home):
    imported("timm:test_resnet", data="digits:calibration")
    found = run("timm:test_resnet", data=DATA, pretrained=False, progress=False)
    assert found["timm:test_resnet"].dataset == DATA


def test_imports_need_no_images_and_match_patterns(zoo_home):
    for seed, name in enumerate(("mine-a", "mine-b")):
        imported(name, seed, data="cifar10:test")
    assert zoo.run("mine-*", data="cifar10:test").names == ["mine-a", "mine-b"]
    assert zoo.run(["mine-b"]).names == ["mine-b"]  # its only dataset
    imported("mine-b", data="cifar100:test")
    with pytest.raises(InputError, match=r"mine-b are on several datasets \(cifar100:test, cifar10:test\)"):
        zoo.run("mine-b")


def test_a_stored_run_serves_when_its_images_are_gone(zoo_home, tmp_path):
    from PIL import Image

    for number in range(4):
        place = tmp_path / "photos" / f"class-{number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(place / f"{number}.png")
    spec = f"folder:{tmp_path / 'photos'}"
    first = run(small_model("gone"), data=spec, progress=False)["gone"]
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    np.testing.assert_array_equal(run("gone", data=spec)["gone"].logits, first.logits)  # no card of that name
    with pytest.raises(ZooError, match="photos is not a folder"):
        run("timm:test_resnet", data=spec)


def test_one_incompatible_import_is_named_and_left_out(zoo_home):
    imported("mine-a"), imported("mine-b", 1), imported("mine-short", 2, rows=7)
    imported("mine-named", 3, classes=[f"class {k}" for k in range(10)])
    with pytest.warns(ZooWarning) as said:
        assert run("mine-*", data=DATA).names == ["mine-a", "mine-b"]
    messages = sorted(str(warning.message) for warning in said)
    assert messages == [
        "mine-named: stored outputs of other classes than the rest; left out",
        "mine-short: stored outputs of other examples than the rest; left out",
    ]
    assert run(["mine-a", "mine-short"], data=DATA).names == ["mine-a", "mine-short"]  # by name: the caller's to judge


def test_one_damaged_output_is_named_and_left_out_of_a_pattern(zoo_home):
    imported("mine-a")
    shard = imported("mine-b", 1).path / "00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.warns(ZooWarning, match=r"00000\.safetensors.*left out"):
        assert store.open_runs("mine-*").names == ["mine-a"]
    with pytest.warns(ZooWarning, match=r"00000\.safetensors.*left out"):
        assert run("mine-*", data=DATA).names == ["mine-a"]
    with pytest.raises(ZooError, match=r"00000\.safetensors"):
        run("mine-b", data=DATA)


def test_outputs_that_come_with_the_package_where_the_images_are_not_here(zoo_home, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle.card_index, "shipped_folder", lambda: tmp_path)
    shipped = Outputs.from_arrays("timm:test_resnet", predictions=LABELS, labels=LABELS, dataset="cifar10:test")
    bundle.export_outputs([shipped], tmp_path / "study.outputs.safetensors")
    with pytest.warns(ZooWarning, match="taking the outputs that come with the package"):
        assert run("timm:test_resnet", data="cifar10:test")["timm:test_resnet"].accuracy == 1
    with pytest.raises(ZooError, match="cifar10"):
        run("timm:test_vit", data="cifar10:test")


def test_a_pattern_leaves_out_what_was_never_trained(zoo_home, tmp_path):
    save_images(tmp_path / "photos", 1, zoo.load("resnet7-softmax.cifar10", pretrained=False).classes)
    spec, pattern = f"folder:{tmp_path / 'photos'}", "[ar]*7-softmax.cifar10"
    with pytest.warns(ZooWarning, match=r"2 of 3 models .* are left out \(all-cnn-c-cosine\.cifar10, "):
        found = run([pattern, "all-cnn-c-[cs]o*.cifar10"], data=spec, progress=False)
    assert found.names == ["resnet7-softmax.cifar10"]
    with pytest.raises(MissingWeights, match=r"zoo train all-cnn-c-cosine\.cifar10"):  # nothing would be left
        run("all-cnn-c-[cs]o*.cifar10", data=spec)
    with pytest.raises(MissingWeights, match=r"zoo train all-cnn-c-softmax\.cifar10"):  # it was named
        run([pattern, "all-cnn-c-softmax.cifar10"], data=spec, progress=False)


def test_a_pattern_takes_what_comes_with_the_package_and_asks_for_the_images_once(zoo_home, tmp_path, monkeypatch):
    asked = []
    load = runner.load_dataset
    monkeypatch.setattr(runner, "load_dataset", lambda spec: (asked.append(spec), load(spec))[1])
    names = ["resnet7-softmax.cifar10", "resnet7-cosine.cifar10"]
    shipped = [Outputs.from_arrays(name, predictions=LABELS, labels=LABELS, dataset="cifar10:test") for name in names]
    bundle.export_outputs(shipped, tmp_path / "study.outputs.safetensors")
    monkeypatch.setattr(bundle, "_shipped", lambda: [bundle.read(tmp_path / "study.outputs.safetensors")])
    with pytest.warns(ZooWarning) as said:
        assert run("*.cifar10", data="cifar10:test").names == sorted(names)
    assert asked == ["cifar10:test"]
    texts = [str(warning.message) for warning in said]
    assert sum("taking the outputs that come with the package" in text for text in texts) == 2
    assert "models that match cannot be run here and are left out (all-cnn-c-cosine.cifar10, " in texts[-1]


def test_by_digest(zoo_home):
    path = imported("mine-a").path
    digest = path.name.rpartition("-")[2]
    assert run(f"mine-a@{digest}", data=DATA)["mine-a"].path == path
    with pytest.raises(UnknownName, match="no stored outputs of mine-a@00000000"):
        run("mine-a@00000000", data=DATA)


def test_names_of_nothing(zoo_home):
    with pytest.raises(UnknownName, match="unknown model 'nobody'"):
        run("nobody", data=DATA)
    with pytest.raises(UnknownName, match=r"no outputs of 'nobody' on .* were imported"):
        run("nobody@import", data=DATA)
    with pytest.raises(UnknownName, match=r"no model matches 'no\*body'"):
        run("no*body", data=DATA)
