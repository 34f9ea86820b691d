"""`horizon envs --check`: fifty steps of any world, or one line that says what is wrong."""

import pytest

from horizon_imagination.cli import main

STACK = ["--env.options", '{"shape": [4, 40, 40]}']


@pytest.mark.parametrize(
    "words,said",
    [
        (["catch"], "3 actions, rewards -1 to"),
        (["standin_worlds:Painted"], "24 x 32 x 3 uint8, values 0 to 255"),
        (["CartPole-v1", "--env.pixels"], "the render, 400 x 600 x 3 uint8"),
        (["standin_worlds:Shown", "--env.channels", "stack", *STACK], "every channel kept"),
    ],
)
def test_a_good_world_is_shown_read_and_timed(words, said, capsys):
    assert main(["envs", "--check", *words]) == 0
    out = capsys.readouterr().out
    assert said in out and "keeps its contract over 50 random steps" in out
    picture = out.splitlines()[:24]
    assert {len(line) for line in picture} == {48} and "steps a second" in out


@pytest.mark.parametrize(
    "how,words,status",
    [("four", "--env.old-api", 1), ("build", "no such level", 2), ("reward inf", "reward inf", 1)],
)
def test_a_bad_world_is_one_line(how, words, status, capsys):
    options = ["--env.options", f'{{"how": "{how}"}}']
    assert main(["envs", "--check", "standin_worlds:Rude", *options]) == status
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
