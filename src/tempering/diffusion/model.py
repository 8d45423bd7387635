"""A denoiser with its prior and noise range: everything that draws samples and gives their densities."""

from collections.abc import Callable

import equinox as eqx

from tempering.diffusion.likelihood import log_likelihood
from tempering.diffusion.noise import NoiseLevels, Prior, sigma_grid
from tempering.diffusion.solve import draw, method_of
from tempering.settings import Sampling
from tempering.types import Array, Denoise, Float, Key

__all__ = ["DiffusionModel"]


class DiffusionModel(eqx.Module):
    """A sampler without a target: `denoise` may be a trained network, guidance between two, or an oracle."""

    denoise: Denoise
    prior: Prior
    levels: NoiseLevels

    def draw(
        self,
        key: Key,
        num: int,
        sampling: Sampling,
        *,
        with_density: bool,
        on_chunk: Callable[[int], None] = lambda done: None,
    ) -> tuple[Float[Array, "particle dim"], Float[Array, " particle"]]:
        """`num` samples and, if asked, their normalised log densities."""
        return draw(
            key,
            num,
            self.denoise,
            self.prior,
            sigma_grid(self.levels, sampling.num_steps),
            method_of(sampling, with_density=with_density),
            chunk_size=sampling.chunk_size,
            on_chunk=on_chunk,
        )

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
            method_of(sampling, with_density=True),
            chunk_size=sampling.chunk_size,
            on_chunk=on_chunk,
        )
