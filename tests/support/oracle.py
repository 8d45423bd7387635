"""Denoisers that are known exactly: they stand in for the network, so that everything behind it is tested untrained.

For a Gaussian every step of the method has a closed form. A tempered mixture is not a mixture of tempered parts; its
denoiser comes from quadrature.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["GaussianDenoiser", "OracleNetwork", "QuadratureDenoiser", "quadrature_denoiser"]


class GaussianDenoiser(eqx.Module):
    """E[x0 | x] for x0 from N(m, C)^(1/T), which is N(m, T C): m + T C (T C + sigma^2 I)^-1 (x - m).

    Args:
        mean: m, shape (dim,).
        covariance: C, shape (dim, dim), at T = 1.
        temperature: T; an array leaf, so that levels share one compilation.
    """

    mean: jax.Array
    axes: jax.Array
    variances: jax.Array
    temperature: jax.Array

    def __init__(self, mean, covariance, temperature=1.0):
        variances, axes = np.linalg.eigh(np.asarray(covariance, np.float64))
        self.mean = jnp.asarray(np.asarray(mean), jnp.float32)
        self.axes = jnp.asarray(axes, jnp.float32)
        self.variances = jnp.asarray(variances, jnp.float32)
        self.temperature = jnp.asarray(temperature, jnp.float32)

    def __call__(self, x_noisy, sigma):
        """The exact denoiser of one point."""
        variances = self.temperature * self.variances
        centred = jnp.matmul(self.axes.T, x_noisy - self.mean, precision="highest")
        return self.mean + jnp.matmul(self.axes, variances / (variances + sigma**2) * centred, precision="highest")

    def covariance_at(self, sigma: float) -> np.ndarray:
        """T C + sigma^2 I in float64: the covariance of the noised density."""
        return self._with_eigenvalues(self._variances() + sigma**2)

    def flow_map(self, sigma_from: float, sigma_to: float) -> np.ndarray:
        """The matrix A of the exact probability flow, x(to) = m + A (x(from) - m), in float64."""
        ratio = (self._variances() + sigma_to**2) / (self._variances() + sigma_from**2)
        return self._with_eigenvalues(np.sqrt(ratio))

    def _variances(self) -> np.ndarray:
        return float(self.temperature) * np.asarray(self.variances, np.float64)

    def _with_eigenvalues(self, values: np.ndarray) -> np.ndarray:
        axes = np.asarray(self.axes, np.float64)
        return (axes * values) @ axes.T


class OracleNetwork(eqx.Module):
    """The network that makes a `Denoiser` of given scales into an oracle: preconditioning is undone.

    A Gaussian oracle takes the temperature that the network is told; any other oracle stays as it is.
    """

    oracle: eqx.Module
    location: jax.Array
    sigma_data: jax.Array

    def __call__(self, x, c_noise, c_temperature):
        """The raw output for one preconditioned point."""
        sigma = jnp.exp(4.0 * c_noise)
        total = sigma**2 + self.sigma_data**2
        centred = x * jnp.sqrt(total)
        oracle = self.oracle
        if isinstance(oracle, GaussianDenoiser):
            oracle = eqx.tree_at(lambda tree: tree.temperature, oracle, jnp.exp(2.0 * c_temperature))
        left = oracle(self.location + centred, sigma) - self.location - self.sigma_data**2 / total * centred
        return left * jnp.sqrt(total) / (sigma * self.sigma_data)


class QuadratureDenoiser(eqx.Module):
    """E[x0 | x] = sum_i x_i w_i(x), w_i proportional to p(x_i)^(1/T) exp(-|x - x_i|^2 / (2 sigma^2)), on a lattice.

    Right to rounding wherever the lattice is finer than the posterior: sigma, or the mode, above one spacing.
    """

    nodes: jax.Array
    log_mass: jax.Array

    def log_posterior(self, x_noisy, sigma):
        """log w_i, normalised."""
        square = jnp.sum((x_noisy[None] - self.nodes) ** 2, axis=1)
        return jax.nn.log_softmax(self.log_mass - 0.5 * square / sigma**2)

    def __call__(self, x_noisy, sigma):
        """The denoiser of one point."""
        return jnp.matmul(jnp.exp(self.log_posterior(x_noisy, sigma)), self.nodes, precision="highest")


def quadrature_denoiser(target, temperature: float, *, low, high, num: int) -> QuadratureDenoiser:
    """The denoiser of `target` tempered to `temperature` in 1-D or 2-D.

    Args:
        low, high: corners of the box, one number for each coordinate; what lies outside is taken as 0.
        num: nodes along every axis.
    """
    lattice = [np.linspace(a, b, num) for a, b in zip(low, high, strict=True)]
    nodes = np.stack(np.meshgrid(*lattice, indexing="ij"), axis=-1).reshape(-1, len(lattice))
    points = jnp.asarray(nodes, jnp.float32)
    return QuadratureDenoiser(points, jax.jit(jax.vmap(target.log_density))(points) / temperature)
