"""Images in every form: converted to RGB as a viewer shows them, or refused by name."""

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from raised import fields

from zoo.datasets import image_files, images
from zoo.errors import InputError, ZooError

RED, GREEN = (200, 30, 40), (10, 180, 60)


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


def first_pixel(image: Image.Image) -> tuple[int, ...]:
    assert image.mode == "RGB"
    return image.getpixel((0, 0))


def test_grey_palette_and_one_bit_images_become_rgb(tmp_path: Path) -> None:
    assert first_pixel(images.read(saved(Image.new("L", (5, 4), 90), tmp_path / "grey.png"))) == (90, 90, 90)
    palette = Image.new("RGB", (5, 4), RED).convert("P", palette=Image.Palette.ADAPTIVE)
    assert first_pixel(images.read(saved(palette, tmp_path / "palette.png"))) == RED
    assert first_pixel(images.read(saved(Image.new("1", (5, 4), 1), tmp_path / "bits.png"))) == (255, 255, 255)


def test_cmyk_jpeg_keeps_its_colours(tmp_path: Path) -> None:
    path = saved(Image.new("RGB", (16, 16), RED).convert("CMYK"), tmp_path / "print.jpg", quality=100, subsampling=0)
    with Image.open(path) as image:
        assert image.mode == "CMYK"
    assert np.allclose(first_pixel(images.read(path)), RED, atol=4)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (257, 1), (32768, 128), (65535, 255)])
def test_sixteen_bits_are_scaled_not_truncated(tmp_path: Path, value: int, expected: int) -> None:
    path = saved(Image.fromarray(np.full((3, 3), value, np.uint16)), tmp_path / "deep.png")
    assert first_pixel(images.read(path)) == (expected,) * 3


def test_a_dark_sixteen_bit_image_stays_dark(tmp_path: Path) -> None:
    """All values are below 256, so reading them as 8 bits would make a nearly black image bright."""
    path = saved(Image.fromarray(np.full((3, 3), 200, np.uint16)), tmp_path / "dark.png")
    assert first_pixel(images.read(path)) == (1, 1, 1)


def test_transparent_pixels_are_blended_with_white(tmp_path: Path) -> None:
    clear = Image.new("RGBA", (4, 4), (*RED, 0))
    assert first_pixel(images.read(saved(clear, tmp_path / "clear.png"))) == (255, 255, 255)
    solid = Image.new("RGBA", (4, 4), (*RED, 255))
    assert first_pixel(images.read(saved(solid, tmp_path / "solid.png"))) == RED
    half = np.array(first_pixel(images.to_rgb(Image.new("RGBA", (4, 4), (0, 0, 0, 128)))))
    assert np.all(np.abs(half - 127) <= 1)


def test_a_transparent_palette_colour_becomes_white(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([*RED, *GREEN])
    assert first_pixel(images.read(saved(image, tmp_path / "p.png", transparency=0))) == (255, 255, 255)


def test_exif_rotation_is_applied_once(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20), RED)
    image.paste(GREEN, (0, 0, 20, 20))  # the left half
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it rotated by 90 degrees clockwise
    path = saved(image, tmp_path / "turned.jpg", exif=exif, quality=100)
    upright = images.read(path)
    assert upright.size == (20, 40)
    assert np.allclose(upright.getpixel((10, 2)), GREEN, atol=6)
    assert np.allclose(upright.getpixel((10, 37)), RED, atol=6)
    assert images.to_rgb(upright).size == (20, 40)


def test_an_image_may_have_one_pixel() -> None:
    assert images.one(np.array([[[1, 2, 3]]], np.uint8), "x").getpixel((0, 0)) == (1, 2, 3)


