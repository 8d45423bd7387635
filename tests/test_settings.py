"""Settings: the defaults are allowed, and every refusal names the setting, what was given and what is allowed."""

import dataclasses
import json
import math

import pytest

from support.unchecked import unchecked
from tempering import settings
from tempering.errors import SettingsError
from tempering.settings import (
    Atlas,
    Exploration,
    Guidance,
    Initial,
    Ladder,
    Network,
    Noise,
    Pilot,
    PTDMSettings,
    PTSDSettings,
    Refinement,
    Resampling,
    ReweightedSettings,
    Sampling,
    Training,
)

INF, NAN = math.inf, math.nan
BY_HAND = {"is_sized_by_budget": False}
"""Sizes as given, which the defaults take from the budget."""


@pytest.fixture(autouse=True)
def as_users_run_it():
    with unchecked():
        yield


# Of each setting: what it must be called in the message, values that are refused, what the message says is allowed.
REFUSED = [
    (Ladder, "temperatures", "ladder", [(), (1.0,), 5.0, "hot"], "at least two temperatures.*hottest first"),
    (Ladder, "temperatures", "ladder", [(1.0, 2.0), (4.0, 4.0, 1.0), (4.0, 9.0, 1.0)], "strictly decreasing.*sort it"),
    (Ladder, "temperatures", "ladder", [(4.0, 2.0), (2.0, 0.5), (4.0, 1.0001)], "ends at T = 1 exactly.*append 1.0"),
    (
        Ladder,
        "temperatures",
        "ladder temperature",
        [(INF, 1.0), (NAN, 1.0), (-2.0, 1.0), (True, 1.0)],
        "positive finite",
    ),
    (Ladder, "hottest", "ladder.hottest", [1.0, 0.5, -3.0, INF, NAN, True, "hot"], "above 1, the target's own"),
    (Ladder, "num_levels", "ladder.num_levels", [1, 0, 2.5, True, "5"], "an integer of at least 2"),
    (Ladder, "spacing", "ladder.spacing", ["log", 3, None], "'geometric', 'adaptive'"),
    (Atlas, "share", "atlas.share", [-0.1, 0.95, NAN, "0.2"], "between 0 and 0.9"),
    (Atlas, "path", "atlas.path", ["modes", None, 1], "'automatic', 'reference', 'temperature'"),
    (Pilot, "num_chains", "pilot.num_chains", [3, 0, 8.0], "an integer of at least 4"),
    (Pilot, "num_steps", "pilot.num_steps", [15, 0, 60.0], "an integer of at least 16"),
    (Pilot, "growth", "pilot.growth", [1.0, 0.5, INF, NAN, "2"], "above 1"),
    (Pilot, "max_rounds", "pilot.max_rounds", [0, -1, 1.0], "an integer of at least 1"),
    (Pilot, "max_rhat", "pilot.max_rhat", [1.0, NAN, INF, None], "above 1"),
    (Pilot, "ceiling", "pilot.ceiling", [1.0, 0.5, INF, NAN, "2"], "above 1"),
    (Exploration, "kernel", "exploration.kernel", ["nuts", None], "'automatic', 'mala', 'hmc'"),
    (Exploration, "num_leapfrog", "exploration.num_leapfrog", [0, 1.5], "an integer of at least 1"),
    (Exploration, "swap_interval", "exploration.swap_interval", [0, -5], "an integer of at least 1"),
    (Exploration, "swap_scheme", "exploration.swap_scheme", ["odd_even"], "'even_odd', 'sweep'"),
    (Exploration, "mass", "exploration.mass", ["heavy", None, 4.0], "'unit', 'target', 'adapted'"),
    (Exploration, "masses", "exploration.masses", [(1.0, 0.0), (-1.0,), (NAN,)], "a positive finite number"),
    (Exploration, "masses", "exploration.masses", ["12", 4.0], "a list of numbers"),
    (Initial, "num_chains", "initial.num_chains", [0, 10.0, True], "an integer of at least 1"),
    (Initial, "num_steps", "initial.num_steps", [0], "an integer of at least 1"),
    (Initial, "num_steps", "initial.num_steps", [109, 5], "at least burn_in \\+ thin"),
    (Initial, "burn_in", "initial.burn_in", [-1, 0.5], "an integer of at least 0"),
    (Initial, "thin", "initial.thin", [0], "an integer of at least 1"),
    (Initial, "scale", "initial.scale", [0.0, -1.0, INF, NAN, "1"], "a positive finite number"),
    (Network, "kind", "network.kind", ["transformer"], "'mlp', 'residual'"),
    (Network, "width", "network.width", [0, 12.5], "an integer of at least 1"),
    (Network, "depth", "network.depth", [1], "an integer of at least 2"),
    (Network, "coordinate_width", "network.coordinate_width", [-1, 2.5], "an integer of at least 0"),
    (Network, "is_shared", "network.is_shared", ["yes", 1], "True or False"),
    (Network, "num_particles", "network.num_particles", [-1, 13.0, True], "an integer of at least 0"),
    (Network, "spatial_dim", "network.spatial_dim", [0, 3.0, None], "an integer of at least 1"),
    (Network, "unit", "network.unit", [0.0, -1.0, INF, NAN, "1"], "a positive finite number"),
    (Network, "is_half", "network.is_half", ["bfloat16", 1], "True or False"),
    (Network, "atoms", "network.atoms", [[0, 1], (0, -1), (0.5,)], "a tuple of integers|an integer of at least 0"),
    (Network, "bonds", "network.bonds", [[(0, 1)], ((0, 0),), ((0, 1, 2),)], "a tuple of pairs|two different atoms"),
    (Network, "is_chiral", "network.is_chiral", ["L", 1], "True or False"),
    (Network, "is_on_modes", "network.is_on_modes", ["yes", 1], "True or False"),
    (Network, "num_components", "network.num_components", [-1, 8.0, True], "an integer of at least 0"),
    (Noise, "sigma_min", "noise.sigma_min", [0.0, -1.0, NAN], "a positive finite number"),
    (Noise, "sigma_max", "noise.sigma_max", [0.0, INF], "a positive finite number"),
    (Noise, "prior", "noise.prior", ["posterior"], "'matched', 'isotropic', 'noise'"),
    (Noise, "process", "noise.process", ["vpx", None], "'ve', 'vp'"),
    (Noise, "beta_min", "noise.beta_min", [0.0, NAN], "a positive finite number"),
    (Noise, "beta_max", "noise.beta_max", [0.05, 100.0, NAN, "20"], "at least noise.beta_min = 0.1 and at most 60"),
    (Noise, "is_isotropic", "noise.is_isotropic", ["false", 0], "True or False"),
    (Training, "num_steps", "training.num_steps", [0], "an integer of at least 1"),
    (Training, "num_finetune_steps", "training.num_finetune_steps", [0], "an integer of at least 1"),
    (Training, "batch_size", "training.batch_size", [0, 1e3], "an integer of at least 1"),
    (Training, "learning_rate", "training.learning_rate", [0.0, -1e-3, NAN], "a positive finite number"),
    (Training, "validation_fraction", "training.validation_fraction", [0.0, 1.0, NAN], "strictly between 0 and 1"),
    (Training, "check_every", "training.check_every", [0], "an integer of at least 1"),
    (Training, "patience", "training.patience", [-1], "an integer of at least 0"),
    (Training, "use_gradients", "training.use_gradients", ["no", 1], "True or False"),
    (Sampling, "solver", "sampling.solver", ["rk4"], "'heun', 'euler', 'churn', 'sde'"),
    (Sampling, "num_steps", "sampling.num_steps", [1], "an integer of at least 2"),
    (Sampling, "raw_solver", "sampling.raw_solver", ["rk4"], "'heun', 'euler', 'churn', 'sde'"),
    (Sampling, "raw_num_steps", "sampling.raw_num_steps", [1, 2.5], "an integer of at least 2"),
    (Sampling, "divergence", "sampling.divergence", ["none"], "'automatic', 'exact', 'hutchinson', 'integrated'"),
    (Sampling, "num_probes", "sampling.num_probes", [0], "an integer of at least 1"),
    (Sampling, "chunk_size", "sampling.chunk_size", [0], "an integer of at least 1"),
    (Sampling, "is_quasi_random", "sampling.is_quasi_random", ["sobol", 0], "True or False"),
    (Sampling, "churn", "sampling.churn", [-1.0, NAN, INF, "40"], "a number of at least 0"),
    (Sampling, "churn_max", "sampling.churn_max", [0.0, -1.0, INF], "a positive finite number"),
    (Guidance, "kind", "guidance.kind", ["fd", None], "'automatic', 'finite_difference', 'conditioned'"),
    (Guidance, "is_anticipating", "guidance.is_anticipating", ["no", 1], "True or False"),
    (Guidance, "num_between", "guidance.num_between", [-1, 1.5, True], "an integer of at least 0"),
    (Guidance, "coordinate", "guidance.coordinate", ["beta"], "'T', 'log_T'"),
    (Resampling, "quantile", "resampling.quantile", [0.0, 1.01, NAN, "0.99"], "in \\(0, 1\\]"),
    (Resampling, "scheme", "resampling.scheme", ["residual"], "'multinomial', 'systematic'"),
    (Resampling, "min_effective", "resampling.min_effective", [-1, 1.5, None], "an integer of at least 0"),
    (Resampling, "is_resampled", "resampling.is_resampled", ["no", 1], "True or False"),
    (Resampling, "levels", "resampling.levels", ["last", True, None], "'all', 'but_last', 'none'"),
    (Refinement, "num_steps", "refinement.num_steps", [-1, 2.0], "an integer of at least 0"),
    (Refinement, "num_chains", "refinement.num_chains", [0, 2.0], "an integer of at least 1"),
    (Refinement, "num_states", "refinement.num_states", [0, 1.5], "an integer of at least 1"),
    (Refinement, "thin", "refinement.thin", [0, -3], "an integer of at least 1"),
    (Refinement, "adapt_fraction", "refinement.adapt_fraction", [1.0, -0.1, NAN, None], "in \\[0, 1\\)"),
    (PTSDSettings, "buffer_size", "buffer_size", [19, 0, 100.0], "an integer of at least 20"),
    (PTSDSettings, "num_final_draws", "num_final_draws", [-1], "an integer of at least 0"),
    (PTSDSettings, "is_sized_by_budget", "is_sized_by_budget", ["yes", 1], "True or False"),
    (PTSDSettings, "level_size", "level_size", [19, 50.0], "an integer of at least 20"),
    (PTSDSettings, "initial_share", "initial_share", [0.0, 1.0, float("nan")], "a number between 0 and 1"),
    (PTSDSettings, "last_buffer_size", "last_buffer_size", [19, True], "an integer of at least 20"),
    (PTSDSettings, "last_refinement", "last_refinement", [5, "none"], "Refinement"),
    (PTDMSettings, "buffer_size", "buffer_size", [19], "an integer of at least 20"),
    (PTDMSettings, "num_final_draws", "num_final_draws", [-1], "an integer of at least 0"),
    (PTDMSettings, "is_sized_by_budget", "is_sized_by_budget", ["yes", None], "True or False"),
    (ReweightedSettings, "buffer_size", "buffer_size", [19], "an integer of at least 20"),
    (ReweightedSettings, "num_final_draws", "num_final_draws", [-1], "an integer of at least 0"),
    (ReweightedSettings, "is_sized_by_budget", "is_sized_by_budget", ["yes", None], "True or False"),
    (ReweightedSettings, "last_refinement", "last_refinement", [5, "none"], "Refinement"),
    *(
        (kind, group.__name__.lower(), group.__name__.lower(), [5, "none"], group.__name__)
        for kind in (PTSDSettings, PTDMSettings, ReweightedSettings)
        for group in (Network, Noise, Training, Sampling)
    ),
]
CASES = [(kind, field, name, value, allowed) for kind, field, name, values, allowed in REFUSED for value in values]


