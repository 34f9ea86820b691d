"""The example of docs/environments.md works as it stands."""

import re
import sys
from pathlib import Path

from horizon_imagination.config import EnvConfig
from horizon_imagination.envs import make_env

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"


def test_the_environment_of_the_documentation_can_be_played(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert len(code.split("class ")[1].strip().splitlines()) <= 20
    (tmp_path / "my_worlds.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = make_env(EnvConfig(id="my_worlds:Lamp", size=16), seed=0)
    env.reset()
    steps = [env.step(1) for _ in range(50)]
    assert [step[3] for step in steps] == [False] * 49 + [True]
    lit = [step[0].max() == 255 for step in steps]
    assert [step[1] for step in steps[1:]] == [float(on) for on in lit[:-1]] and any(lit)
    sys.modules.pop("my_worlds")
