"""Which correction of a level's guided samples makes most of its evaluations? Many-Well-32, one step of the ladder.

    python benchmarks/corrections.py --seeds 0 1 2 --out results/corrections.json

A network is trained on exact samples of two levels and guides to a third. What follows spends the same number of target
evaluations in different ways:

- weights: one evaluation a sample, importance weights of the probability flow; also cut to an effective share of 0.2.
- path: sequential Monte Carlo along the diffusion path (`tempering.path_resampling`), exponents linear in 1/T or
  log T; as it comes, at no evaluation, and corrected by one evaluation a particle with the product of the models'
  densities.
- MALA: fewer samples, one evaluation each to start, as they come or resampled by importance weights, then K steps at
  the new temperature; the second half of the steps' states is kept. The step size is adapted at the colder known level
  on samples of it and rescaled: that would have been done before, and is not counted.

Judged by exact facts of the new level from quadrature: the largest error of a well's weight, the error of the mean
energy, and the energy TVD (200 bins) of 10,000 systematically resampled points against 10,000 exact samples.
"""

import statistics

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

from tempering.buffer import Buffer, from_states, reweighted
from tempering.diffusion import DiffusionModel, fit_networks, sigma_grid
from tempering.diffusion.calibrate import (
    dataset_of,
    denoiser_of,
    largest_sigma,
    noise_levels,
    prior_of,
    stack,
    unstack,
)
from tempering.diffusion.networks import make_network
from tempering.guidance import Guided, extrapolation_weights
from tempering.importance import weigh
from tempering.kernels import MALA, ChainState, StepSizes
from tempering.kernels.step_size import adapt, guess, rescale
from tempering.ledger import Ledger
from tempering.metrics import energy_tvd
from tempering.path_resampling import Product, draw_path
from tempering.resampling import ess_fraction, indices_by_weight, truncate_to_ess
from tempering.settings import Network, Noise, Sampling, Training
from tempering.targets import ManyWell
from tempering.targets.base import evaluate_many

STEPS = ((2.33, 1.76, 1.33), (5.8, 4.1, 3.1))
"""Hot, cold, next."""
NETWORK = Network(width=128, depth=3, coordinate_width=24, is_shared=True)
NOISE = Noise()
NUM_COMPARED = 10_000
MALA_STEPS = (3, 15)
COORDINATES = {"inverse_T": "1/T", "log_T": "log T"}
_GRID = np.linspace(-5.0, 5.0, 20_001)


def well(temperature: float) -> np.ndarray:
    """Probabilities of one well coordinate on the grid."""
    log_mass = (0.5 * _GRID + 6 * _GRID**2 - _GRID**4) / temperature
    mass = np.exp(log_mass - log_mass.max())
    return mass / mass.sum()


