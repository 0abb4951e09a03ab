"""From names to outputs: which of several outputs a name stands for, and what is used where images are missing."""

import dataclasses

import numpy as np
import pytest
from raised import fields
from small_models import save_images, small_model

import zoo
from zoo.cards import card_index, labels
from zoo.errors import CorruptFile, InputError, MissingWeights, UnknownName, ZooError, ZooWarning
from zoo.models import registry
from zoo.outputs import bundle, store
from zoo.outputs.outputs import Outputs
from zoo.runs import jobs, model_list, resolver
from zoo.runs.runner import run

DATA = "digits:test[:20]"
LABELS = np.arange(20) % 10
SHIPPED = ["resnet7-cosine.cifar10", "resnet7-softmax.cifar10"]


def imported(name, seed=0, data=DATA, rows=20, **more):
    logits = np.random.default_rng(seed).normal(size=(rows, 10)).astype(np.float32)
    return store.save(Outputs.from_arrays(name, logits=logits, labels=LABELS[:rows], dataset=data, **more))


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Two models with shipped outputs on 20 examples of cifar10:test."""
    outputs = [
        Outputs.from_arrays(
            name, predictions=LABELS, labels=LABELS, dataset="cifar10:test", card=registry.card(name),
            classes=labels.classes("cifar10"), ids=[f"image-{n}" for n in range(20)],
        )
        for name in SHIPPED
    ]  # fmt: skip
    bundle.export_outputs(outputs, tmp_path / "study.outputs.safetensors")
    runs = bundle.read(tmp_path / "study.outputs.safetensors")
    monkeypatch.setattr(bundle, "_shipped", lambda spec: [runs] if spec == "cifar10:test" else [])
    return runs


def test_an_import_under_the_name_of_a_model_is_used_with_a_warning(zoo_home):
    mine = imported("timm:test_resnet")
    with pytest.warns(ZooWarning, match="timm:test_resnet@run"):
        runs = run("timm:test_resnet", data=DATA)
    np.testing.assert_array_equal(runs["timm:test_resnet"].logits, mine.logits)
    asked = run("timm:test_resnet@import", data=DATA)  # explicitly the import: no warning
    np.testing.assert_array_equal(asked["timm:test_resnet"].logits, mine.logits)
    model = run("timm:test_resnet@run", data=DATA, pretrained=False, progress=False)
    assert model["timm:test_resnet"].logits.shape == (20, 1000)
    assert run("timm:test_resnet", data=DATA, pretrained=False)["timm:test_resnet"].path == model["timm:test_resnet"].path


def test_an_import_on_another_dataset_is_not_used(zoo_home):
    imported("timm:test_resnet", data="digits:calibration")
    found = run("timm:test_resnet", data=DATA, pretrained=False, progress=False)
    assert found["timm:test_resnet"].dataset == DATA


def test_imports_need_no_images_and_match_patterns(zoo_home):
    for seed, name in enumerate(("mine-a", "mine-b")):
        imported(name, seed, data="cifar10:test")
    assert zoo.run("mine-*", data="cifar10:test").names == ["mine-a", "mine-b"]
    assert zoo.run(["mine-b"]).names == ["mine-b"]  # its only dataset
    imported("mine-b", data="cifar100:test")
    with pytest.raises(InputError, check=fields(problem=["cifar100:test", "cifar10:test"], hint="{data}")):
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
    with pytest.raises(ZooError, match="photos"):
        run("timm:test_resnet", data=spec)


def test_incompatible_imports_that_a_pattern_selects_are_skipped_with_a_warning(zoo_home):
    imported("mine-a"), imported("mine-b", 1), imported("mine-short", 2, rows=7)
    imported("mine-named", 3, classes=[f"class {k}" for k in range(10)])
    with pytest.warns(ZooWarning) as warned:
        assert run("mine-*", data=DATA).names == ["mine-a", "mine-b"]
    named, short = sorted(str(warning.message) for warning in warned)
    assert named.startswith("mine-named: ")
    assert "classes" in named
    assert short.startswith("mine-short: ")
    assert "examples" in short
    assert run(["mine-a", "mine-short"], data=DATA).names == ["mine-a", "mine-short"]  # selected by name


def test_a_damaged_import_that_a_pattern_selects_is_skipped_with_a_warning(zoo_home):
    imported("mine-a")
    shard = imported("mine-b", 1).path / "00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    with pytest.warns(ZooWarning, match=r"00000\.safetensors.*skipped"):
        assert store.open_runs("mine-*").names == ["mine-a"]
    with pytest.warns(ZooWarning, match=r"00000\.safetensors.*skipped"):
        assert run("mine-*", data=DATA).names == ["mine-a"]
    with pytest.raises(CorruptFile, check=fields(where="00000.safetensors")):
        run("mine-b", data=DATA)


def test_shipped_outputs_need_no_images(shipped):
    assert run(SHIPPED, data="cifar10:test")[SHIPPED[0]].accuracy == 1
    with pytest.raises(ZooError, match="cifar10"):
        run("timm:test_vit", data="cifar10:test")


def test_shipped_outputs_are_used_although_the_images_are_on_this_machine(shipped, tmp_path, monkeypatch):
    """Running the models again took minutes instead of seconds."""
    save_images(tmp_path / "data/cifar10/test", 2, labels.classes("cifar10"), size=(32, 32))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    assert len(zoo.datasets.load("cifar10:test")) == 20

    def refuse(*arguments, **options):
        raise AssertionError("a model was loaded")

    with monkeypatch.context() as patch:
        patch.setattr(registry, "load", refuse)
        assert run(SHIPPED, data="cifar10:test")[SHIPPED[1]].details["bundle"]
    fresh = run(SHIPPED[1], data="cifar10:test", fresh=True, progress=False)[SHIPPED[1]]
    assert fresh.kind == "logits"
    assert "bundle" not in fresh.details


def test_shipped_outputs_of_other_weights_are_not_used(shipped, monkeypatch):
    card = registry.card
    monkeypatch.setattr(
        registry, "card", lambda name: dataclasses.replace(card(name), sha256="0" * 64) if name in SHIPPED else card(name)
    )
    with pytest.warns(ZooWarning, match="shipped"):  # there are no images, so they are better than nothing
        run(SHIPPED[0], data="cifar10:test")


def test_a_slice_is_served_from_shipped_outputs_on_the_whole(shipped):
    outputs = run(SHIPPED[0], data="cifar10:test[5:9]")[SHIPPED[0]]
    assert outputs.ids.tolist() == ["image-5", "image-6", "image-7", "image-8"]
    assert outputs.labels.tolist() == LABELS[5:9].tolist()
    assert outputs.dataset == "cifar10:test[5:9]"
    with pytest.warns(ZooWarning, match="skipping"):
        assert resolver.runnable(["resnet7-*.cifar10"], "cifar10:test[5:9]") == SHIPPED


def test_a_slice_is_served_from_a_stored_run_on_the_whole():
    model = small_model()
    whole = run(model, data="digits:test[:50]", progress=False)["small"]
    model.body.calls.clear()
    part = run(model, data="digits:test[:50][10:14]", progress=False)["small"]
    assert len(model.body.calls) == 1  # the whole of a slice is the dataset without any range
    all_rows = run(model, data="digits:test", progress=False)["small"]
    model.body.calls.clear()
    again = run(model, data="digits:test[20:30]", progress=False)["small"]
    assert model.body.calls == []
    np.testing.assert_array_equal(again.logits, np.asarray(all_rows.logits)[20:30])
    assert again.ids.tolist() == all_rows.ids[20:30].tolist()
    np.testing.assert_allclose(part.logits, np.asarray(whole.logits)[10:14], rtol=1e-5, atol=1e-6)


def test_a_slice_is_served_from_a_stored_run_whose_images_are_gone(tmp_path):
    save_images(tmp_path / "photos", 3)
    spec = f"folder:{tmp_path / 'photos'}"
    whole = run(small_model("gone", ("cat", "dog")), data=spec, progress=False)["gone"]
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    part = run("gone", data=f"{spec}[1:3]")["gone"]
    np.testing.assert_array_equal(part.logits, np.asarray(whole.logits)[1:3])
    assert part.dataset == f"{spec}[1:3]"


def test_a_slice_is_served_from_imports_on_the_whole():
    ids = [f"image-{n}" for n in range(20)]
    a = imported("mine-a", data="mine:test", ids=ids)
    b = imported("mine-b", 1, data="mine:test", ids=ids[::-1])
    runs = run("mine-*", data="mine:test[2:5]")
    assert runs.names == ["mine-a", "mine-b"]
    assert runs["mine-a"].ids.tolist() == runs["mine-b"].ids.tolist() == ids[2:5]  # the order of the first import
    np.testing.assert_array_equal(runs["mine-a"].logits, np.asarray(a.logits)[2:5])
    np.testing.assert_array_equal(runs["mine-b"].logits, np.asarray(b.logits)[::-1][2:5])


def test_models_with_outputs_on_the_whole_are_listed_for_a_slice(shipped, monkeypatch, tmp_path):
    monkeypatch.setattr(card_index, "shipped_folder", lambda: tmp_path)
    assert set(SHIPPED) <= model_list.with_outputs("cifar10:test[:5]")


def test_a_pattern_skips_models_that_were_never_trained(zoo_home, tmp_path):
    save_images(tmp_path / "photos", 1, zoo.load("resnet7-softmax.cifar10", pretrained=False).classes)
    spec, pattern = f"folder:{tmp_path / 'photos'}", "[ar]*7-softmax.cifar10"
    with pytest.warns(ZooWarning, match=r"2 of 3 .*all-cnn-c-cosine\.cifar10"):
        found = run([pattern, "all-cnn-c-[cs]o*.cifar10"], data=spec, progress=False)
    assert found.names == ["resnet7-softmax.cifar10"]
    with pytest.raises(MissingWeights, match=r"all-cnn-c-cosine\.cifar10"):  # nothing would be left
        run("all-cnn-c-[cs]o*.cifar10", data=spec)
    with pytest.raises(MissingWeights, match=r"all-cnn-c-softmax\.cifar10"):  # it was named
        run([pattern, "all-cnn-c-softmax.cifar10"], data=spec, progress=False)


def test_a_pattern_uses_shipped_outputs_and_searches_for_the_images_once(shipped, monkeypatch):
    searched = []
    load = jobs.load_dataset
    monkeypatch.setattr(jobs, "load_dataset", lambda spec: (searched.append(spec), load(spec))[1])
    with pytest.warns(ZooWarning, match=r"skipping \d+ of \d+ .*all-cnn-c-cosine\.cifar10"):
        assert run("*.cifar10", data="cifar10:test").names == SHIPPED
    assert searched == ["cifar10:test"]


def test_a_run_is_chosen_by_its_digest(zoo_home):
    path = imported("mine-a").path
    digest = path.name.rpartition("-")[2]
    assert run(f"mine-a@{digest}", data=DATA)["mine-a"].path == path
    with pytest.raises(UnknownName, check=fields(name="mine-a@00000000")):
        run("mine-a@00000000", data=DATA)


def test_unknown_names_are_errors(zoo_home):
    with pytest.raises(UnknownName, check=fields(kind="model", name="nobody")):
        run("nobody", data=DATA)
    with pytest.raises(UnknownName, check=fields(kind="imported model", name="nobody", hint="zoo import")):
        run("nobody@import", data=DATA)
    with pytest.raises(UnknownName, check=fields(problem="no*body")):
        run("no*body", data=DATA)
