"""A density of one's own: six anisotropic Gaussians in twelve dimensions, with unequal weights.

    python examples/twelve_dimensions.py

Nothing is told to `tp.fit` but the function, the dimension and the budget. It ends in the weights of the modes, which
are known here, beside those among the sampler's draws.
"""

import jax
import jax.numpy as jnp
import numpy as np

import tempering as tp

DIM, BUDGET = 12, 100_000
WEIGHTS = np.array([0.30, 0.25, 0.18, 0.12, 0.09, 0.06])

_rng = np.random.default_rng(12)
MEANS = _rng.normal(0.0, 3.0, (len(WEIGHTS), DIM))
_ROTATIONS = np.stack([np.linalg.qr(_rng.normal(size=(DIM, DIM)))[0] for _ in WEIGHTS])
_STDS = np.exp(_rng.uniform(np.log(0.4), np.log(1.6), (len(WEIGHTS), DIM)))
WHITENING = _ROTATIONS / _STDS[:, None, :]  # z = (x - mean) @ whitening is standard normal within a mode


def log_parts(x):
    """log of weight times density of every component, up to one constant."""
    z = jnp.einsum("kd,kde->ke", x[None] - jnp.asarray(MEANS, x.dtype), jnp.asarray(WHITENING, x.dtype))
    log_volume = jnp.asarray(np.log(_STDS).sum(axis=1), x.dtype)
    return jnp.log(jnp.asarray(WEIGHTS, x.dtype)) - log_volume - 0.5 * jnp.sum(z**2, axis=1)


def log_density(x):
    """The unnormalised density: all that the sampler sees."""
    return jax.nn.logsumexp(log_parts(x))


def mode_weights(draws) -> np.ndarray:
    """The mean responsibility of every component."""
    return np.asarray(jax.vmap(lambda x: jax.nn.softmax(log_parts(x)))(jnp.asarray(draws)).mean(axis=0))


def main() -> None:
    """Fit, draw, compare."""
    sampler = tp.fit(log_density, dim=DIM, budget=BUDGET, seed=0)
    print(sampler.summary())
    print("mode   truth   draws")
    for mode, (truth, found) in enumerate(zip(WEIGHTS, mode_weights(sampler.sample(10_000)), strict=True)):
        print(f"{mode:4d}   {truth:.3f}   {found:.3f}")


if __name__ == "__main__":
    main()
