"""Networks F(x, c_noise, c_temperature) -> (dim,) that a denoiser preconditions. Unbatched."""

from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.mlp import MLP
from tempering.diffusion.networks.residual import ResidualMLP
from tempering.settings import Network
from tempering.types import Key

__all__ = ["MLP", "Embedding", "ResidualMLP", "make_network"]


def make_network(key: Key, dim: int, network: Network) -> MLP | ResidualMLP:
    """The network of the settings, freshly initialised."""
    kinds = {"mlp": MLP, "residual": ResidualMLP}
    return kinds[network.kind](key, dim, network)
