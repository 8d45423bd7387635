"""Two posteriors against NUTS at no more gradient evaluations than NUTS spent, and their evidence against a long SMC.

    python benchmarks/posteriors.py --out results/posteriors.json

Logistic regression with 25 coefficients on generated data (correlated covariates, an intercept, a few strong effects),
and eight schools (Rubin 1981), both as NumPyro models handed to `tp.from_numpyro`. NUTS: 4 chains of 2,000 draws after
1,000 of warm-up; its leapfrog steps are counted, warm-up included, as its gradient evaluations. Ours is fitted with a
share of that number as its budget, and what is left goes into weighted draws: fit and draws together never exceed it.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from baselines import smc
from measure import commit, finish
from measure import parser as measure_parser
from numpyro.infer import MCMC, NUTS

import tempering as tp
from tempering.settings import PTSDSettings, resolved

NUM_COEFFICIENTS, NUM_ROWS = 25, 500
SMC = 3_000_000, 16
"""Evaluations of a run of SMC, and runs: for a standard error of 0.03."""
EFFECTS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
OBSERVED = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


def logistic_data(seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Standardised covariates with correlations of 0.5^|i - j|, the first a constant, and labels of a sparse truth."""
    generator = np.random.default_rng(seed)
    order = np.arange(NUM_COEFFICIENTS - 1)
    root = np.linalg.cholesky(0.5 ** np.abs(order[:, None] - order[None]))
    covariates = generator.standard_normal((NUM_ROWS, NUM_COEFFICIENTS - 1)) @ root.T
    covariates = np.concatenate([np.ones((NUM_ROWS, 1)), covariates], axis=1)
    truth = np.where(generator.random(NUM_COEFFICIENTS) < 0.4, generator.normal(0.0, 1.0, NUM_COEFFICIENTS), 0.0)
    labels = generator.random(NUM_ROWS) < 1.0 / (1.0 + np.exp(-covariates @ truth))
    return covariates.astype(np.float32), labels.astype(np.int32)


def logistic(covariates, labels):
    coefficients = numpyro.sample("b", dist.Normal(0.0, 2.5).expand([NUM_COEFFICIENTS]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=covariates @ coefficients), obs=labels)


def eight_schools(spread, observed):
    mean = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    width = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        raw = numpyro.sample("raw", dist.Normal(0.0, 1.0))
    effect = numpyro.deterministic("theta", mean + width * raw)
    numpyro.sample("y", dist.Normal(effect, spread), obs=observed)


MODELS = {
    "logistic": (logistic, logistic_data),
    "eight-schools": (eight_schools, lambda: (EFFECTS, OBSERVED)),
}


