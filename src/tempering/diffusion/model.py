"""A denoiser with its prior and noise range: everything that draws samples and gives their densities."""

from collections.abc import Callable

import equinox as eqx
import jax

from tempering.diffusion.noise import NoiseLevels, Prior, sigma_grid
from tempering.diffusion.quasi import quasi_normal
from tempering.diffusion.solve import Method, compile_densities, compile_draws, draw, log_likelihood, method_of
from tempering.settings import Sampling
from tempering.types import Array, Denoise, Float, Int, Key

__all__ = ["DiffusionModel"]


class DiffusionModel(eqx.Module):
    """A sampler without a target: `denoise` may be a trained network, guidance between two, or an oracle."""

    denoise: Denoise
    prior: Prior
    levels: NoiseLevels

    def _method(self, sampling: Sampling, with_density: bool) -> Method:
        dim, process = self.prior.location.shape[0], self.levels.process
        return method_of(sampling, with_density=with_density, dim=dim, process=process)

    def draw(
        self,
        key: Key,
        num: int,
        sampling: Sampling,
        *,
        with_density: bool,
        is_quasi_random: bool = False,
        rows: Int[Array, " row"] | None = None,
        on_chunk: Callable[[int], None] = lambda done: None,
    ) -> tuple[Float[Array, "particle dim"], Float[Array, " particle"]]:
        """`num` samples and, if asked, their normalised log densities.

        They are independent, unless `is_quasi_random` starts them from points that cover space evenly. `rows` makes
        only these of them: to look at some again, with other densities or with any.
        """
        dim = self.prior.location.shape[0]
        return draw(
            key,
            num,
            self.denoise,
            self.prior,
            sigma_grid(self.levels, sampling.num_steps),
            self._method(sampling, with_density),
            chunk_size=sampling.chunk_size,
            normals=quasi_normal(jax.random.fold_in(key, num), num, dim) if is_quasi_random else None,
            rows=rows,
            on_chunk=on_chunk,
        )

    def compile(self, num: int, sampling: Sampling, *, with_density: bool) -> None:
        """Compile what `draw` runs for up to `num` samples, at most a chunk."""
        method = self._method(sampling, with_density)
        compile_draws(num, self.denoise, self.prior, sigma_grid(self.levels, sampling.num_steps), method)

    def compile_log_prob(self, num: int, sampling: Sampling) -> None:
        """Compile what `log_prob` runs for up to `num` points, at most a chunk."""
        method = self._method(sampling, True)
        compile_densities(num, self.denoise, self.prior, sigma_grid(self.levels, sampling.num_steps), method)

    def log_prob(
        self,
        key: Key,
        x: Float[Array, "particle dim"],
        sampling: Sampling,
        on_chunk: Callable[[int], None] = lambda done: None,
    ) -> Float[Array, " particle"]:
        """Normalised log density of given points under the probability flow."""
        return log_likelihood(
            key,
            x,
            self.denoise,
            self.prior,
            sigma_grid(self.levels, sampling.num_steps),
            self._method(sampling, True),
            chunk_size=sampling.chunk_size,
            on_chunk=on_chunk,
        )
