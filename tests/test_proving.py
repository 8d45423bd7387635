"""The proving ground: its truths by other means, its generator, its judge, and rows that are not made twice."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from proving import classic, models, physics, shapes
from proving import report as reporting
from proving.catalogue import DENSITIES, density_of
from proving.judge import Answer, judge, outcome
from proving.mixtures import RandomMixture, hits, is_findable, known_findable, random_mixture, uphill
from proving.outcomes import count_outcomes, outcome_table
from proving.record import Box, Density, Goal
from proving.references import measured
from proving.report import picture, rewritten
from proving.runner import allowed_for, joined, read_rows, run

from tempering.adapters.own import as_fitted

PAGE = Path(__file__).parent.parent / "docs" / "proving-ground.md"
PUBLISHED = {
    "eggbox": 235.85594,
    "shells-2": -1.7456,
    "shells-10": -14.5905,
    "rosenbrock-2": -5.8041,
    "rosenbrock-3": -10.4770,
    "rosenbrock-4": -15.1017,
    "rosenbrock-5": -19.7324,
    "rosenbrock-10": -21.4021,
    "unid": -11.8794,
    "pathology": 2.9663,
    "phi4-chain-16": -33.2248,
    "multiwell-16": 5.7000,
    "multiwell-64": 45.3075,
    "hybrid-rosenbrock-5": 1.1408,
}
"""What others measured or published for the same densities."""


INSIDE = {
    "box-corner-4": np.linspace(0.05, 0.95, 20, dtype=np.float32).reshape(5, 4),
    "not-a-number-2": [[1.5, 0.2]] * 5,
    "distances-3": [[0.2, 0.6, 0.1], [0.3, 0.7, 0.0], [0.5, 0.2, -0.2], [0.1, 0.9, 0.3], [1.2, 0.4, 0.0]],
    "slabs-4": np.array(
        [
            [1.96, 0.55, 1.1, 2.37],
            [1.64, 0.08, 0.95, 2.24],
            [1.31, -0.38, 0.81, 2.11],
            [0.99, -0.85, 0.66, 1.97],
            [0.67, -1.31, 0.51, 1.84],
        ]
    ),
    "checkerboard-2": [[0.5, 0.5], [-0.5, -0.5], [1.5, -0.5], [-1.5, 0.5], [0.2, 0.7]],
    "ends-4": [[0.0, 2.5, -3.0, 4.0]] * 5,
    "rooms-4": [[0.45, 0.4, 0.48, 0.44]] * 2 + [[0.75, 0.72, 0.71, 0.73]] * 3,
    "accepted-3": [[-2.0, -2.0, -2.0]] * 2 + [[3.0, 2.5, 2.0]] * 3,
    "levels-12": np.linspace(0.1, 2.0, 60, dtype=np.float32).reshape(5, 12),
    "counts-14": np.linspace(0.2, 1.5, 70, dtype=np.float32).reshape(5, 14),
    "covariance-10": np.linspace(0.5, 2.0, 50, dtype=np.float32).reshape(5, 10),
    "local-level-22": np.linspace(0.2, 1.5, 110, dtype=np.float32).reshape(5, 22),
    "takahashi-5": [[0.2, 1.5, 3.1, 8.0, 6.2], [8.5, 7.1, 5.0, 3.2, 1.1], [4.0, 5.3, 1.1, 8.0, 2.5]]
    + [[0.5, 2.0, 3.5, 5.0, 6.5], [6.4, 2.1, 3.4, 5.0, 0.6]],
    "hard-ring-2": [[2.0, 0.0], [0.5, 1.5], [-1.0, 0.0], [0.5, -1.5], [2.01, 0.0]],
}
"""Points of densities that are nowhere else on most of their prior."""


def in_support(density: Density, z: jax.Array) -> jax.Array:
    """Points inside the supports that a density is handed over with."""
    target = as_fitted(density.log_density, density.dim, None, density.how["support"], None)
    return jax.vmap(target.chart.embed)(z[:, : target.dim])


TELLING = (
    *("eggbox", "sensors", "schools-10", "pathology", "funnel-10", "walled-3", "mixed-support-3"),
    *("units-0.001", "wide-prior-3", "box-corner-4", "not-a-number-2", "hard-ring-2", "sky-4"),
)
"""One of each kind: with shares, with a prior, with supports, of data, narrow, without a density in places."""
by_density = pytest.mark.parametrize(
    "name", [name if name in TELLING else pytest.param(name, marks=pytest.mark.slow) for name in DENSITIES]
)


@by_density
def test_every_density_is_a_finite_function_with_shares_that_add_up(name):
    density = density_of(name)
    assert density.name == name
    z = 0.3 * jax.random.normal(jax.random.key(1), (5, density.dim))
    z = jnp.abs(z) if name == "walled-3" else z  # it has no density below zero
    points = z if density.prior is None else jax.jit(jax.vmap(density.prior.from_normal))(z)
    if name in INSIDE:
        points = jnp.asarray(INSIDE[name])
    elif "support" in density.how:
        points = in_support(density, z)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(density.log_density)))(points)
    assert np.all(np.isfinite(values)) and gradients.shape == points.shape
    if name != "pathology":
        assert np.all(np.isfinite(gradients))
    if density.shares is not None:
        shares = jax.jit(jax.vmap(density.shares))(points)
        assert shares.shape == (5, len(density.masses))
        np.testing.assert_allclose(np.sum(shares, axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", PUBLISHED)
def test_log_z_is_what_others_found(name):
    assert density_of(name).log_z == pytest.approx(PUBLISHED[name], abs=6e-5)


def on_grid(density: Density, low, high, num) -> dict:
    """log Z, masses and the spread of a density in the plane, by the midpoint rule; evidence where there is a prior."""
    axes = [low[k] + (high[k] - low[k]) * (np.arange(num) + 0.5) / num for k in range(2)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    logs = np.asarray(jax.jit(jax.vmap(density.log_density))(points), np.float64)
    cell = math.prod((high[k] - low[k]) / num for k in range(2))
    volume = 1.0 if density.prior is None else math.prod(np.subtract(density.prior.high, density.prior.low))
    weights = np.exp(logs - logs.max())
    log_z = logs.max() + math.log(weights.sum() * cell / volume)
    weights /= weights.sum()
    shares = None if density.shares is None else weights @ np.asarray(jax.jit(jax.vmap(density.shares))(points))
    mean = weights @ points[:, 0]
    return {"log_z": log_z, "masses": shares, "spread": math.sqrt(weights @ (points[:, 0] - mean) ** 2)}


PLANES = {
    "eggbox": ((0.0, 0.0), (10 * math.pi, 10 * math.pi), 600),
    "shells-2": ((-6.0, -6.0), (6.0, 6.0), 600),
    "loggamma-2": ((0.0, 0.0), (1.0, 1.0), 400),
    "rosenbrock-2": ((-5.0, -5.0), (5.0, 5.0), 1500),
    "unid": ((0.0, 0.0), (1.0, 1.0), 1500),
    "banana": ((-60.0, -100.0), (60.0, 12.0), 500),
    "gaussians40-2": ((-50.0, -50.0), (50.0, 50.0), 250),
}
"""Corners that hold the mass, and points a side."""


@pytest.mark.parametrize("name", PLANES)
def test_truths_in_the_plane_are_those_of_a_grid(name):
    density = density_of(name)
    found = on_grid(density, *PLANES[name])
    assert found["log_z"] == pytest.approx(density.log_z, abs=3e-3)
    if density.masses is not None:
        np.testing.assert_allclose(found["masses"], density.masses, atol=3e-3)
    if density.spread is not None:
        assert found["spread"] == pytest.approx(density.spread, rel=3e-3)


def test_a_wrong_density_is_not_what_the_grid_finds():
    wrong = shapes.mixture("wrong", [[0.0, 0.0], [6.0, 0.0]], [1.0, 0.5], [0.7, 0.3], "")
    found = on_grid(Density("x", 2, lambda x: 1.01 * wrong.log_density(x), "", ""), (-8.0, -8.0), (10.0, 8.0), 300)
    assert abs(found["log_z"] - wrong.log_z) > 3e-3


def exact_draws(name: str, num: int) -> np.ndarray | None:
    """Independent draws of the densities that are chains of normals."""
    generator = np.random.default_rng(0)
    normal = generator.standard_normal
    if name == "funnel-10":
        first = 3.0 * normal((num, 1))
        return np.concatenate([first, np.exp(0.5 * first) * normal((num, 9))], axis=1)
    if name == "hybrid-rosenbrock-5":
        first = 1.0 + math.sqrt(10.0) * normal(num)
        left, right = (first**2 + math.sqrt(0.1) * normal(num) for _ in range(2))
        return np.stack([first, left, left**2 + math.sqrt(0.1) * normal(num), right, right**2], axis=1)
    if name == "student-5":
        chi = generator.chisquare(4.0, (num, 1))
        return np.linspace(-2.0, 3.0, 5)[None] + normal((num, 5)) / np.sqrt(chi / 4.0)
    raise KeyError(name)


@pytest.mark.parametrize("name", ["funnel-10", "hybrid-rosenbrock-5", "student-5"])
def test_exact_draws_are_judged_right_and_half_of_them_wrong(name):
    density = density_of(name)
    draws = exact_draws(name, 20_000)
    perfect = Answer(draws, np.zeros(len(draws)), 1, log_z=density.log_z, verdict="trustworthy")
    assert judge(density, perfect)["outcome"] == "right"
    half = draws[draws[:, 0] > np.median(draws[:, 0])]
    assert judge(density, Answer(half, np.zeros(len(half)), 1, log_z=density.log_z))["outcome"] == "wrong"


def test_the_chain_of_fields_is_a_product_of_two_integrals_in_one_dimension_less():
    # One field between fixed ends, by hand.
    x = np.linspace(-2.4, 2.4, 20_001)
    action = 20.0 * (0.1 * x**2 + 10.0 * (0.25 * (1 - x**2) ** 2 + 0.005 * x))
    mass = np.exp(-action)
    log_z, positive = physics.chain_truth(1, 0.005)
    assert log_z == pytest.approx(math.log(np.trapezoid(mass, x)), abs=1e-6)
    assert positive == pytest.approx(mass[x > 0].sum() / mass.sum(), abs=1e-3)
    assert physics.chain_truth(16, 0.005)[1] == pytest.approx(0.15956, abs=2e-5)


@pytest.mark.slow
def test_densities_have_their_symmetries():
    x = jax.random.normal(jax.random.key(0), (8,))
    swapped = x[jnp.array([2, 1, 0, 5, 4, 3, 6, 7])]
    galaxy = models.galaxy()
    logits = jnp.array([-0.4, 0.9])  # swap the first and the last weight by hand
    first, second = jax.nn.sigmoid(logits)
    weights = jnp.array([first, (1 - first) * second, (1 - first) * (1 - second)])[::-1]
    turned = jax.scipy.special.logit(jnp.array([weights[0], weights[1] / (1 - weights[0])]))
    # Densities of logits differ by their Jacobians: the density of the weights is what is exchangeable.
    jacobian = lambda s: jnp.sum(jax.nn.log_sigmoid(s) + jax.nn.log_sigmoid(-s)) + jax.nn.log_sigmoid(-s[0])  # noqa: E731
    here, there = (galaxy.log_density(jnp.concatenate([y[:6], s])) for y, s in ((x, logits), (swapped, turned)))
    assert float(here - jacobian(logits)) == pytest.approx(float(there - jacobian(turned)), rel=1e-4)
    mrna = models.mrna()
    x = jnp.log10(jnp.array([2.1, 4.8, 0.66, 0.21, 0.12]))
    assert float(mrna.log_density(x)) == pytest.approx(float(mrna.log_density(x[jnp.array([0, 1, 3, 2, 4])])), rel=1e-5)


def test_the_galaxies_are_the_published_ones():
    assert len(models.GALAXIES) == 82
    assert models.GALAXIES.mean() == pytest.approx(20.83146, abs=1e-5)
    assert models.GALAXIES.std(ddof=1) == pytest.approx(4.568, abs=1e-3)


def test_the_sensors_have_their_published_log_density():
    x = jnp.asarray(np.ravel(models.SENSORS), jnp.float32)
    prior = -0.005 * float(jnp.sum(x**2)) - 8 * math.log(10.0) - 4 * math.log(2 * math.pi)
    assert float(models.sensors().log_density(x)) + prior == pytest.approx(-22.6285, abs=2e-3)


def test_measured_truths_are_kept_with_their_errors_and_agree_with_published_ones():
    for name in ("galaxy", "logistic-10", "mrna", "phi4-6", "phi4-8", "sensors"):
        density = density_of(name)
        assert density.log_z is not None and 0.0 < density.log_z_error < 0.025
    assert density_of("galaxy").log_z == pytest.approx(-226.803, abs=4 * 0.041)  # Neal 1999, +- 0.040
    for side, (_, published) in physics.LATTICES.items():
        assert measured(f"phi4-{side}", "positive")[0] == pytest.approx(published, abs=4 * 0.0015)


def test_the_evidence_of_logistic_regression_is_that_of_another_proposal():
    density = density_of("logistic-10")
    generator = np.random.default_rng(5)
    z = generator.standard_normal((4000, 10))  # the prior's own draws, moved towards the mode by a crude fit
    target = jax.jit(jax.vmap(density.normal_log_density))
    mode = jnp.zeros(10)
    hessian, gradient = jax.jit(jax.hessian(density.normal_log_density)), jax.jit(jax.grad(density.normal_log_density))
    for _ in range(20):
        mode = mode - jnp.linalg.solve(hessian(mode), gradient(mode))
    root = 1.15 * np.linalg.cholesky(np.linalg.inv(-np.asarray(hessian(mode), np.float64)))
    log_q = -0.5 * np.sum(z**2, axis=1) - 5.0 * math.log(2 * math.pi) - np.log(np.diag(root)).sum()
    logs = np.asarray(target(jnp.asarray(np.asarray(mode)[None] + z @ root.T, jnp.float32)), np.float64) - log_q
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / math.sqrt(len(weights))
    found = logs.max() + math.log(weights.mean())
    assert abs(found - density.log_z) < 5 * math.hypot(error, density.log_z_error) < 0.1


def test_priors_map_the_cube_and_normal_coordinates_to_the_same_point():
    z = jnp.array([0.3, -1.2])
    u = jax.scipy.stats.norm.cdf(z)
    for prior in (Box((-1.0, 2.0), (3.0, 7.0)), density_of("sensors").prior):
        prior = prior if isinstance(prior, Box) else type(prior)((1.0, 2.0), (3.0, 4.0))
        x = prior.from_normal(z)
        np.testing.assert_allclose(x, prior.from_cube(u), rtol=1e-5)
        np.testing.assert_allclose(prior.to_normal(x), z, rtol=1e-4)


def test_a_spike_in_the_middle_of_an_interval_survives_plain_jax():
    density = classic.pathology()
    assert float(density.normal_log_density(jnp.array([1e-9, 0.0]))) == pytest.approx(18.42 - 1.84, abs=0.01)
    near, far = (float(density.log_density(density.prior.from_normal(jnp.array([z, 0.0])))) for z in (1e-7, 1e-6))
    assert near - far == pytest.approx(math.log(10.0), abs=1e-3)


def test_random_mixtures_are_what_they_are_said_to_be():
    mixtures = [random_mixture(seed) for seed in range(200)]
    assert {found.dim for found in mixtures} == set(range(2, 13))
    assert {len(found.weights) for found in mixtures} == set(range(2, 9))
    assert min(found.weights.min() for found in mixtures) >= 0.03
    lengths = np.concatenate([np.linalg.norm(found.roots, axis=1).ravel() for found in mixtures])
    assert 0.18 <= lengths.min() < 0.22 and 2.0 < lengths.max() <= 2.24
    again = random_mixture(7)
    np.testing.assert_array_equal(again.means, mixtures[7].means)


@pytest.mark.slow
def test_a_random_mixture_is_normalised_and_its_shares_have_its_weights():
    found = random_mixture(23)  # six components in the plane, two of which share an optimum
    density = found.density()
    grid = on_grid(density, (-30.0, -30.0), (30.0, 30.0), 600)
    assert grid["log_z"] == pytest.approx(0.0, abs=1e-3)
    np.testing.assert_allclose(grid["masses"], found.weights, atol=1e-3)
    points = np.random.default_rng(0).normal(0.0, 5.0, (20, 2))
    value, gradient = found.value_and_gradient(points)
    same = jax.vmap(jax.value_and_grad(density.log_density))(jnp.asarray(points, jnp.float32))
    np.testing.assert_allclose(value, same[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(gradient, same[1], rtol=1e-3, atol=1e-2)


def test_uphill_searches_end_at_optima():
    found = random_mixture(30)
    ends = uphill(found.value_and_gradient, np.random.default_rng(0).normal(0.0, 6.0, (300, found.dim)))
    _, gradient = found.value_and_gradient(ends)
    assert np.mean(np.linalg.norm(gradient, axis=1) < 1e-2) > 0.99


def test_a_mixture_with_a_needle_is_not_findable_and_one_without_is():
    def mixture(width: float) -> RandomMixture:
        means = np.array([[0.0] * 6, [5.0, -4.0, 3.0, 0.0, 2.0, 1.0]])
        return RandomMixture(0, means, np.stack([np.eye(6), width * np.eye(6)]), np.array([0.6, 0.4]))

    assert is_findable(mixture(0.9)) and not is_findable(mixture(0.05))
    assert hits(mixture(0.9)).sum() == 2000
    assert known_findable(0) and not known_findable(1)  # kept in results/findable.json


FLAT = Density(
    "flat",
    1,
    lambda x: -0.5 * jnp.sum(x**2),
    "",
    "",
    log_z=1.0,
    shares=lambda x: jnp.stack([jnp.where(x[0] > 0, 1.0, 0.0), jnp.where(x[0] > 0, 0.0, 1.0)]),
    masses=np.array([0.25, 0.75]),
    goal=Goal(log_z=0.01),
)


def answer(log_z: float | None, share: float, **how) -> Answer:
    draws = np.where(np.arange(1000) < 1000 * share, 1.0, -1.0)[:, None]
    return Answer(draws, np.zeros(1000), 10, log_z=log_z, **how)


def test_the_judge_knows_four_outcomes():
    assert judge(FLAT, answer(1.04, 0.25, verdict="trustworthy"))["outcome"] == "right"
    assert judge(FLAT, answer(1.04, 0.25, verdict="doubtful"))["outcome"] == "false alarm"
    assert judge(FLAT, answer(1.06, 0.25, verdict="doubtful"))["outcome"] == "honest"
    assert judge(FLAT, answer(1.06, 0.25, verdict="trustworthy"))["outcome"] == "silent wrong"
    assert judge(FLAT, answer(1.0, 0.31, verdict="trustworthy"))["outcome"] == "silent wrong"
    assert judge(FLAT, answer(None, 0.25, verdict="trustworthy"))["outcome"] == "silent wrong"
    assert judge(FLAT, answer(None, 0.25, gives_log_z=False))["outcome"] == "right"
    assert outcome(False, "wrong") == "honest"
    facts = judge(FLAT, answer(1.04, 0.27))
    assert facts["weights_off"] == pytest.approx(0.02) and facts["log_z_off"] == pytest.approx(0.04)
    assert facts["meets_goal"] is False and judge(FLAT, answer(1.0, 0.25))["meets_goal"] is True


def test_weights_count_and_unusable_weights_are_wrong():
    draws = np.array([[1.0], [-1.0]])
    assert judge(FLAT, Answer(draws, np.log([0.25, 0.75]) + 900.0, 1, log_z=1.0))["is_right"]
    assert not judge(FLAT, Answer(draws, np.full(2, -np.inf), 1, log_z=1.0))["is_right"]


@pytest.mark.slow
def test_rows_are_not_made_twice_and_failures_are_rows(tmp_path):
    calls = []

    def method(density, seed, budget):
        calls.append((density.name, seed, budget))
        if seed == 1:
            raise RuntimeError("no luck")
        draws = np.random.default_rng(seed).normal(0.0, 1.0, (2000, density.dim))
        return Answer(draws, np.zeros(2000), 5, log_z=float("nan"), verdict="trustworthy")

    out, said = tmp_path / "deep" / "rows.json", []
    run(["banana", "mixture-3"], {"fake": method}, [0, 1], out, commit="abc", say=said.append)
    rows = read_rows(out)
    assert len(rows) == len(calls) == 4 and len(said) == 4
    assert [row["outcome"] for row in rows] == ["silent wrong", "failed"] * 2
    assert rows[1]["failed"] == "RuntimeError: no luck" and rows[0]["commit"] == "abc"
    assert rows[0]["log_z"] is None  # JSON has no NaN
    run(["banana", "mixture-3"], {"fake": method}, [0, 1, 2], out, say=said.append)
    assert len(calls) == 6 and len(read_rows(out)) == 6
    run(["banana"], {"fake": method}, [0], out, budget=77, say=said.append)
    assert calls[-1] == ("banana", 0, 77)
    assert json.loads(out.read_text())["command"].startswith("python benchmarks/densities.py")


def test_outcomes_of_random_mixtures_are_split_by_findable():
    rows = [
        {"density": f"mixture-{k}", "outcome": word} for k, word in ((0, "right"), (1, "silent wrong"), (3, "right"))
    ]
    counts = count_outcomes(rows)
    assert counts["findable"] == {"right": 2} and counts["not findable"] == {"silent wrong": 1}
    assert "| all | 3 | 2 (67 %) | 0 (0 %) | 0 (0 %) | 1 (33 %) | 0 (0 %) |" in outcome_table(rows)


def test_an_unknown_density_is_refused_with_the_names():
    with pytest.raises(ValueError, match="eggbox"):
        density_of("eggbocks")


ROWS = [
    {"density": "eggbox", "method": "tempering", "seed": 0, "budget": None, "evaluations": 70_000, "log_z_off": 0.01}
    | {"weights_off": 0.002, "seconds": 20.0, "outcome": "right"},
    {"density": "eggbox", "method": "tempering", "seed": 1, "budget": None, "evaluations": 70_000, "log_z_off": -0.3}
    | {"weights_off": 0.2, "seconds": 22.0, "outcome": "silent wrong"},
    {"density": "eggbox", "method": "dynesty", "seed": 0, "budget": 70_000, "seconds": 2.0, "outcome": "failed"},
    {"density": "mixture-1", "method": "tempering", "seed": 0, "budget": None, "outcome": "honest", "seconds": 9.0},
]


def test_the_page_has_the_tables_of_its_rows(monkeypatch):
    # Truths of all densities are half a minute of quadrature; a slow test makes them.
    monkeypatch.setattr(reporting, "DENSITIES", {name: DENSITIES[name] for name in ("eggbox", "line")})
    text = rewritten(PAGE.read_text(), ROWS)
    assert "| `eggbox` | tempering | 2 | 70,000 | -0.145 (largest -0.300) | 0.101 (largest 0.200) | – | 21 |" in text
    assert "1 right, 1 **silent wrong**" in text and "| `eggbox` | dynesty, at most 70,000 | 1 | – |" in text
    assert "| not findable | 1 | 0 (0 %) | 0 (0 %) | 1 (100 %) |" in text
    assert rewritten(text, ROWS) == text


def test_the_page_has_every_density():
    page = PAGE.read_text()
    assert [name for name in DENSITIES if f"\n| `{name}`" not in page] == []


@pytest.mark.slow
def test_the_table_of_densities_is_made_of_them():
    text = rewritten(PAGE.read_text(), ROWS)
    assert all(f"| `{name}`" in text for name in DENSITIES)


def test_a_newer_row_takes_the_place_of_an_older_one():
    old = [{"density": name, "method": "tempering", "seed": 0, "budget": None, "commit": "old"} for name in "abc"]
    new = [{**old[1], "commit": "new"}, {**old[1], "seed": 1, "commit": "new"}]
    rows = joined(old, new)
    assert [(row["density"], row["seed"], row["commit"]) for row in rows] == [
        ("a", 0, "old"),
        ("b", 0, "new"),
        ("c", 0, "old"),
        ("b", 1, "new"),
    ]


def test_the_picture_is_drawn():
    assert picture(ROWS)[:4] == b"\x89PNG"


def test_a_budget_is_ours_or_equal_or_given():
    funnel, eggbox = density_of("funnel-10"), density_of("eggbox")
    assert allowed_for("tempering", funnel, None) == 150_000 and allowed_for("dynesty", funnel, None) is None
    assert allowed_for("dynesty", funnel, "equal") == 150_000 and allowed_for("dynesty", eggbox, "equal") == 70_000
    assert allowed_for("dynesty", eggbox, 99) == allowed_for("tempering", eggbox, 99) == 99