@pytest.mark.parametrize(("kind", "field", "name", "value", "allowed"), CASES)
def test_refusals_say_what_was_given_and_what_is_allowed(kind, field, name, value, allowed):
    with pytest.raises(SettingsError, match=allowed) as refusal:
        kind(**{field: value})
    message = str(refusal.value)
    assert message.startswith(f"{name} = "), message
    # A ladder is refused whole; a bad entry of it is named itself.
    shown = [repr(value)] if not isinstance(value, tuple) else [repr(value), *map(repr, value)]
    assert any(f"= {text} is not allowed" in message for text in shown), message


REFINED = {"refinement": Refinement(num_steps=5), **BY_HAND}

# Settings that are allowed alone and contradict each other.
CONTRADICTIONS = [
    (lambda: Initial(num_steps=50, burn_in=45, thin=6), r"initial\.num_steps = 50 .*burn_in \+ thin"),
    (lambda: Noise(sigma_min=2.0, sigma_max=1.0), r"noise\.sigma_min = 2\.0 .*below noise\.sigma_max"),
    (lambda: Sampling(divergence="integrated"), r"sampling\.divergence = 'integrated' .*solver = 'euler'"),
    (lambda: Noise(sigma_min=1.0, sigma_max=1.0), r"noise\.sigma_min = 1\.0 .*below noise\.sigma_max"),
    (lambda: Refinement(num_chains=5, num_steps=10, thin=6), r"refinement\.thin = 6 .*frozen state is kept"),
    (lambda: Refinement(num_steps=10, num_states=6), r"refinement\.num_states = 6 .*at most the 5 steps"),
    (lambda: Refinement(num_chains=5, num_steps=50, num_states=2), r"refinement\.num_states = 2 .*1 with num_chains"),
    (
        lambda: PTSDSettings(refinement=Refinement(num_steps=5, num_states=2), **BY_HAND),
        r"refinement\.num_states = 2 .*last_refinement",
    ),
    (
        lambda: ReweightedSettings(last_refinement=Refinement(num_steps=0)),
        r"last_refinement\.num_steps = 0 .*at least 1 in reweighted tempering",
    ),
    (lambda: Refinement(num_steps=0, num_states=2), r"refinement\.num_states = 2 .*at most the 1 step"),
    (
        lambda: ReweightedSettings(
            refinement=Refinement(num_steps=50, num_chains=9), last_refinement=Refinement(num_steps=5)
        ),
        r"last_refinement\.num_chains = None .*a number where refinement\.num_chains is one",
    ),
    (lambda: Refinement(num_chains=5, thin=0), r"refinement\.thin = 0 .*at least 1"),
    (
        lambda: PTSDSettings(buffer_size=3_001, **BY_HAND),
        r"buffer_size = 3001 .*at most the 3,000 states.*raise initial\.num_chains",
    ),
    (lambda: PTDMSettings(buffer_size=3_001, **BY_HAND), r"buffer_size = 3001 .*at most the 3,000 states"),
    (lambda: PTSDSettings(sampling=Sampling(solver="sde")), r"sampling\.solver = 'sde' .*density.*solver='sde'"),
    (lambda: PTDMSettings(atlas=Atlas(share=0.2)), r"atlas\.share = 0\.2 .*0 in PT\+DM.*method='ptsd'"),
    (lambda: PTDMSettings(sampling=Sampling(solver="sde")), r"sampling\.solver = 'sde' "),
    (
        lambda: PTSDSettings(buffer_size=100, refinement=Refinement(num_chains=101, num_steps=50), **BY_HAND),
        r"refinement\.num_chains = 101 .*at most buffer_size",
    ),
    (
        lambda: ReweightedSettings(refinement=Refinement(num_steps=0)),
        r"refinement\.num_steps = 0 .*at least 1 in reweighted tempering",
    ),
    (
        lambda: PTSDSettings(refinement=Refinement(num_steps=5)),
        r"refinement\.num_steps = 5 .*0 where the budget sets the sizes.*is_sized_by_budget=false",
    ),
    (
        lambda: PTSDSettings(refinement=Refinement(num_steps=0), last_refinement=Refinement(num_steps=3)),
        r"last_refinement\.num_steps = 3 .*0 where the budget sets the sizes",
    ),
    (lambda: PTSDSettings(level_size=1_999, **REFINED), r"level_size = 1999 .*refined in pairs"),
    (lambda: PTSDSettings(last_buffer_size=2_001, **REFINED), r"last_buffer_size = 2001 .*refined in pairs"),
    *(
        (
            lambda guidance=guidance: PTSDSettings(guidance=guidance, network=Network(is_shared=False)),
            r"network\.is_shared = False .*True for guidance",
        )
        for guidance in (
            *(Guidance(kind, is_anticipating=False) for kind in ("conditioned", "autodiff")),
            Guidance(is_anticipating=True),
            Guidance("none", is_anticipating=False, num_between=2),
        )
    ),
]


