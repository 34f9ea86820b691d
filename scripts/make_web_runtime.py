"""Make the copy of ONNX Runtime for browsers that comes with the package.

npm pack onnxruntime-web@1.30.0                            # from the registry npm is set up with
python scripts/make_web_runtime.py onnxruntime-web-1.30.0.tgz

Of its many builds the one for WebAssembly alone is kept: a script and a module, and the licence of
the Python package onnxruntime, which is the same.
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
KEPT = {
    "ort.mjs": "package/dist/ort.wasm.bundle.min.mjs",
    "ort.wasm": "package/dist/ort-wasm-simd-threaded.wasm",
}
TARGET = Path("src/horizon_imagination/export/static/onnxruntime-web.tar.xz")


def licence() -> bytes:
    """The licence of ONNX Runtime."""
    files = importlib.metadata.files("onnxruntime") or []
    path = next(file for file in files if file.name == "LICENSE")
    return Path(str(path.locate())).read_bytes()


def main() -> None:
    """Check the archive, keep what is needed, write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path)
    archive = parser.parse_args().archive
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{archive} has sha256 {digest}, expected {SHA256}")
    with tarfile.open(archive) as source:
        parts = {name: source.extractfile(member).read() for name, member in KEPT.items()}  # type: ignore[union-attr]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as target:
        for name, content in {**parts, "LICENSE": licence()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))
    TARGET.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{TARGET}: {TARGET.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
