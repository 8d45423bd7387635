"""The pieces of the report, each with what it may lack: contents of a folder, figures, rows of text."""

import base64
import shutil

import numpy as np
import pytest

from tempering.lab.report import FIGURES, quality_lines
from tempering.lab.report.contents import Story, read_contents
from tempering.lab.report.drawing import theme_rules, themed_svg
from tempering.lab.report.make import PARTICLE_FIGURES
from tempering.lab.report.molecule_report import MOLECULE_FIGURES
from tempering.lab.report.page import page
from tempering.lab.report.sample_figures import _share_outside
from tempering.lab.report.tables import cost_rows, ledger_rows, quality_rows
from tempering.plots.contents import LevelSamples
from tempering.plots.style import label_ends, png_of, render, window
from tempering.runs.records import LevelRecord
from tempering.runs.storage import read_arrays, read_json, write_arrays
from tempering.runs.words import number_text
from tempering.transforms.centred import Centred

PNG = b"\x89PNG"


def _contents(**parts) -> Story:
    nothing = {"result": {}, "config": {}, "environment": {}, "evaluation": {}, "levels": [], "samples": {}}
    return Story(**{**nothing, **parts})


def _files(name: str) -> dict[str, bytes]:
    shape = f'<path id="a" fill="#1f2328" class="{name}"/>'
    svg = f'<?xml version="1.0"?>\n<svg width="100pt" viewBox="0 0 1 1">{shape}</svg>'
    return {"svg": svg.encode(), "pdf": PNG + name.encode()}


def test_every_level_has_the_samples_of_its_own_buffer(plane_run):
    contents = read_contents(plane_run)
    assert sorted(contents.samples) == list(range(7))
    hottest, next_hottest = (contents.samples[level].position for level in (0, 1))
    first = read_arrays(plane_run / "levels" / "01" / "buffer.npz")
    np.testing.assert_array_equal(hottest, first["hot/position"])
    np.testing.assert_array_equal(next_hottest, first["cold/position"])
    # Hot and cold mixed up, or one level off, would not be ordered.
    spreads = [np.abs(contents.samples[level].log_density).mean() for level in range(7)]
    assert spreads == sorted(spreads, reverse=True)
    assert contents.temperature_of(6) == 1.0 and contents.temperature_of(7) is None


def test_the_one_buffer_of_pt_dm_is_the_coldest(deep_run):
    assert list(read_contents(deep_run).samples) == [6]


def test_weighted_samples_are_shown_by_their_weight(plane_run, tmp_path):
    arrays = read_arrays(plane_run / "levels" / "02" / "buffer.npz")
    num = len(arrays["cold/position"])
    position = np.arange(2.0 * num).reshape((num, 2))
    log_weight = np.full(num, -np.inf)
    log_weight[[3, 5]] = np.log([3.0, 1.0]) + 80.0
    (tmp_path / "levels" / "02").mkdir(parents=True)
    shutil.copy(plane_run / "config.json", tmp_path)
    cold = {"cold/position": position, "cold/log_density": -position[:, 0], "cold/log_weight": log_weight}
    write_arrays(tmp_path / "levels" / "02" / "buffer.npz", cold)
    shown = read_contents(tmp_path).samples[2]
    np.testing.assert_array_equal(shown.log_density, -shown.position[:, 0])
    assert np.mean(shown.position[:, 0] == position[3, 0]) == pytest.approx(0.75, abs=1 / num)
    assert np.mean(shown.position[:, 0] == position[5, 0]) == pytest.approx(0.25, abs=1 / num)
    # Even weights change nothing, whatever their level.
    write_arrays(tmp_path / "levels" / "02" / "buffer.npz", cold | {"cold/log_weight": np.full(num, -7.5)})
    np.testing.assert_array_equal(read_contents(tmp_path).samples[2].position, position)


def test_nothing_to_show_gives_no_figure_and_still_a_page():
    assert all(draw(_contents()) is None for draw in FIGURES.values())
    assert "<h1>run</h1>" in page(_contents(), {})


@pytest.mark.parametrize("geometry", [None, Centred(4, 2)])
def test_every_figure_has_its_place_on_the_page(geometry):
    contents = _contents(geometry=geometry)
    names = MOLECULE_FIGURES | (FIGURES if geometry is None else PARTICLE_FIGURES)
    for name in names:
        text = page(contents, {name: _files(name)})
        is_drawn = name != "corner"  # which the script draws, where there are draws
        assert text.count(base64.b64encode(PNG + name.encode()).decode()) == is_drawn
        assert text.count(f'class="{name}"') == is_drawn == text.count("<figcaption>")
    assert "<figure" not in page(contents, {"mine": _files("mine")})