@pytest.mark.parametrize("damage", ["text", "empty", "truncated", "noise"])
@pytest.mark.parametrize("ending", ["jpg", "png", "gif", "webp", "tiff"])
def test_undecodable_files_are_named(tmp_path: Path, ending: str, damage: str) -> None:
    path = tmp_path / f"broken.{ending}"
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    whole = path.read_bytes()
    path.write_bytes({"text": b"hello", "empty": b"", "truncated": whole[: len(whole) // 3], "noise": b"\x00" * 900}[damage])
    with pytest.raises(InputError, check=fields(where=f"broken.{ending}")):
        images.read(path)
    with pytest.raises(image_files.Undecodable, check=fields(where=f"broken.{ending}")):
        image_files.read(path)


def test_absent_files_and_folders_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.png", tmp_path):
        with pytest.raises(InputError, check=fields(where=str(path), problem="cannot be read")):
            images.read(path)
        with pytest.raises(ZooError, check=fields(where=str(path), problem="cannot be read")) as failed:
            image_files.read(path)
        assert not isinstance(failed.value, InputError)  # a disk that fails is not the image's fault


@pytest.mark.parametrize("mode", ["F", "I"])
def test_pixels_without_an_agreed_range_are_refused(mode: str) -> None:
    with pytest.raises(InputError, check=fields(where="image", problem=f"mode {mode}")):
        images.to_rgb(Image.new(mode, (2, 2)))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, bool])
def test_arrays_that_are_not_uint8_are_refused(kind: type) -> None:
    with pytest.raises(InputError, check=fields(expected="uint8", found=np.dtype(kind), hint="Model.forward")):
        list(images.decoded(np.zeros((4, 4, 3), kind)))


@pytest.mark.parametrize("shape", [(4, 4, 2), (4, 4, 5), (0, 4, 3)])
def test_arrays_of_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, check=fields(expected="[H, W, C]", found=list(shape))):
        list(images.decoded(np.zeros(shape, np.uint8)))


def test_a_tensor_with_channels_last_is_refused() -> None:
    with pytest.raises(InputError, check=fields(expected="[C, H, W]", found=[8, 6, 3])):
        list(images.decoded(torch.zeros(8, 6, 3, dtype=torch.uint8)))


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_every_form_gives_the_same_image(count: int, height: int, width: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), np.uint8)
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    encoded = []
    for one in pixels:
        buffer = io.BytesIO()
        Image.fromarray(one).save(buffer, "png")
        encoded.append(buffer.getvalue())
    forms = [pixels, tensor, [*pixels], [*tensor], (Image.fromarray(one) for one in pixels), encoded]
    for form in forms:
        assert np.array_equal(np.stack([np.asarray(image) for image in images.decoded(form)]), pixels)
    assert np.array_equal(np.asarray(next(images.decoded(pixels[0]))), pixels[0])
    assert np.array_equal(np.asarray(next(images.decoded(tensor[0]))), pixels[0])


def test_an_image_is_decoded_only_when_it_is_requested(tmp_path: Path) -> None:
    good = saved(Image.new("RGB", (2, 2), RED), tmp_path / "good.png")
    queue = images.decoded([good, tmp_path / "absent.png"])
    assert first_pixel(next(queue)) == RED
    with pytest.raises(InputError, check=fields(where="absent.png")):
        next(queue)


