"""Plans by stage: they add up to the budget or to the plan, and the table fits 80 columns."""

import pytest

from support.commands import command
from tempering.cli.plan import plan_lines
from tempering.errors import BudgetError
from tempering.lab.presets import PRESETS
from tempering.methods.budget import planned
from tempering.methods.stage_plan import stage_plan
from tempering.registry import target_of
from tempering.runs.forecast import Kind, remember


@pytest.mark.parametrize("name", ["mog40", "mw32", "dw4", "mog40-pt-dm", "aldp-internal", "lj55", "lj13-small"])
def test_where_the_budget_sets_the_sizes_the_stages_share_it(name):
    config = PRESETS[name]
    stages = stage_plan(config.settings, target_of(config), config.budget)
    assert sum(stage.evaluations for stage in stages) == config.budget
    assert all(stage.evaluations > 0 and stage.sense != "exactly" for stage in stages)
    assert stages[-1].stage == ("initial_pt" if config.settings.num_final_draws == 0 else "final_weights")


@pytest.mark.parametrize("name", ["mog40-paper", "mw32-paper-pt-dm", "aldp"])
def test_where_settings_give_the_sizes_it_is_the_plan_itself(name):
    config = PRESETS[name]
    target = target_of(config)
    plan = {stage.stage: stage.evaluations for stage in stage_plan(config.settings, target, config.budget)}
    assert plan == {stage: num for stage, num in planned(config.settings, target.dim).items() if num}


def test_a_budget_that_cannot_begin_is_refused():
    config = PRESETS["mog40"]
    with pytest.raises(BudgetError, match="too small"):
        stage_plan(config.settings, target_of(config), 100)


def test_the_plan_tells_the_time_only_where_a_like_run_was_made(monkeypatch, tmp_path):
    monkeypatch.setenv("TEMPERING_CACHE", str(tmp_path))
    config = PRESETS["mog40"]
    target = target_of(config)
    stages = stage_plan(config.settings, target, config.budget)
    assert any(line.startswith("time     not known") for line in plan_lines(config, target, stages))
    remember(Kind.of(config.method, target.dim, config.budget, config.settings), {"training": 90.0, "pilot": 3.0})
    assert any(line.startswith("time     about 1 min 33 s") for line in plan_lines(config, target, stages))


def test_every_plan_fits_the_terminal():
    for name in ("mog40", "aldp-internal-pt-dm", "mw32-paper"):
        code, out, _ = command("run", name, "--dry-run")
        assert code == 0 and max(map(len, out.splitlines())) <= 80 and "Nothing was written" in out