def test_figures_follow_the_theme_of_the_page():
    svg = b"""<svg width="72pt" viewBox="0 0 9 9"><metadata>x</metadata><defs><clipPath id="p1"/></defs>
<g style="fill: #ffffff; stroke: #1F2328" clip-path="url(#p1)"/><use xlink:href="#p1"/><path fill="#0d0887"/></svg>"""
    text = themed_svg(svg, "one", 'what "it" shows')
    assert 'id="one-p1"' in text and "url(#one-p1)" in text and 'href="#one-p1"' in text and "metadata" not in text
    assert "fill: var(--cffffff); stroke: var(--c1f2328)" in text and 'style="fill: var(--c0d0887)"' in text
    assert 'aria-label="what &quot;it&quot; shows"' in text and "max-width:96px;--own:96px" in text
    light, dark = (dict(rule.split(":") for rule in rules.split(";")) for rules in theme_rules([text]))
    assert light == {"--c0d0887": "#0d0887", "--c1f2328": "#1f2328", "--cffffff": "#ffffff"}
    assert dark["--cffffff"] == "#15181c" and int(dark["--c1f2328"][1:3], 16) > 0xC0, "paper and ink change places"
    assert int(dark["--c0d0887"][5:7], 16) > 0xC0, "deep blue is light enough to be read"


@pytest.mark.parametrize(
    "name",
    [
        *("draws", "draws_log_density"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("reference", "reference_log_density", "grid_y")),
    ],
)
def test_a_missing_array_costs_only_what_needs_it(plane_run, name):
    whole = read_contents(plane_run)
    evaluation = {key: array[:300] for key, array in whole.evaluation.items() if key != name and "grid" not in key}
    evaluation |= {key: array for key, array in whole.evaluation.items() if key != name and "grid" in key}
    contents = _contents(result=whole.result, evaluation=evaluation)
    samples, energy = FIGURES["samples"](contents), FIGURES["energy"](contents)
    assert samples is not None and png_of(samples).startswith(PNG)
    assert (energy is None) == (name == "draws_log_density")


@pytest.mark.parametrize(
    "entry", ["metrics", "levels", "ledger", "verdict", "log_z", "target", "dim", "seed", "budget"]
)
def test_a_missing_entry_of_the_result_is_left_out(plane_run, entry):
    whole = read_contents(plane_run)
    result = {name: value for name, value in whole.result.items() if name != entry}
    text = page(_contents(result=result, levels=whole.levels), {})
    assert "<h1>run</h1>" in text and "None" not in text
    assert quality_lines(result)


def test_the_verdict_is_on_the_page_and_doubts_are_marked():
    findings = [
        {"name": "final weights", "status": "good", "measured": "k 0.3", "meaning": "fine", "advice": ""},
        {
            "name": "the hottest level",
            "status": "doubtful",
            "measured": "R-hat 2",
            "meaning": "unmixed",
            "advice": "heat",
        },
    ]
    text = page(_contents(result={"name": "x", "verdict": {"status": "doubtful", "findings": findings}}), {})
    assert text.count('class="badge doubtful"') == 2 and "Do not rely on these draws" in text
    assert text.index("the hottest level") < text.index("final weights"), "the worst comes first"
    assert '<li class="doubtful">' in text and "What to do: heat" in text and '<li class="good">' in text
    assert "Not judged yet" in page(_contents(result={"name": "x"}), {})


def test_commands_in_words_are_code_and_nothing_else_is():
    finding = {"name": "a", "status": "note", "measured": "`tempering resume` <b>", "meaning": "", "advice": ""}
    text = page(_contents(result={"verdict": {"status": "wrong", "findings": [finding]}}), {})
    assert "<code>tempering resume</code> &lt;b&gt;" in text


