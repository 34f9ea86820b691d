"""Make the copies of ONNX Runtime for browsers that come with the package.

npm pack onnxruntime-web@1.30.0                            # from the registry npm is set up with
python scripts/make_web_runtime.py onnxruntime-web-1.30.0.tgz

Of its many builds two are kept: the one for WebAssembly alone, and the smallest one that has
WebGPU, which needs JavaScript Promise Integration (WebAssembly.Suspending). Each is a script and a
module, with the licence of the Python package onnxruntime, which is the same, and that of Dawn,
whose binding the second one has.
"""

import argparse
import hashlib
import importlib.metadata
import io
import lzma
import tarfile
from pathlib import Path

SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""Of the archive of version 1.30.0."""
STATIC = Path("src/horizon_imagination/export/static")
KEPT = {
    "onnxruntime-web.tar.xz": ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"),
    "onnxruntime-webgpu.tar.xz": ("ort.jspi.bundle.min.mjs", "ort-wasm-simd-threaded.jspi.wasm"),
}
"""Script and module of each build, by the file that it becomes."""


def notice(name: str) -> str:
    """A text that comes with the Python package onnxruntime."""
    files = importlib.metadata.files("onnxruntime") or []
    path = next(file for file in files if file.name == name)
    return Path(str(path.locate())).read_text()


def licence(target: str) -> str:
    """The licence of ONNX Runtime; with WebGPU, that of Dawn too."""
    text = notice("LICENSE")
    if target == "onnxruntime-webgpu.tar.xz":
        others = notice("ThirdPartyNotices.txt").split("_____")
        text += "\n" + next(part.strip() for part in others if part.strip().startswith("dawn"))
    return text


def write(target: str, parts: dict[str, bytes]) -> None:
    """Write an archive that depends on its contents alone."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    packed = lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    (STATIC / target).write_bytes(packed)
    print(f"{STATIC / target}: {len(packed) / 1e6:.1f} MB")


def main() -> None:
    """Check the archive, keep what is needed, write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args().archive
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{archive} has sha256 {digest}, expected {SHA256}")
    with tarfile.open(archive) as source:
        for target, names in KEPT.items():
            content = [source.extractfile(f"package/dist/{name}").read() for name in names]  # type: ignore[union-attr]
            named = dict(zip(("ort.mjs", "ort.wasm"), content, strict=True))
            write(target, named | {"LICENSE": licence(target).encode()})


if __name__ == "__main__":
    main()