def exact_samples(key, num: int, temperature: float, dim: int = 32):
    """Independent samples of Many-Well at a temperature: u by its distribution function, v from N(0, T)."""
    key_u, key_v = jax.random.split(key)
    cumulative = jnp.asarray(np.cumsum(well(temperature)), jnp.float32)
    u = jnp.interp(jax.random.uniform(key_u, (num, dim // 2)), cumulative, jnp.asarray(_GRID, jnp.float32))
    v = np.sqrt(temperature) * jax.random.normal(key_v, (num, dim // 2))
    return jnp.stack([u, v], axis=-1).reshape(num, dim)


def exact_facts(temperature: float, num_wells: int = 16) -> tuple[float, float]:
    """The weight of a right-hand well and the mean energy."""
    mass = well(temperature)
    energy = -mass @ (0.5 * _GRID + 6 * _GRID**2 - _GRID**4) + 0.5 * temperature
    return float(mass[_GRID > 0].sum()), float(num_wells * energy)


def buffer_of(target, x) -> Buffer:
    return from_states(ChainState(x, *evaluate_many(target, x)), "initial_pt")


@eqx.filter_jit
def mala(key, target, states: ChainState, beta, step_size, num_steps: int, is_adapting):
    """Positions and log densities after every step, the step size at the end and the mean acceptance."""

    def one_step(carry, key):
        states, sizes = carry
        size = jnp.exp(sizes.log_step_size[0])
        move = lambda key, state: MALA().step(key, state, target, beta=beta, step_size=size)  # noqa: E731
        states, info = jax.vmap(move)(jax.random.split(key, states.log_density.shape[0]), states)
        acceptance = jnp.mean(info.acceptance_probability)
        sizes = adapt(sizes, acceptance[None], jnp.asarray(MALA().optimal_acceptance), is_adapting)
        return (states, sizes), (states.position, states.log_density, acceptance)

    keys = jax.random.split(key, num_steps)
    (_, sizes), (x, log_density, acceptance) = jax.lax.scan(one_step, (states, StepSizes.at(step_size)), keys)
    return x, log_density, jnp.exp(sizes.log_step_size), jnp.mean(acceptance)


class Case:
    """One seed of one step of the ladder, with the denoisers in place."""

    def __init__(self, target, network, hot: Buffer, cold: Buffer, temperatures, seed: int, options):
        self.target, self.temperatures = target, temperatures
        self.key = jax.random.fold_in(jax.random.key(1000 + seed), round(100 * temperatures[-1]))
        betas = [jnp.asarray(1.0 / t) for t in temperatures]
        self.beta, self.cold, sigma_max = betas[-1], cold, largest_sigma(NOISE, hot)
        levels = noise_levels(NOISE, cold, betas[1], sigma_max, colder_by=betas[2] / betas[1])
        self.prior = prior_of(NOISE, reweighted(cold, betas[1], betas[2]), sigma_max)
        self.models = tuple(
            DiffusionModel(denoiser_of(network, NOISE, buffer, beta), prior_of(NOISE, buffer, sigma_max), levels)
            for buffer, beta in ((cold, betas[1]), (hot, betas[0]))
        )
        self.guided = DiffusionModel(
            Guided(tuple(model.denoise for model in self.models), self.exponents("log_T")), self.prior, levels
        )
        self.sampling = Sampling(
            num_steps=options.ode_steps, divergence="hutchinson", num_probes=options.probes, chunk_size=1000
        )
        self.sigmas = sigma_grid(levels, options.path_steps)
        self.reference = exact_samples(jax.random.fold_in(self.key, 1), NUM_COMPARED, temperatures[-1])
        self.step_size = self._step_size()
        largest = max(options.budgets)
        self.drawn, self.log_q = self.guided.draw(
            jax.random.fold_in(self.key, 2), largest, self.sampling, with_density=True
        )

    def exponents(self, coordinate: str):
        hot, cold, new = (jnp.asarray(t) for t in self.temperatures)
        return extrapolation_weights(new, jnp.stack([cold, hot]), coordinate)

    def _step_size(self):
        """MALA's at the colder known level, for the new one; its evaluations would have been made before."""
        beta = jnp.asarray(1.0 / self.temperatures[1])
        start = self.cold.take(jnp.arange(200)).states()
        first = guess(start.log_density_grad, beta[None], 2.0)
        key = jax.random.fold_in(self.key, 3)
        _, _, step_size, _ = mala(key, self.target, start, beta, first, 60, jnp.asarray(True))
        return rescale(step_size, jnp.asarray(self.temperatures[2]), jnp.asarray(self.temperatures[1]), 2.0)

    def judge(self, x, log_weights, log_density, evaluations: int, **more) -> dict:
        """The figures of a weighted set of points."""
        weight, energy = exact_facts(self.temperatures[-1])
        shares = np.asarray(jax.nn.softmax(log_weights), np.float64)
        shares /= shares.sum()
        energies = -np.asarray(log_density, np.float64)
        indices = indices_by_weight(jax.random.fold_in(self.key, 4), log_weights, NUM_COMPARED, "systematic")
        reference = -np.asarray(evaluate_many(self.target, self.reference)[0])
        return {
            "well_error": float(np.abs(shares @ (np.asarray(x)[:, 0::2] > 0) - weight).max()),
            "energy_error": float(abs(shares @ energies - energy)),
            "energy_tvd": energy_tvd(energies[np.asarray(indices)], reference),
            "ess": float(ess_fraction(log_weights)),
            "evaluations": evaluations,
            "num_points": int(x.shape[0]),
            **more,
        }

    def unweighted(self, x, evaluations: int, **more) -> dict:
        """The energies that figures need are not the method's evaluations."""
        return self.judge(x, jnp.zeros(x.shape[0]), evaluate_many(self.target, x)[0], evaluations, **more)

    def weights(self, budget: int) -> dict[str, dict]:
        ledger = Ledger(budget)
        x, log_q = self.drawn[:budget], self.log_q[:budget]
        found = weigh(self.target, x, log_q, self.beta, ledger=ledger, stage="importance_weights")
        cut = truncate_to_ess(found.log_weights, 0.2)
        more = {"raw_ess": found.ess_fraction, "pareto_k": found.pareto_k}
        return {
            "guided, no correction": self.unweighted(x, 0),
            "weights": self.judge(x, found.log_weights, found.states.log_density, ledger.total, **more),
            "weights, cut": self.judge(x, cut, found.states.log_density, ledger.total, **more),
        }

    def path(self, budget: int, coordinate: str) -> dict[str, dict]:
        ledger, rows, start = Ledger(budget), {}, f"path in {COORDINATES[coordinate]}"
        key_draw, key_density, key_again = jax.random.split(jax.random.fold_in(self.key, 5 + budget), 3)
        product = Product(self.models, self.exponents(coordinate))
        found = draw_path(key_draw, budget, product, self.prior, self.sigmas, min_ess=0.5)
        more = {"num_resamplings": int(found.num_resamplings), "least_ess": float(jnp.min(found.ess_fractions))}
        log_density = evaluate_many(self.target, found.x)[0]
        rows[f"{start}, no correction"] = self.judge(found.x, found.log_weights, log_density, 0, **more)
        log_product = product.log_density(key_density, found.x, self.sampling)
        again = product.log_density(key_again, found.x[:200], self.sampling)
        more["probe_noise"] = float(jnp.std(log_product[:200] - again)) / np.sqrt(2.0)
        log_q = found.log_proposal(log_product)
        weighted = weigh(self.target, found.x, log_q, self.beta, ledger=ledger, stage="importance_weights")
        more |= {"raw_ess": weighted.ess_fraction, "pareto_k": weighted.pareto_k}
        for name, log_weights in (("", weighted.log_weights), (", cut", truncate_to_ess(weighted.log_weights, 0.2))):
            rows[f"{start}, corrected{name}"] = self.judge(found.x, log_weights, log_density, ledger.total, **more)
        return rows

    def chains(self, budget: int) -> dict[str, dict]:
        rows = {}
        for num_steps in MALA_STEPS:
            num = budget // (1 + num_steps)
            for is_resampled in (False, True):
                key = jax.random.fold_in(self.key, 6 + 2 * num_steps + is_resampled)
                ledger = Ledger(budget)
                x, log_q = self.drawn[:num], self.log_q[:num]
                found = weigh(self.target, x, log_q, self.beta, ledger=ledger, stage="importance_weights")
                states = found.states
                if is_resampled:
                    indices = indices_by_weight(jax.random.fold_in(key, 0), found.log_weights, num, "systematic")
                    states = jax.tree.map(lambda leaf, indices=indices: leaf[indices], states)
                ledger.spend("refinement", num * num_steps)
                x, log_density, _, acceptance = mala(
                    key, self.target, states, self.beta, self.step_size, num_steps, jnp.asarray(False)
                )
                kept = slice(num_steps // 2, None)
                x, log_density = x[kept].reshape(-1, x.shape[-1]), log_density[kept].reshape(-1)
                name = f"{'resampled' if is_resampled else 'guided'}, {num_steps} MALA steps"
                rows[name] = self.judge(
                    x, jnp.zeros(x.shape[0]), log_density, ledger.total, acceptance=float(acceptance)
                )
        return rows

    def rows(self, budget: int) -> dict[str, dict]:
        exact = exact_samples(jax.random.fold_in(self.key, 7 + budget), budget, self.temperatures[-1])
        floor = {"exact samples": self.unweighted(exact, 0)}
        paths = self.path(budget, "inverse_T") | self.path(budget, "log_T")
        return floor | self.weights(budget) | paths | self.chains(budget)


def train(target, seeds, options):
    """A network for every seed and step of the ladder, side by side; with the buffers it saw."""
    jobs, buffers, data = [(seed, step) for step in STEPS for seed in seeds], [], []
    for seed, temperatures in jobs:
        key = jax.random.fold_in(jax.random.key(seed), round(100 * temperatures[0]))
        pair = tuple(
            buffer_of(target, exact_samples(jax.random.fold_in(key, k), options.samples, temperatures[k]))
            for k in (0, 1)
        )
        betas = jnp.asarray([1.0 / t for t in temperatures[:2]])
        buffers.append(pair)
        data.append(dataset_of(NOISE, pair, betas, largest_sigma(NOISE, pair[0]), use_gradients=True))
    training = Training(num_steps=options.training_steps, batch_size=options.batch_size, patience=40)
    keys = jax.vmap(jax.random.key)(jnp.arange(len(jobs)))
    fresh = [make_network(jax.random.key(100 + seed), target.dim, NETWORK) for seed, _ in jobs]
    report = lambda step, loss: print(f"  training: step {step}, held-out loss {loss:.4f}", flush=True)  # noqa: E731
    fitted, _ = fit_networks(
        keys, stack(*fresh), stack(*data), training, num_steps=options.training_steps, on_check=report
    )
    return list(zip(jobs, unstack(fitted, len(jobs)), buffers, strict=True))


def summarise(runs: list[dict]) -> dict[str, dict]:
    """Mean and standard error over seeds of every figure."""
    summary = {}
    for name in runs[0]:
        columns = {figure: [run[name][figure] for run in runs] for figure in runs[0][name]}
        summary[name] = {
            figure: {
                "mean": statistics.fmean(values),
                "error": statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None,
            }
            for figure, values in columns.items()
        }
    return summary


def show(title: str, summary: dict[str, dict]) -> None:
    heads = "".join(f"{head:>17s}" for head in ("well error", "energy error", "energy TVD", "ESS"))
    print(f"\n{title}\n  {'':32s}{'evals':>7s}{heads}")
    for name, row in summary.items():
        cells = [
            f"{row[figure]['mean']:.3f} ± {row[figure]['error'] or 0.0:.3f}"
            for figure in ("well_error", "energy_error", "energy_tvd", "ess")
        ]
        print(f"  {name:32s}{row['evaluations']['mean']:7,.0f}" + "".join(f"{cell:>17s}" for cell in cells))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    made.add_argument("--budgets", type=int, nargs="+", default=[2000, 8000])
    made.add_argument("--samples", type=int, default=8000, help="exact samples a level to train on")
    made.add_argument("--training-steps", type=int, default=2000)
    made.add_argument("--batch-size", type=int, default=512)
    made.add_argument("--ode-steps", type=int, default=24, help="of the probability flow")
    made.add_argument("--path-steps", type=int, default=60, help="of the sequential Monte Carlo")
    made.add_argument("--probes", type=int, default=2)
    options = made.parse_args()
    if options.quick:
        options.seeds, options.budgets, options.training_steps, options.samples = [0], [320], 250, 1000
    target = ManyWell(32)
    runs: dict = {(step, budget): [] for step in STEPS for budget in options.budgets}
    for (seed, step), network, (hot, cold) in train(target, options.seeds, options):
        case = Case(target, network, hot, cold, step, seed, options)
        for budget in options.budgets:
            runs[step, budget].append(case.rows(budget))
        print(f"  seed {seed}, {step}: done", flush=True)
    figures = {}
    for (step, budget), found in runs.items():
        title = f"T = {step[0]}, {step[1]} -> {step[2]}, {budget:,} evaluations"
        figures[title] = {"summary": summarise(found), "seeds": found}
        show(title, figures[title]["summary"])
    settings = {name: value for name, value in vars(options).items() if name not in ("out", "wait", "commit", "quick")}
    finish(options, figures, **settings)


if __name__ == "__main__":
    main()
