"""What quasi-random weighted draws, and points made of them, are worth: how much less means over them vary.

    python benchmarks/quasi_draws.py RUN [RUN ...] [--draws 2048] [--rounds 16] [--out results/quasi-draws.json]

RUN is a folder with a finished run of a target without symmetries. In every round both kinds are drawn with weights,
and estimate log Z, the mean of every coordinate and the mean energy; and the same means over half as many equally
weighted points: of independent draws by independent picks, of quasi-random ones by `tp.resample`. A ratio of variances
of 4 says that four times as many independent draws, and evaluations, would be needed.

`--figure docs/figures/even-points.png` shows 1,000 independent draws of the first run, of a mixture in the plane, and
as many points of `sample_even`, with how many of either fall to every mode.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measure import finish, parser

import tempering as tp
from tempering.compilation import keep_programs
from tempering.runs.folder import RunFolder


def estimates(sampler, log_densities, num: int, seed: int, *, is_quasi_random: bool) -> dict[str, np.ndarray]:
    """What one set of weighted draws says."""
    draws, log_weights = sampler.sample_weighted(num, seed=seed, is_quasi_random=is_quasi_random)
    log_weights = log_weights.astype(np.float64)
    weights = np.exp(log_weights - np.max(log_weights))
    share = weights / np.sum(weights)
    log_density = np.asarray(log_densities(jnp.asarray(draws)), np.float64)
    table = np.concatenate([draws, -log_density[:, None]], axis=1, dtype=np.float64)
    if is_quasi_random:
        picked = tp.resample(draws, log_weights, num // 2, seed=seed)
        points = np.concatenate([picked, -np.asarray(log_densities(jnp.asarray(picked)))[:, None]], axis=1)
    else:
        points = np.random.default_rng(seed).choice(table, size=num // 2, p=share)
    means, means_of_points = share @ table, np.asarray(np.mean(points, axis=0, dtype=np.float64))
    return {
        "log_z": np.atleast_1d(np.log(np.mean(weights)) + np.max(log_weights)),
        "mean": means[:-1],
        "energy": means[-1:],
        "mean_of_points": means_of_points[:-1],
        "energy_of_points": means_of_points[-1:],
    }


def compare(folder: Path, num: int, num_rounds: int) -> dict:
    """Standard deviations over rounds of both kinds, and the ratio of variances; of means over all coordinates."""
    sampler = tp.load(folder)
    log_densities = jax.jit(jax.vmap(sampler.target.log_density))
    kinds = {"independent": False, "quasi_random": True}
    rounds = {
        kind: [estimates(sampler, log_densities, num, seed, is_quasi_random=flag) for seed in range(num_rounds)]
        for kind, flag in kinds.items()
    }
    config = RunFolder.read_config(folder)
    row: dict = {"preset": config.name, "seed": config.seed, "dim": sampler.dim, "ess_fraction": sampler.ess_fraction}
    for name in rounds["independent"][0]:
        variance = {
            kind: float(np.mean(np.var([one[name] for one in many], axis=0, ddof=1))) for kind, many in rounds.items()
        }
        row[name] = {f"sd_{kind}": value**0.5 for kind, value in variance.items()}
        row[name]["ratio_of_variances"] = variance["independent"] / variance["quasi_random"]
    return row


def picture(folder: Path, num: int = 1_000) -> bytes:
    """Independent draws and even points of one sampler side by side, and below how many each mode has."""
    from tempering.lab.metrics import estimated_region_weights
    from tempering.plots.style import png_of, render

    sampler = tp.load(folder)
    kinds = {"independent draws": sampler.sample(num, seed=0), "sample_even": sampler.sample_even(num, seed=0)}
    exact = num * np.asarray(sampler.target.region_weights())

    def fill(figure) -> None:
        grid = figure.add_gridspec(2, 2, height_ratios=(3, 1))
        for column, (kind, points) in enumerate(kinds.items()):
            plane, bars = (figure.add_subplot(grid[row, column]) for row in range(2))
            plane.scatter(*points.T, s=2.0, color="#1f5a8a", linewidths=0)
            plane.set_aspect("equal")
            plane.set_axis_off()
            plane.set_title(f"{num:,} points: {kind}", loc="left", fontsize=10)
            counts = num * np.asarray(estimated_region_weights(sampler.target, jnp.asarray(points)))
            bars.bar(np.arange(counts.size), counts, width=0.8, color="#1f5a8a")
            edges = np.arange(counts.size + 1) - 0.5
            bars.step(edges, [*exact, exact[-1]], where="post", color="#c8102e", linewidth=1.2)
            bars.set_ylim(0.0, 1.8 * np.max(exact))
            bars.set_xticks([])
            bars.set_title("points by mode; in red what is right", loc="left", fontsize=9)

    return png_of(render(8.0, 6.0, fill))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("runs", type=Path, nargs="+")
    made.add_argument("--draws", type=int, default=2_048)
    made.add_argument("--rounds", type=int, default=16)
    made.add_argument("--figure", type=Path)
    options = made.parse_args()
    if options.quick:
        options.draws, options.rounds = 64, 3
    keep_programs()
    if options.figure:
        options.figure.write_bytes(picture(options.runs[0]))
    rows = []
    for folder in options.runs:
        rows.append(compare(folder, options.draws, options.rounds))
        print(rows[-1], flush=True)
        finish(options, {"runs": rows}, draws=options.draws, rounds=options.rounds)


if __name__ == "__main__":
    main()