def test_objects_that_are_not_images_are_refused() -> None:
    with pytest.raises(InputError, check=fields(where="image 1", found="int")):
        list(images.decoded([np.zeros((2, 2), np.uint8), 3]))
    with pytest.raises(InputError, check=fields(argument="images", found="int")):
        list(images.decoded(7))


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("suffix", [".png", ".eps", ".jpg"])
def test_a_format_that_runs_another_program_is_never_opened(tmp_path: Path, suffix: str, monkeypatch) -> None:
    """Pillow recognises an EPS file by its content, whatever its name, and passes it to Ghostscript."""
    from PIL import EpsImagePlugin

    def started(*arguments: object, **options: object) -> None:
        raise AssertionError("Ghostscript was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    (tmp_path / f"trap{suffix}").write_bytes(EPS)
    with Image.open(io.BytesIO(EPS)) as opened:
        assert opened.format == "EPS"
    with pytest.raises(InputError, check=fields(where=f"trap{suffix}", problem="format")):
        images.read(tmp_path / f"trap{suffix}")


@pytest.mark.parametrize("form", images.FORMATS)
def test_every_listed_format_is_read(tmp_path: Path, form: str) -> None:
    Image.init()
    if form not in Image.SAVE:
        pytest.skip(f"this Pillow cannot write {form}")
    path = tmp_path / "image"
    Image.new("RGB", (16, 16), (200, 200, 200)).save(path, form)
    assert np.allclose(first_pixel(images.read(path)), (200, 200, 200), atol=6)


@pytest.mark.parametrize("error", [RuntimeError, ZeroDivisionError, KeyError, OverflowError, RecursionError])
def test_any_exception_of_a_decoder_names_the_image(error: type[Exception], monkeypatch) -> None:
    def fails(image: Image.Image) -> None:
        raise error("decoder")

    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, "PNG")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", fails)
    with pytest.raises(InputError, check=fields(where="image 7", problem="decoder")):
        images.decode(buffer.getvalue(), "image 7")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "AVIF", "JPEG2000", "ICO", "TGA"])
def test_damaged_images_are_read_or_refused_by_name(form: str) -> None:
    Image.init()
    if form not in Image.SAVE:
        pytest.skip(f"this Pillow cannot write {form}")
    rng = np.random.default_rng(0)
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(buffer, form)
    for _ in range(100):
        data = bytearray(buffer.getvalue())
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        try:
            images.decode(bytes(data[: int(rng.integers(1, len(data) + 1))]), "bad one")
        except InputError as error:
            assert str(error).startswith("bad one: ")  # noqa: PT017


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def bomb(side: int) -> bytes:
    """Return a small PNG whose header claims side x side pixels."""
    data = bytearray(encoded(Image.new("L", (1, 1))))
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def test_a_decompression_bomb_is_refused_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def decoding(image: Image.Image) -> None:
        raise AssertionError("the pixels were decoded")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", decoding)
    for side in (20_000, 2**30):  # above the default of Pillow, and far above
        with pytest.raises(InputError, check=fields(where="x", problem=str(side), hint="ZOO_MAX_PIXELS")):
            images.decode(bomb(side), "x")
    monkeypatch.setenv("ZOO_MAX_PIXELS", "many")
    with pytest.raises(InputError, check=fields(where="ZOO_MAX_PIXELS", found="many")):
        images.decode(b"", "x")


@pytest.mark.parametrize(("side", "refused"), [(100, False), (101, True), (1000, True)])
def test_the_largest_image_is_a_setting(monkeypatch: pytest.MonkeyPatch, side: int, refused: bool) -> None:
    monkeypatch.setenv("ZOO_MAX_PIXELS", "10000")
    data = encoded(Image.new("L", (side, side)))
    if refused:
        with pytest.raises(InputError, check=fields(where="x", problem=str(side), expected="10000")):
            images.decode(data, "x")
    else:
        assert images.decode(data, "x").size == (side, side)


def test_an_icon_with_a_larger_image_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(encoded(Image.new("RGB", (200, 200)), "ICO", sizes=[(200, 200)]))
    data[6:8] = bytes([16, 16])  # width and height in the header
    monkeypatch.setenv("ZOO_MAX_PIXELS", "1000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, about the size
        with pytest.raises(InputError, check=fields(where="x", problem="200")):
            images.decode(bytes(data), "x")


def test_the_limit_of_pillow_does_not_apply_and_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert images.decode(encoded(Image.new("L", (9, 9))), "x").size == (9, 9)  # Image.open would raise
    assert Image.MAX_IMAGE_PIXELS == 10
    monkeypatch.setenv("ZOO_MAX_PIXELS", "1000000000")
    images.decode(encoded(Image.new("L", (9, 9))), "x")
    assert Image.MAX_IMAGE_PIXELS == 10
