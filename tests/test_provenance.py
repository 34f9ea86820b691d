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
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    commit(folder, "theirs.py")


def commit(folder, name):
    about = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["add", name], [*about, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


def test_a_package_installed_inside_another_checkout_has_no_commit(tmp_path):
    repository(tmp_path)
    package = tmp_path / "site-packages"
    package.mkdir()
    shutil.copy(provenance.__file__, package)
    assert provenance.commit(package) is None
    commit(package, "provenance.py")
    assert len(provenance.commit.__wrapped__(package) or "") == 40


def test_changes_that_are_not_committed_are_told(tmp_path):
    repository(tmp_path)
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(provenance.__file__, package)
    commit(package, "provenance.py")
    clean = provenance.commit.__wrapped__(package)
    (tmp_path / "theirs.py").write_text("elsewhere")
    assert provenance.commit.__wrapped__(package) == clean
    for changed in ("provenance.py", "new.py"):
        (package / changed).write_text("changed")
        dirty = provenance.commit.__wrapped__(package)
        assert dirty == f"{clean}-dirty"
        assert provenance.told({"commit": dirty}) == f"commit {clean[:10]} with changes"
        subprocess.run(["git", "-C", str(package), "checkout", "-q", "provenance.py"], check=True)


def test_a_saved_figure_says_when_and_where_it_was_made(tmp_path):
    from matplotlib.figure import Figure

    for suffix in ("png", "svg"):
        save_figure(Figure(figsize=(1, 1)), tmp_path / f"new/figure.{suffix}")
    with Image.open(tmp_path / "new/figure.png") as image:
        about = image.info["Description"]
    assert date.today().isoformat() in about and provenance.machine() in about
    assert about in (tmp_path / "new/figure.svg").read_text()
    assert sorted(x.name for x in (tmp_path / "new").iterdir()) == ["figure.png", "figure.svg"]
