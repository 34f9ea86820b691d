"""Where results come from, and that figures carry it."""

import shutil
import subprocess
from datetime import date

from PIL import Image

from horizon_imagination import provenance
from horizon_imagination.figures import save_figure


def repository(folder):
    """A git repository with one commit, of a file that is none of ours."""
    (folder / "theirs.py").write_text("")
    about = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "theirs.py"], [*about, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_a_package_installed_inside_another_checkout_has_no_commit(tmp_path):
    repository(tmp_path)
    package = tmp_path / "site-packages"
    package.mkdir()
    shutil.copy(provenance.__file__, package)
    assert provenance.commit(package) is None
    subprocess.run(["git", "-C", str(package), "add", "provenance.py"], check=True)
    assert len(provenance.commit.__wrapped__(package) or "") == 40


def test_a_saved_figure_says_when_and_where_it_was_made(tmp_path):
    from matplotlib.figure import Figure

    for suffix in ("png", "svg"):
        save_figure(Figure(figsize=(1, 1)), tmp_path / f"new/figure.{suffix}")
    with Image.open(tmp_path / "new/figure.png") as image:
        about = image.info["Description"]
    assert date.today().isoformat() in about and provenance.machine() in about
    assert about in (tmp_path / "new/figure.svg").read_text()
    assert sorted(x.name for x in (tmp_path / "new").iterdir()) == ["figure.png", "figure.svg"]