@pytest.mark.parametrize("dim", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_other_dimensions(dim):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((300, dim)) * np.arange(1, dim + 1)[None] + 3.0
    evaluation = {"draws": points, "reference": points + 0.1}
    samples = {0: LevelSamples(points, rng.standard_normal(300))}
    contents = _contents(evaluation=evaluation, samples=samples)
    for name in ("samples", "levels"):
        picture = FIGURES[name](contents)
        assert picture is not None and png_of(picture).startswith(PNG)


def test_one_level_has_no_figure_along_levels():
    levels = [LevelRecord(k, 2.0 - k, acceptance=0.5, validation_loss=0.3) for k in range(2)]
    for name in ("ladder", "training"):
        assert FIGURES[name](_contents(levels=levels[:1])) is None
        assert FIGURES[name](_contents(levels=levels)) is not None


@pytest.mark.slow
def test_a_long_ladder_and_a_constant_coordinate():
    levels = [LevelRecord(k, 3000.0 ** (1 - k / 39), acceptance=0.5, validation_loss=3.0) for k in range(40)]
    samples = {k: LevelSamples(np.zeros((20, 2)), np.full(20, -np.inf)) for k in range(40)}
    contents = _contents(levels=levels, samples=samples, evaluation={"log_weights": np.zeros(10)})
    for name in ("ladder", "levels", "level_energies", "training", "weights"):
        picture = FIGURES[name](contents)
        assert picture is not None and png_of(picture).startswith(PNG)


def test_the_share_outside_counts_everything():
    energies = np.array([-1.0, 0.5, 0.6, 0.7, 2.0, 3.0, np.nan, np.inf, -np.inf, 0.1])
    assert _share_outside(energies, np.array([0.0, 1.0])) == (
        "draws outside this range: 10.00% below, 20.00% above, 30.00% not finite"
    )


def test_a_window_holds_the_bulk_and_a_fence_keeps_the_astronomical_out():
    bulk = np.linspace(-2.0, 4.0, 1001)
    low, high = window([bulk, np.array([np.nan, np.inf])])
    assert -2.6 < low < -1.9 and 3.9 < high < 4.6
    with_outliers = np.concatenate([bulk, np.full(50, 1e9)])
    assert window([with_outliers])[1] > 1e8
    assert window([with_outliers], fence=8.0)[1] < 100
    assert window([np.full(5, 7.0)]) != (7.0, 7.0) and window([np.array([np.nan])]) == (0.0, 1.0)


def test_names_of_curves_do_not_overlap():
    heights = []

    def draw(figure) -> None:
        axes = figure.subplots()
        axes.set(xlim=(0, 1), ylim=(0, 1))
        label_ends(axes, [(1.0, y, name, "#000000") for y, name in ((0.5, "a"), (0.5, "b"), (0.51, "c"), (0.1, "d"))])
        heights.extend((text.get_text(), text.xy[1]) for text in axes.texts)

    render(3.0, 2.0, draw)
    ordered = sorted(heights, key=lambda entry: entry[1])
    assert [name for name, _ in ordered] == ["d", "a", "b", "c"]
    assert np.diff([height for _, height in ordered]).min() >= 0.065 - 1e-9
    assert abs(np.mean([height for name, height in heights if name != "d"]) - 0.503) < 0.01


def test_quality_is_measured_against_the_floor(plane_run):
    rows = {row.name: row for row in quality_rows(read_json(plane_run / "result.json"))}
    assert rows["energy_tvd"].versus == "1.39×"
    assert rows["energy_tvd"].ratio == pytest.approx(0.0712 / 0.0513)
    # No ratio to a floor that is zero, negative, or of a metric that grows with quality.
    assert [rows[name].ratio for name in ("num_nonfinite", "energy_mmd_squared_unbiased", "mean_log_likelihood")] == [
        None
    ] * 3
    assert rows["mean_log_likelihood"].versus == "-0.1"
    assert rows["paper_w2"].value == "failed" and "did not converge" in str(rows["paper_w2"].failure)


def test_plain_lines_of_quality_are_aligned_and_complete(plane_run):
    result = read_json(plane_run / "result.json")
    title, header, *lines = quality_lines(result)
    assert title == "mog40, ptsd, seed 3"
    table = lines[: len(result["metrics"])]
    assert {len(line) for line in table} == {len(header)} and max(map(len, table)) < 80
    rest = "\n".join(lines[len(result["metrics"]) :])
    for words in ("evaluations 1,340,000", "± 0.021", "5 min 12 s", "failed: paper_w2"):
        assert words in rest
    finding, verdict = lines[-2:]
    assert finding == "note: usable values: 3 values not finite; none was accepted; fix the density there"
    assert verdict == "verdict: trustworthy"
    assert "warning: of an older version" in quality_lines({**result, "warnings": ["of an older version"]})


def test_the_ledger_adds_up_what_fitting_paid_for():
    ledger = {"points": {"pilot": 10, "refinement": 30, "metrics": 7}, "value_only": {"metrics": 7, "pilot": 2}}
    rows = ledger_rows({"ledger": ledger})
    assert rows == [
        ("pilot", "10", "25.0%", "2"),
        ("refinement", "30", "75.0%", "0"),
        ("fitting", "40", "100.0%", "2"),
        ("metrics (apart)", "7", "–", "7"),
    ]
    assert cost_rows({"ledger": ledger})[0][1] == "40" and cost_rows({"evaluations": 41})[0][1] == "41"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (1234567.0, "1,234,567"),
        (-6.8, "-6.800"),
        (0.00012, "0.0001200"),
        (123456.7, "123,457"),
    ],
)
def test_numbers_for_people(number, text):
    assert number_text(number) == text
