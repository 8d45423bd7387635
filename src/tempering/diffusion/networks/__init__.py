"""Networks F(x, c_noise, c_temperature) -> (dim,) that a denoiser preconditions. Unbatched.

x are coordinates times c_in = 1 / sqrt(sigma^2 + sigma_data^2), c_noise is ln(sigma) / 4, and c_temperature, ln(T) / 2,
is ignored unless the network is shared. Networks of particles take c_in as well: physical distances are those of x over
c_in.
"""

from tempering.diffusion.networks.egnn import EGNN
from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.mixture import OnMixture, blank_mixture
from tempering.diffusion.networks.mlp import MLP, ResidualMLP
from tempering.diffusion.networks.particle_transformer import ParticleTransformer
from tempering.errors import SettingsError
from tempering.settings import Network
from tempering.transforms.centred import Centred
from tempering.types import Key

__all__ = ["EGNN", "MLP", "Embedding", "OnMixture", "ParticleTransformer", "ResidualMLP", "make_network"]


def make_network(key: Key, dim: int, network: Network) -> MLP | ResidualMLP | OnMixture | EGNN | ParticleTransformer:
    """The network of the settings, freshly initialised."""
    if not network.is_of_particles:
        kinds = {"mlp": MLP, "residual": ResidualMLP}
        own, num = kinds[network.kind](key, dim, network), network.num_components
        return OnMixture(own, blank_mixture(dim, num)) if num else own
    num, axes = network.num_particles, network.spatial_dim
    if num < 2 or (num - 1) * axes != dim:
        raise SettingsError(
            f"network.kind = {network.kind!r} is for particles: network.num_particles = {num} and spatial_dim = {axes} "
            f"make {max(0, num - 1) * axes} inner coordinates where the density has {dim}; give a density with a "
            "`geometry`, such as PairPotential, or kind = 'residual'"
        )
    geometry = Centred(num, axes)
    if network.kind == "egnn":
        return EGNN(key, geometry, network, is_half=network.is_half)
    return ParticleTransformer(key, geometry, network, unit=network.unit, is_half=network.is_half)