@pytest.mark.parametrize(("build", "message"), CONTRADICTIONS)
def test_contradictions_are_refused(build, message):
    with pytest.raises(SettingsError, match=message):
        build()


EDGES = [
    (Ladder, dict(temperatures=(1.5, 1.0))),
    (Ladder, dict(hottest=1.0001, num_levels=2)),
    (Pilot, dict(num_chains=4, num_steps=16, growth=1.01, max_rounds=1, max_rhat=1.01)),
    (Exploration, dict(kernel="hmc", num_leapfrog=1, swap_interval=1, swap_scheme="sweep")),
    (Initial, dict(num_chains=1, num_steps=1, burn_in=0, thin=1)),
    (Initial, dict(num_steps=110, burn_in=100, thin=10)),
    (Training, dict(patience=0)),
    (Resampling, dict(quantile=1.0)),
    (PTSDSettings, dict(level_size=2_000, **REFINED)),
    (PTSDSettings, dict(level_size=20, last_buffer_size=9_000, refinement=Refinement(num_steps=0))),
    (PTSDSettings, dict(guidance=Guidance("conditioned", is_anticipating=True), network=Network(is_shared=True))),
    (Refinement, dict(num_steps=0, num_chains=3)),
    (Refinement, dict(num_steps=20, num_chains=3, thin=10)),
    (PTSDSettings, dict(buffer_size=3_000, num_final_draws=0, **BY_HAND)),
    (PTSDSettings, dict(guidance=Guidance("none", is_anticipating=False), network=Network(is_shared=False))),
]


