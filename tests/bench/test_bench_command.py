"""`horizon bench` from end to end: rows, files, tables, and one line for anything wrong."""

import contextlib
import io
import json
import sys

import pytest
import torch

from horizon_imagination.bench import document, sheets
from horizon_imagination.bench.document import DocumentWriter
from horizon_imagination.cli import main

PARTS = ["controller", "imagination", "denoiser", "rewards", "actions", "update", "epoch"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Standard output of a run on the CPU, and its folder."""
    folder, said = tmp_path_factory.mktemp("bench"), io.StringIO()
    files = ["--out", str(folder), "--append", str(folder / "all.jsonl")]
    line = ["--preset", "debug", "--quick", "--device", "cpu", "--commit", "abc", "--json"]
    with contextlib.redirect_stdout(said):
        assert main(["bench", *line, *files]) == 0
    return said.getvalue(), folder


@pytest.mark.slow
def test_every_stage_is_measured_and_the_parts_make_up_the_whole(measured):
    found = json.loads((measured[1] / "bench.json").read_text())
    assert [row["stage"] for row in found["rows"]] == [
        *("tokenizer", "world_model", "encoding"), *PARTS,
    ]  # fmt: skip
    ms = {row["stage"]: row["ms"] for row in found["rows"]}
    assert ms["denoiser"] + ms["actions"] == pytest.approx(ms["imagination"])
    parts = ms["imagination"] + ms["rewards"] + ms["update"]
    assert parts == pytest.approx(ms["controller"])
    steps = 4 * (ms["tokenizer"] + ms["world_model"] + ms["controller"])
    assert ms["epoch"] == pytest.approx(steps + ms["encoding"])
    assert all(row["floor_ms"] > 0 for row in found["rows"] if "flops" in row)
    assert found["commit"] == "abc" and not found["failed"] and not found["comparable"]


@pytest.mark.slow
def test_growth_states_frames_and_pairs_and_a_verdict(measured):
    grown = json.loads((measured[1] / "bench.json").read_text())["growth"]
    assert {name for x in grown["points"] for name in x["sweeps"]} == {
        "horizon", "budget", "decay_horizon", "batch",
    }  # fmt: skip
    along = [x for x in grown["points"] if "horizon" in x["sweeps"]]
    assert [x["horizon"] for x in along] == [3, 6, 12]
    assert along[2]["token_pairs"] > 2 * along[1]["token_pairs"] > 0
    assert len(grown["fit"]["ratios"]) == 3
    assert "than linear in frames plus the attention over the cache" in measured[0]


@pytest.mark.slow
def test_the_last_line_is_the_document_and_files_hold_the_same(measured):
    out, folder = measured
    said = json.loads(out.splitlines()[-1])
    assert said == json.loads((folder / "bench.json").read_text())
    assert [json.loads(x) for x in (folder / "all.jsonl").read_text().splitlines()] == [said]
    page = (folder / "bench.md").read_text()
    assert "| controller step (2, 4) |" in page and "## Throughput" in page
    assert (folder / "cost.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_redrawing_makes_the_same_page_without_measuring(measured, tmp_path, capsys):
    _, folder = measured
    before = (folder / "bench.md").read_text()
    (folder / "bench.md").unlink()
    assert main(["bench", "--redraw", str(folder), "--json"]) == 0
    assert (folder / "bench.md").read_text() == before
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["commit"] == "abc"
    assert main(["bench", "--redraw", str(folder), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"written to {tmp_path}", "no JSON"
    names = ("bench.json", "bench.md", "cost.png")
    assert all((tmp_path / x).read_bytes() == (folder / x).read_bytes() for x in names)


@pytest.mark.slow
def test_without_matplotlib_tables_are_made_and_one_line_says_how_to_draw(
    measured, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["bench", "--redraw", str(measured[1])]) == 0
    assert capsys.readouterr().err.strip().endswith(f"horizon bench --redraw {measured[1]}")


@pytest.mark.parametrize(
    "line,said",
    [
        ("--schedules 4", "expected decay horizon and budget with a comma"),
        ("--schedules 40,16", "decay_horizon must lie in [1, 32]"),
        ("--schedules 4,0", "at least 1"),
        ("--batch 0", "at least 1"),
        ("--repeats 0", "at least 1"),
        ("--preset papr", "did you mean 'paper'?"),
        ("--device cpu --modes fast", "needs a CUDA device"),
        ("--device abacus", "expected auto, cuda"),
        ("--redraw {folder}", "expects a folder of horizon bench"),
        ("--preset debug --out {folder}/file/below", "cannot write to the folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(line, said, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["bench", *line.format(folder=tmp_path).split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_damaged_document_is_named(tmp_path, capsys):
    (tmp_path / "bench.json").write_text("{")
    assert main(["bench", "--redraw", str(tmp_path)]) == 2
    assert "is damaged" in capsys.readouterr().err
    (tmp_path / "bench.json").write_text('{"bench": "other", "rows": []}')
    assert main(["bench", "--redraw", str(tmp_path)]) == 2
    assert "bench must be one of ('horizon',), got 'other'" in capsys.readouterr().err


def test_a_row_that_fails_is_noted_and_the_others_are_written(tmp_path, capsys):
    recorder = DocumentWriter(tmp_path, {"bench": "horizon"})
    rows = recorder.document["rows"]

    def too_large():
        raise RuntimeError("out of memory\nat length")

    assert recorder.attempt({"stage": "denoiser"}, too_large, rows) is None
    recorder.attempt({"stage": "rewards"}, lambda: {"ms": 1.0}, rows)
    kept = document.read(tmp_path)
    assert kept["rows"] == [{"stage": "rewards", "ms": 1.0}]
    assert kept["failed"] == [{"stage": "denoiser", "error": "out of memory"}]
    assert "denoiser: failed: out of memory" in capsys.readouterr().out


def test_appending_keeps_lines_and_mends_a_missing_end(tmp_path):
    path = tmp_path / "deep" / "all.jsonl"
    document.append(path, {"a": 1})
    path.write_text(path.read_text().rstrip())
    document.append(path, {"b": 2})
    assert path.read_text() == '{"a": 1}\n{"b": 2}\n'


def test_the_paper_s_figures_stand_in_the_table_of_its_preset():
    rows = [
        {"stage": "controller", "mode": "fast", "decay_horizon": 4.0, "budget": 16, "ms": 50.0},
        {"stage": "controller", "mode": "plain", "decay_horizon": 4.0, "budget": 16, "ms": 400.0},
    ]
    made = sheets.times(
        {
            "machine": "card", "modes": ["fast", "plain"], "comparable": True, "rows": rows,
            "replay_frames": 50_000,
        }
    )  # fmt: skip
    line = dict(zip(made.header, made.lines[0], strict=True))
    assert line["plain / fast"] == "8.00" and line["paper, 4090"] == "1,071"
    assert line["release, H200"] == "790" and line["release / fast"] == "15.8"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_both_modes_are_measured_with_their_memory(tmp_path):
    assert main(["bench", "--preset", "debug", "--quick", "--out", str(tmp_path)]) == 0
    found = document.read(tmp_path)
    assert found["modes"] == ["fast", "plain"] and not found["failed"]
    measured = [row for row in found["rows"] if "repeats" in row]
    assert len(measured) == 2 * 7 and all(row["peak_gib"] > 0 for row in measured)
