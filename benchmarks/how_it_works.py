"""The pictures of docs/how-it-works.md, of one small run: `python benchmarks/how_it_works.py`.

PTSD along four given temperatures, without the search for modes, which would draw this density at once. One seed, a
budget of 20,000 evaluations; the numbers under the pictures go to results/how-it-works.json.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from measure import commit

import tempering as tp
from tempering.runs.storage import read_arrays

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
CENTRES = np.array([[-7.0, -3.0], [0.0, 6.0], [6.0, -5.0], [8.0, 4.0]])
WIDTHS = np.array([0.8, 1.0, 1.2, 0.7])
SHARES = np.array([0.35, 0.3, 0.2, 0.15])
WINDOW = 14.0
INK = "#274c77"


def log_density(x):
    """Four round normals of unlike width and weight, normalised."""
    squares = jnp.sum((x - CENTRES) ** 2, axis=-1) / WIDTHS**2
    return jax.nn.logsumexp(np.log(SHARES / (2 * np.pi * WIDTHS**2)) - 0.5 * squares)


def grid() -> tuple[np.ndarray, np.ndarray]:
    """A line of the window, and exact log densities on its square."""
    line = np.linspace(-WINDOW, WINDOW, 241)
    points = np.stack(np.meshgrid(line, line), axis=-1)
    squares = np.sum((points[..., None, :] - CENTRES) ** 2, axis=-1) / WIDTHS**2
    terms = np.log(SHARES / (2 * np.pi * WIDTHS**2)) - 0.5 * squares
    return line, np.logaddexp.reduce(terms, axis=-1)


def contours(axis, temperature: float) -> None:
    """Lines of the exact density at a temperature."""
    line, values = grid()
    tempered = np.exp((values - values.max()) / temperature)
    axis.contour(line, line, tempered, levels=[0.02, 0.1, 0.3, 0.6, 0.9], colors="black", linewidths=0.4, alpha=0.5)
    axis.set(xlim=(-WINDOW, WINDOW), ylim=(-WINDOW, WINDOW), aspect="equal", xticks=[], yticks=[])


def buffers(folder: Path) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Samples of every level and their weights, which sum to one; the hottest level is 0."""
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for path in sorted(folder.glob("levels/*/buffer.npz")):
        level, arrays = int(path.parent.name), read_arrays(path)
        for prefix, of_level in (("hot", level - 1), ("cold", level)):
            position = arrays.get(f"{prefix}/position")
            if position is not None and len(position):
                log_weight = arrays.get(f"{prefix}/log_weight", np.zeros(len(position)))
                weights = np.exp(log_weight - log_weight.max())
                found.setdefault(of_level, (position, weights / weights.sum()))
    return dict(sorted(found.items()))


def save(figure, name: str) -> None:
    """Write a figure of the page."""
    path = ROOT / "docs" / "figures" / name
    figure.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
    print(path.relative_to(ROOT))


def picked(position: np.ndarray, weights: np.ndarray, num: int) -> np.ndarray:
    """Some samples, by weight."""
    return position[np.random.default_rng(0).choice(len(position), num, p=weights)]


def effective(weights: np.ndarray) -> float:
    """The effective share of weights that sum to one."""
    return float(1.0 / np.sum(weights**2) / len(weights))


def levels_figure(samples, temperatures) -> None:
    """Samples by level, over the exact density of each."""
    figure, axes = plt.subplots(1, len(samples), figsize=(2.6 * len(samples), 3.0))
    for axis, (level, (position, weights)) in zip(axes, samples.items(), strict=True):
        contours(axis, temperatures[level])
        axis.scatter(*picked(position, weights, 500).T, s=4, color=INK, alpha=0.5, linewidths=0)
        axis.set_title(f"T = {temperatures[level]:.3g}", fontsize=11)
    save(figure, "how-levels.png")


def guidance_figure(samples, temperatures) -> dict[str, Any]:
    """One step down: the level above, what the model of hotter levels proposes, and the same draws by weight."""
    level = sorted(samples)[2]
    (hot, hot_weights), (cold, weights) = samples[level - 1], samples[level]
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.7))
    shown = (
        (picked(hot, hot_weights, 600), temperatures[level - 1], f"1. samples at T = {temperatures[level - 1]:.3g}"),
        (cold[:600], temperatures[level], f"2. the model's proposal for T = {temperatures[level]:.3g}"),
        (picked(cold, weights, 600), temperatures[level], f"3. the proposal by weight, T = {temperatures[level]:.3g}"),
    )
    for axis, (points, temperature, title) in zip(axes, shown, strict=True):
        contours(axis, temperature)
        axis.scatter(*points.T, s=4, color=INK, alpha=0.5, linewidths=0)
        axis.set_title(title, fontsize=11)
    save(figure, "how-guidance.png")
    return {"temperature": temperatures[level], "effective_share": effective(weights), "num_draws": len(cold)}


def weights_figure(sampler: tp.Sampler) -> dict[str, Any]:
    """Plain and weighted final draws against the exact marginal, and the weights."""
    draws, log_weights = sampler.sample_weighted(5000, seed=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    line, values = grid()
    exact = np.exp(values).sum(axis=0)
    exact /= exact.sum() * (line[1] - line[0])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.4))
    bins = np.linspace(-11, 11, 89)
    left.hist(draws[:, 0], bins, weights=weights, density=True, color=INK, alpha=0.4, label="weighted draws")
    left.hist(draws[:, 0], bins, density=True, histtype="step", color="#e07a1f", label="plain draws")
    left.plot(line, exact, color="black", lw=1, label="exact")
    left.set(xlim=(-11, 11), yticks=[], xlabel="first coordinate")
    left.legend(frameon=False)
    right.hist(weights * len(weights), np.linspace(0, 3, 61), color=INK, alpha=0.6)
    right.axvline(1.0, color="black", lw=0.8)
    right.set(yticks=[], xlabel="weight of a draw, over the mean weight")
    right.set_title(f"effective share {effective(weights):.2f}", fontsize=11)
    save(figure, "how-weights.png")
    nearest = np.argmin(np.sum((draws[:, None] - CENTRES) ** 2, axis=-1), axis=1)
    found = np.bincount(nearest, weights=weights, minlength=len(SHARES))
    return {"effective_share": effective(weights), "shares": found.tolist(), "exact_shares": SHARES.tolist()}


def main() -> None:
    """Fit, draw the pictures and write the numbers."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "results" / "how-it-works.json")
    out = options.parse_args().out
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        changes = {"atlas.share": 0.0, "training.num_steps": 2000}
        options = {"budget": 20_000, "ladder": [20.0, 8.0, 3.0, 1.0], "scale": 6.0, "settings": changes}
        sampler = tp.fit(log_density, dim=2, seed=0, out=folder, progress=False, **options)
        samples = buffers(folder)
    temperatures = {record.level: float(record.temperature) for record in sampler.levels}
    levels_figure(samples, temperatures)
    figures = {
        "temperatures": [temperatures[level] for level in samples],
        "evaluations": sampler.evaluations,
        "log_z": sampler.log_z,
        "log_z_error": sampler.log_z_error,
        "verdict": sampler.diagnose().status,
        "step": guidance_figure(samples, temperatures),
        "final": weights_figure(sampler),
    }
    record = {"command": "python benchmarks/how_it_works.py", "commit": commit(), "seed": 0, "figures": figures}
    out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