@pytest.mark.parametrize(("kind", "edge"), EDGES)
def test_the_edge_of_what_is_allowed_is_kept_as_given(kind, edge):
    made = kind(**edge)
    assert {name: getattr(made, name) for name in edge} == edge


def test_every_setting_is_in_the_table():
    # Groups of settings check themselves; any other new field needs a line above.
    kinds = [(name, getattr(settings, name)) for name in settings.__all__]
    for name, kind in kinds:
        if not dataclasses.is_dataclass(kind) or kind in (
            settings.MethodSettings,
            settings.DescentSettings,
        ):  # abstract
            continue
        if issubclass(kind, settings.BaselineSettings):  # tests/learned_baselines/test_settings.py
            continue
        groups = {field.name for field in dataclasses.fields(kind) if field.default_factory is not dataclasses.MISSING}
        covered = {field for of_kind, field, *_ in CASES if of_kind is kind}
        missing = {field.name for field in dataclasses.fields(kind)} - groups - covered
        assert not missing, f"{name}: nothing is refused for {missing}"


@pytest.mark.parametrize("kind", [PTSDSettings, PTDMSettings, ReweightedSettings])
def test_settings_are_frozen_and_plain_numbers(kind):
    made = kind()
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.buffer_size = 5
    assert json.loads(json.dumps(dataclasses.asdict(made)))["buffer_size"] == made.buffer_size


@pytest.mark.parametrize(
    ("num_steps", "burn_in", "thin", "expected"), [(400, 100, 10, 30), (109, 100, 9, 1), (119, 100, 10, 1)]
)
def test_states_the_initial_run_keeps(num_steps, burn_in, thin, expected):
    assert Initial(num_steps=num_steps, burn_in=burn_in, thin=thin).num_draws == expected


def test_states_a_refinement_keeps_come_after_adaptation():
    refinement = Refinement(num_steps=50, num_chains=9, thin=7, adapt_fraction=0.5)
    assert (refinement.num_adapting, refinement.num_kept) == (25, 3)
