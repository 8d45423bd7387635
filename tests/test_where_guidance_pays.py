"""The exact denoisers and shares of `benchmarks/where_guidance_pays.py`, against closed forms and random draws."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from guiding.exact import LINES, Line, PlaneDenoiser, ProductDenoiser
from guiding.learned import tempered_many_well
from guiding.page import rewritten
from guiding.picture import rows_in
from guiding.steps import gaussian_share, line_step, ratio_for

from support.oracle import GaussianDenoiser, quadrature_denoiser
from support.random_checks import assert_mean, must_fail
from tempering.targets import GaussianMixture, ManyWell

NORMAL = Line(lambda x: -0.5 * ((x - 1.5) / 0.7) ** 2, 30.0, 1024, 25.0)


@pytest.mark.parametrize("temperature", [1.0, 6.0])
def test_a_normal_on_a_line_is_denoised_as_its_closed_form_says(temperature):
    exact = GaussianDenoiser([1.5], [[0.49]], temperature)
    ours = eqx.filter_jit(NORMAL.denoiser(temperature))
    for sigma in (0.002, 0.05, 0.118, 0.3, 2.0, 60.0):  # 0.117 is where the two kinds of nodes meet
        for x in (-2.0, 1.4, 3.0):
            point = jnp.array([x])
            np.testing.assert_allclose(ours(point, jnp.asarray(sigma)), exact(point, sigma), atol=2e-4)


def check_line(denoiser, name: str, temperature: float) -> None:
    """Against an integral in float64 on a grid of its own."""
    y = np.linspace(-32, 32, 400_001)
    value = np.asarray(jax.vmap(LINES[name].log_density)(jnp.asarray(y)), np.float64) / temperature
    for sigma in (0.01, 0.2, 1.0, 15.0):
        for x in (-2.9, 0.3, 2.0):
            log_weight = value - 0.5 * ((x - y) / sigma) ** 2
            weight = np.exp(log_weight - log_weight.max())
            found = float(denoiser(jnp.array([x]), jnp.asarray(sigma))[0])
            assert found == pytest.approx(float(weight @ y / weight.sum()), abs=2e-3), (sigma, x)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_line_is_denoised_as_its_integral_says(name):
    check_line(eqx.filter_jit(LINES[name].denoiser(4.0)), name, 4.0)
    must_fail(check_line, eqx.filter_jit(LINES[name].denoiser(3.0)), name, 4.0)


def test_a_line_refuses_to_be_hotter_than_its_nodes_reach():
    with pytest.raises(ValueError, match=r"T = 100 is above 64"):
        LINES["double well"].denoiser(100)


@pytest.mark.slow
def test_a_product_is_denoised_coordinate_by_coordinate():
    line = LINES["double well"].denoiser(2.0)
    x, sigma = jnp.array([0.3, -1.2, 2.0]), jnp.asarray(0.6)
    np.testing.assert_allclose(ProductDenoiser(line)(x, sigma), [line(one[None], sigma)[0] for one in x], rtol=1e-6)


@pytest.mark.slow
def test_a_mixture_in_the_plane_is_denoised_as_its_integral_says():
    target = GaussianMixture([[-3.0, 1.0], [2.0, -2.0]], weights=[2.0, 1.0], covariances=[np.eye(2), 0.3 * np.eye(2)])
    known = eqx.filter_jit(quadrature_denoiser(target, 3.0, low=[-14.0, -14.0], high=[14.0, 14.0], num=400))
    ours = eqx.filter_jit(PlaneDenoiser.of(target, 3.0, 14.0, 160))

    def check(denoiser):
        for sigma in (0.15, 0.25, 0.4, 3.0):  # ours changes nodes at 0.264
            for x in ([-2.0, 0.5], [1.5, -1.0]):
                point = jnp.array(x)
                np.testing.assert_allclose(denoiser(point, jnp.asarray(sigma)), known(point, sigma), atol=2e-3)

    check(ours)
    must_fail(check, eqx.filter_jit(PlaneDenoiser.of(target, 2.5, 14.0, 160)))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["none", "T", "log_T", "own"])
def test_shares_of_a_normal_are_those_of_the_closed_form(way):
    for ratio in (1.5, 3.0):
        found = line_step(NORMAL, 1.0, ratio, way, num=401)
        assert found["share"] == pytest.approx(gaussian_share(ratio, way), abs=3e-3)
        assert found["seen"] == pytest.approx(1.0, abs=3e-3)
    # The saboteur: the share at another ratio.
    other = {"none": "T", "T": "none"}.get(way, "none")
    assert abs(line_step(NORMAL, 1.0, 3.0, way, num=401)["share"] - gaussian_share(3.0, other)) > 0.02


@pytest.mark.slow
def test_the_share_of_a_product_is_the_power_of_that_of_a_coordinate():
    """By random draws of three double wells with the weights of the hotter model."""
    from guiding import steps

    from tempering.diffusion import DiffusionModel, NoiseLevels, Prior
    from tempering.weights.ess import ess_fraction

    line, dim, ratio = LINES["double well"], 3, 1.5
    hot = line.facts(ratio)
    sigma_max = jnp.asarray(20.0 * hot["std"], jnp.float32)
    width = jnp.sqrt(hot["std"] ** 2 + sigma_max**2)
    prior = Prior.diagonal(jnp.full((dim,), hot["mean"], jnp.float32), jnp.full((dim,), width))
    levels = NoiseLevels(jnp.asarray(0.002), sigma_max)
    model = DiffusionModel(ProductDenoiser(line.denoiser(ratio)), prior, levels)
    x, log_q = model.draw(jax.random.key(3), 600, steps._SAMPLING, with_density=True)
    value = jnp.sum(jax.vmap(jax.vmap(line.log_density))(x), axis=1)
    expected = line_step(line, 1.0, ratio, "none")["share"] ** dim
    assert float(ess_fraction(value - log_q)) == pytest.approx(expected, abs=0.08)

    def check(temperature: float) -> None:
        log_weight = np.asarray(value / temperature - log_q, np.float64) - dim * line.facts(1.0)["log_z"]
        assert_mean(np.exp(log_weight), 1.0, name="normalised weights", key=3)

    check(1.0)
    must_fail(check, 1.1)  # weights of another temperature


def test_samples_of_hot_wells_have_the_moments_of_the_density():
    x = tempered_many_well(5, 20_000, 4, 3.0)
    facts = LINES["double well"].facts(3.0)
    assert_mean(x[:, 0::2], facts["mean"], name="mean of a well", key=5)
    assert_mean((x[:, 0::2] - facts["mean"]) ** 2, facts["std"] ** 2, name="variance of a well", key=5)
    assert_mean(x[:, 1::2] ** 2, 3.0, name="variance of the rest", key=5)
    must_fail(assert_mean, tempered_many_well(5, 20_000, 4, 1.0)[:, 1::2] ** 2, 3.0)
    assert facts["right"] != LINES["double well"].facts(1.0)["right"]
    assert LINES["double well"].facts(1.0)["right"] == pytest.approx(float(ManyWell(2).region_weights()[0]), abs=1e-3)


def test_the_ratio_that_keeps_a_share_is_found_between_rows():
    """Where a coordinate loses c (ln r)^2 the answer is exp(sqrt(ln 5 / (c dim)))."""
    rows = [{"ratio": ratio, "share": float(np.exp(-0.3 * np.log(ratio) ** 2))} for ratio in (1.05, 1.2, 1.7, 3.0, 9.0)]
    for dim in (4, 30):
        assert ratio_for(rows, dim) == pytest.approx(np.exp(np.sqrt(np.log(5.0) / (0.3 * dim))), rel=1e-6)
    assert ratio_for(rows, 10_000) is None
    assert ratio_for(rows, 1) == np.inf


def test_the_page_is_current():
    """Its tables are those of the file of results."""
    root = Path(__file__).parent.parent
    text = (root / "docs" / "guidance.md").read_text()
    content = json.loads((root / "results" / "where-guidance-pays.json").read_text())
    rewrite = "run `python benchmarks/where_guidance_pays.py --page`"
    assert rewritten(text, content) == text, rewrite
    altered = text.replace("| 1.45 |", "| 1.46 |")
    assert altered != text and rewritten(altered, content) != altered


def test_a_gaussian_in_the_results_has_the_shares_of_the_closed_form():
    content = json.loads((Path(__file__).parent.parent / "results" / "where-guidance-pays.json").read_text())
    rows = rows_in(content, "gaussian")
    assert len(rows) > 50
    for row in rows:
        assert row["share"] == pytest.approx(gaussian_share(row["ratio"], row["way"]), rel=1e-5)
