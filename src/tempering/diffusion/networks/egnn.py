"""The paper's network for particles: an E(n)-equivariant graph network on all pairs (Satorras et al. 2021).

Consumes the inner coordinates of a centred configuration, scaled to unit spread; produces inner coordinates. Turning,
reflecting or relabelling the particles does the same to the output. Assumes one scale for all coordinates. The atoms
of a molecule have states and bonds of their own, and are not relabelled.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.linear import Linear
from tempering.diffusion.networks.pairs import along, differences, lengths, off_diagonal, pull
from tempering.diffusion.networks.topology import Topology, topology_of
from tempering.settings import Network
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, Key

__all__ = ["EGNN"]


class _Layer(eqx.Module):
    """m_ij = phi_e(h_i, h_j, d_ij^2, d0_ij^2), e_ij = sigmoid(w m_ij), and from them new coordinates and states.

        x_i <- x_i + sum_j phi_x(m_ij) (x_i - x_j) / (d_ij + 1)
        h_i <- h_i + phi_h(h_i, sum_j e_ij m_ij)

    The first layer of phi_e is linear in what it is given: W1 h_i + W2 h_j + w3 d_ij^2 + w4 d0_ij^2 + b, with d0 the
    distance at entry. So its products are over particles and no tensor of concatenated pairs is built. phi_x is
    linear, because m_ij has gone through two layers already. One product of full width over pairs is left, where the
    concatenating form has four. Both sums over j are divided by sqrt(n - 1). In a molecule a learned vector for what
    joins i and j (a bond, two, three, nothing near) is added before phi_e.

    With `is_half` all arrays of pairs that are `width` wide are bfloat16: they are what a GPU spends its time on.
    Distances, moves, gates and states stay float32.
    """

    receiver: Linear
    sender: Linear
    radial: Float[Array, "*model feature width"]
    message: Linear
    heads: Linear
    own: Linear
    gathered: Linear
    update: Linear
    relations: Float[Array, "*model relation width"] | None
    is_half: bool = eqx.field(static=True)

    def __init__(self, key: Key, width: int, is_half: bool, topology: Topology | None):
        self.is_half = is_half
        keys = jax.random.split(key, 8)
        self.receiver, self.sender, self.message, self.own, self.gathered, self.update = (
            Linear(width, width, key=key) for key in keys[:6]
        )
        self.radial = jax.random.uniform(keys[6], (2, width), minval=-1.0, maxval=1.0) * width**-0.5
        heads = Linear(width, 2, key=keys[7])
        # The gate starts at random, the move at zero.
        started = (heads.weight.at[:, 1].set(0.0), heads.bias.at[1].set(0.0))
        self.heads = eqx.tree_at(lambda layer: (layer.weight, layer.bias), heads, started)
        self.relations = None
        if topology is not None:
            shape = (topology.num_relations, width)
            self.relations = jax.random.normal(jax.random.fold_in(key, len(keys)), shape) * width**-0.5

    def __call__(
        self,
        hidden: Float[Array, "particle width"],
        x: Float[Array, "xyz particle"],
        squared_at_entry: Float[Array, "particle particle"],
        topology: Topology | None,
    ) -> tuple[Float[Array, "particle width"], Float[Array, "xyz particle"]]:
        """The states and coordinates after this layer."""
        num = hidden.shape[0]
        difference = differences(x)
        length = lengths(difference)
        nodes = along(self.receiver, hidden)[:, None] + along(self.sender, hidden)[None]
        radial = self.radial[:, None, None]
        edges = nodes + (length**2)[..., None] * radial[0] + squared_at_entry[..., None] * radial[1]
        if topology is not None and self.relations is not None:
            edges = edges + self.relations[topology.relations]
        wide = jnp.bfloat16 if self.is_half else edges.dtype
        message_layer, heads_layer = jax.tree.map(lambda leaf: leaf.astype(wide), (self.message, self.heads))
        message = jax.nn.silu(along(message_layer, jax.nn.silu(edges.astype(wide))))
        heads = along(heads_layer, message).astype(edges.dtype)
        gate = jax.nn.sigmoid(heads[..., 0]) * off_diagonal(num)
        move = heads[..., 1] / (length + 1.0)
        # Sums over n - 1 random terms: without the factor, what 55 particles say drowns what each one knows.
        scale = (num - 1) ** -0.5
        gathered = scale * jnp.einsum("ij,ijw->iw", gate.astype(wide), message).astype(edges.dtype)
        inner = along(self.own, hidden) + along(self.gathered, gathered)
        return hidden + along(self.update, jax.nn.silu(inner)), x + scale * pull(move, difference)


class EGNN(eqx.Module):
    """`depth` layers on the fully connected graph; the output is how far they have moved the particles.

    States start from the features of noise and temperature, the same for all particles; in a molecule a learned vector
    for the kind of the atom is added. All moves start at zero: the best linear denoiser.
    """

    embedding: Embedding
    entry: Linear
    layers: tuple[_Layer, ...]
    identity: Float[Array, "*model kind width"] | None
    geometry: Centred
    topology: Topology | None = eqx.field(static=True)

    def __init__(self, key: Key, geometry: Centred, network: Network, *, is_half: bool = False):
        """Freshly initialised; `is_half` as in `_Layer`."""
        self.geometry = geometry
        self.embedding = Embedding(network.is_shared)
        key_entry, *keys = jax.random.split(key, 1 + network.depth)
        self.entry = Linear(self.embedding.size, network.width, key=key_entry)
        self.topology = topology_of(network)
        self.layers = tuple(_Layer(layer_key, network.width, is_half, self.topology) for layer_key in keys)
        self.identity = None
        if self.topology is not None:
            shape = (self.topology.num_kinds, network.width)
            self.identity = jax.random.normal(jax.random.fold_in(key_entry, 1), shape)

    def __call__(
        self,
        x: Float[Array, " dim"],
        c_noise: Float[Array, ""],
        c_temperature: Float[Array, ""],
        c_in: Float[Array, ""],
    ) -> Float[Array, " dim"]:
        """The raw network output of one configuration."""
        del c_in  # distances stay in scaled coordinates
        _, moves = self.states_and_moves(x, c_noise, c_temperature)
        return self.geometry.restrict(moves.reshape(-1))

    def states_and_moves(
        self, x: Float[Array, " dim"], c_noise: Float[Array, ""], c_temperature: Float[Array, ""]
    ) -> tuple[Float[Array, "particle width"], Float[Array, "particle xyz"]]:
        """What every particle has learned, and how far it has moved. Turning x turns the moves alone."""
        num, axes = self.geometry.num_particles, self.geometry.spatial_dim
        start = self.geometry.embed(x).reshape(num, axes).T
        squared = lengths(differences(start)) ** 2
        state = self.entry(self.embedding(c_noise, c_temperature))
        hidden, moved = jnp.broadcast_to(state[None], (num, state.shape[0])), start
        if self.topology is not None and self.identity is not None:
            hidden = hidden + self.identity[self.topology.kinds]
        for layer in self.layers:
            hidden, moved = layer(hidden, moved, squared, self.topology)
        return hidden, (moved - start).T