def nuts(model, data, seed: int, num_draws: int) -> tuple[dict, int]:
    """Draws by name and every gradient evaluation, warm-up included."""
    mcmc = MCMC(
        NUTS(model), num_warmup=1000, num_samples=num_draws, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.warmup(jax.random.key(seed), *data, extra_fields=("num_steps",), collect_warmup=True)
    spent = int(mcmc.get_extra_fields()["num_steps"].sum())
    mcmc.run(jax.random.key(seed + 1), *data, extra_fields=("num_steps",))
    spent += int(mcmc.get_extra_fields()["num_steps"].sum())
    return {name: np.asarray(draws, np.float64) for name, draws in mcmc.get_samples().items()}, spent


def weighted_moments(draws: dict, log_weights: np.ndarray) -> dict:
    weights = np.exp(log_weights - np.max(log_weights))
    weights /= weights.sum()
    moments = {}
    for name, values in draws.items():
        values = np.asarray(values, np.float64)
        mean = np.tensordot(weights, values, axes=1)
        moments[name] = (mean, np.sqrt(np.tensordot(weights, (values - mean) ** 2, axes=1)))
    return moments


def compare(ours: dict, theirs: dict) -> dict:
    """Largest deviation of a mean, in standard deviations, and of a standard deviation, relative; with their names."""
    shift, stretch = {}, {}
    for name, draws in theirs.items():
        mean, std = draws.mean(axis=0), draws.std(axis=0)
        shift[name] = float(np.max(np.abs(ours[name][0] - mean) / std))
        stretch[name] = float(np.max(np.abs(ours[name][1] / std - 1.0)))
    return {"mean_in_sd": shift, "sd_relative": stretch}


def evidence(target, seed: int, budget: int, repeats: int) -> dict:
    """log Z by SMC from a wide Gaussian, and its spread over runs."""
    drawn = (
        smc.samples(
            target,
            jax.random.key(seed + k),
            budget,
            scale=2.5,
            target_ess=0.8,
            num_moves=2,
            num_leapfrog=4,
            num_rounds=40,
        )
        for k in range(repeats)
    )
    values = [one.log_z for one in drawn if one.log_z is not None]
    error = float(np.std(values, ddof=1) / np.sqrt(repeats))
    return {"log_z": float(np.mean(values)), "error": error, "runs": values, "evaluations_each": budget}


def one(name: str, seed: int, options) -> dict:
    model, data_fn = MODELS[name]
    data = data_fn()
    began = time.perf_counter()
    theirs, spent = nuts(model, data, seed, 2000)
    nuts_seconds = time.perf_counter() - began
    print(f"{name}: NUTS spent {spent:,} gradients in {nuts_seconds:.0f} s", flush=True)
    target = tp.from_numpyro(model, *data)
    # The weighted draws need values only; the ledger enters them as evaluations all the same.
    budget = int(options.share * spent)
    settings = resolved(PTSDSettings(), target.dim)
    if options.steps is not None:
        training = replace(settings.training, num_steps=options.steps, num_finetune_steps=options.steps // 4)
        settings = replace(settings, training=training)
    reference = None if options.path == "prior" else "none"
    began = time.perf_counter()
    sampler = tp.fit(target, budget=budget, seed=seed, settings=settings, reference=reference, progress=False)
    fit_seconds = time.perf_counter() - began
    num = min(options.draws, spent - sampler.evaluations)
    draws, log_weights = sampler.sample_weighted(num, seed=seed + 1)
    ours = sampler.evaluations + sampler.ledger.points["sampling"]
    print(sampler.summary(), flush=True)
    long = evidence(target, seed, *options.smc)
    verdict = sampler.diagnose()
    record = {
        "seed": seed,
        "path": options.path,
        "steps": settings.training.num_steps,
        "nuts_gradients": spent,
        "nuts_seconds": nuts_seconds,
        "evaluations": ours,
        "fit_evaluations": sampler.evaluations,
        "weighted_draws": num,
        "fit_seconds": fit_seconds,
        "ess_fraction": sampler.ess_fraction,
        "pareto_k": sampler.pareto_k,
        "weighted": compare(weighted_moments(draws, log_weights), theirs),
        "raw": compare(weighted_moments(sampler.sample(10_000, seed=seed + 2), np.zeros(10_000)), theirs),
        "log_z": sampler.log_z,
        "log_z_error": sampler.log_z_error,
        "log_z_smc": long,
        "verdict": verdict.status,
        "doubts": [f"{f.name}: {f.measured}" for f in verdict.troubles()],
    }
    print(json.dumps(record, indent=1), flush=True)
    return record


def remeasure(path: Path, names: list[str], smc_cost: tuple[int, int]) -> None:
    """Put a fresh log Z by SMC beside the fits of a file."""
    content = json.loads(path.read_text())
    for name in names:
        model, data_fn = MODELS[name]
        target = tp.from_numpyro(model, *data_fn())
        for record in content["figures"][name]:
            record["log_z_smc"] = evidence(target, record["seed"], *smc_cost) | {"commit": commit()}
            print(name, record["log_z"], record["log_z_error"], record["log_z_smc"], flush=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    parser = measure_parser(__doc__)
    parser.add_argument("--names", nargs="+", choices=tuple(MODELS), default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--share", type=float, default=0.85, help="of NUTS's gradients that the fit may spend")
    parser.add_argument("--path", choices=("power", "prior"), default="prior", help="p^(1/T), or from the prior")
    parser.add_argument(
        "--steps", type=int, help="training steps of the first and last fit; the default's if not given"
    )
    parser.add_argument("--draws", type=int, default=10_000, help="weighted draws, where the evaluations allow them")
    parser.add_argument("--evidence", type=Path, help="only measure SMC's log Z again, for the runs in this file")
    parser.add_argument(
        "--smc", nargs=2, type=int, default=SMC, metavar=("EVALUATIONS", "RUNS"), help="what SMC's log Z may cost"
    )
    options = parser.parse_args()
    if options.evidence:
        remeasure(options.evidence, options.names, options.smc)
        return
    runs = {name: [one(name, seed, options) for seed in options.seeds] for name in options.names}
    finish(options, runs, share=options.share, path=options.path)


if __name__ == "__main__":
    main()
