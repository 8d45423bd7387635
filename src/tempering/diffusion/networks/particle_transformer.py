"""An equivariant transformer on particles whose attention sees the distances of pairs.

Consumes the inner coordinates of a centred configuration, scaled to unit spread, with their scale; produces inner
coordinates. Turning, reflecting or relabelling the particles does the same to the output. Assumes one scale for all
coordinates. Nothing here has an axis of width beside two axes of particles: pairs carry 38 features at most, so a pair
costs a fraction of what it costs in a message-passing network (`egnn.py`).

The atoms of a molecule have states of their own and are not relabelled; near pairs have weights of their own, so that
every bond can have its length. With `is_chiral` mirror images are told apart (`handedness.py`).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from tempering.diffusion.networks.embedding import Embedding
from tempering.diffusion.networks.handedness import Handedness
from tempering.diffusion.networks.linear import Linear
from tempering.diffusion.networks.pairs import RadialFeatures, along, differences, lengths, pull
from tempering.diffusion.networks.topology import Topology, topology_of
from tempering.settings import Network
from tempering.transforms.centred import Centred
from tempering.types import Array, Float, Key

__all__ = ["ParticleTransformer"]

_HEAD_SIZE = 16
_EXPANSION = 4  # of the node-wise layers (Vaswani et al. 2017)
_NUM_CENTRES = 32
_CHANNELS = 4
"""Weights of a pair in coordinate updates: unit and difference vector, for the geometry and for the output."""


def _normalised(hidden: Float[Array, "particle width"]) -> Float[Array, "particle width"]:
    centred = hidden - jnp.mean(hidden, axis=1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, axis=1, keepdims=True) + 1e-5)


def _contract(spec: str, left: Array, right: Array, is_half: bool) -> Array:
    """An einsum; with `is_half` in bfloat16, given back as float32."""
    if not is_half:
        return jnp.einsum(spec, left, right)
    return jnp.einsum(spec, left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)).astype(left.dtype)


class _Block(eqx.Module):
    """Attention with a bias from the pairs, a node-wise layer, and a move of the coordinates.

    Shifts, scales and gates come from noise and temperature and start at zero, so the block starts as the identity
    (Peebles & Xie 2023). So does what noise and temperature change about the weights of pair features.

    In a molecule every kind of near pair, such as one bond, adds weights of its own, times a factor for each channel
    that noise and temperature set: the attention bias of a bond, and forces with its own length and stiffness.
    """

    modulation: Linear
    queries: Linear
    mixed: Linear
    inner: Linear
    outer: Linear
    movers: Linear
    pair_weight: Float[Array, "*model feature channel"]
    pair_modulation: Linear
    near_weight: Float[Array, "*model pair_kind feature channel"] | None
    near_modulation: Linear | None
    num_heads: int = eqx.field(static=True)
    is_half: bool = eqx.field(static=True)

    def __init__(self, key: Key, width: int, num_pair_features: int, is_half: bool, topology: Topology | None):
        keys = jax.random.split(key, 8)
        self.num_heads = max(1, width // _HEAD_SIZE)
        self.is_half = is_half
        inside = self.num_heads * (width // self.num_heads)
        self.modulation = Linear(width, 6 * width, key=keys[0]).zeroed()
        self.queries = Linear(width, 3 * inside, key=keys[1])
        self.mixed = Linear(inside, width, key=keys[2])
        self.inner = Linear(width, _EXPANSION * width, key=keys[3])
        self.outer = Linear(_EXPANSION * width, width, key=keys[4])
        self.movers = Linear(width, 2 * _CHANNELS * _HEAD_SIZE, key=keys[5])
        bias = jax.random.normal(keys[6], (num_pair_features, self.num_heads)) * num_pair_features**-0.5
        # Coordinates start unmoved.
        self.pair_weight = jnp.concatenate([bias, jnp.zeros((num_pair_features, 2 * _CHANNELS))], axis=1)
        self.pair_modulation = Linear(width, self.pair_weight.size, key=keys[7]).zeroed()
        self.near_weight = self.near_modulation = None
        if topology is not None and topology.num_pair_kinds:
            self.near_weight = jnp.zeros((topology.num_pair_kinds, *self.pair_weight.shape))
            key_near = jax.random.fold_in(key, len(keys))
            self.near_modulation = Linear(width, self.pair_weight.shape[1], key=key_near).zeroed()

    def __call__(
        self,
        hidden: Float[Array, "particle width"],
        condition: Float[Array, " width"],
        difference: Float[Array, "xyz particle particle"],
        length: Float[Array, "particle particle"],
        features: Float[Array, "feature particle particle"],
        topology: Topology | None,
    ) -> tuple[Float[Array, "particle width"], Float[Array, "xyz particle"], Float[Array, "xyz particle"]]:
        """The new states, a move of the geometry and a share of the output."""
        modulation = jnp.split(self.modulation(condition)[None], 6, axis=1)
        shift, scale, gate, shift_inner, scale_inner, gate_inner = modulation
        weight = self.pair_weight + self.pair_modulation(condition).reshape(self.pair_weight.shape)
        from_pairs = _contract("fij,fc->cij", features, weight, self.is_half)
        if topology is not None and self.near_weight is not None and self.near_modulation is not None:
            far = jnp.zeros((1, *self.near_weight.shape[1:]))
            own = jnp.concatenate([far, self.near_weight])[topology.pair_kinds]
            factor = 1.0 + self.near_modulation(condition)[:, None, None]
            from_pairs = from_pairs + factor * _contract("fij,ijfc->cij", features, own, self.is_half)
        bias, slope, offset = jnp.split(from_pairs, [self.num_heads, self.num_heads + _CHANNELS])
        attended = self._attend(_normalised(hidden) * (1.0 + scale) + shift, bias)
        hidden = hidden + gate * attended
        inner = along(self.inner, _normalised(hidden) * (1.0 + scale_inner) + shift_inner, self.is_half)
        hidden = hidden + gate_inner * along(self.outer, jax.nn.silu(inner), self.is_half)
        move, share = self._pull(hidden, slope, offset, difference, length)
        return hidden, move, share

    def _attend(
        self, hidden: Float[Array, "particle width"], bias: Float[Array, "head particle particle"]
    ) -> Float[Array, "particle width"]:
        num = hidden.shape[0]
        heads = along(self.queries, hidden, self.is_half).reshape(num, 3, self.num_heads, -1)
        query, key, value = (heads[:, part] for part in range(3))
        logits = _contract("ihr,jhr->hij", query, key, self.is_half) * query.shape[-1] ** -0.5 + bias
        mixed = _contract("hij,jhr->ihr", jax.nn.softmax(logits, axis=2), value, self.is_half)
        return along(self.mixed, mixed.reshape(num, -1), self.is_half)

    def _pull(
        self,
        hidden: Float[Array, "particle width"],
        slope: Float[Array, "channel particle particle"],
        offset: Float[Array, "channel particle particle"],
        difference: Float[Array, "xyz particle particle"],
        length: Float[Array, "particle particle"],
    ) -> tuple[Float[Array, "xyz particle"], Float[Array, "xyz particle"]]:
        """Pair weights (q_i k_j) slope_ij + offset_ij, on unit and difference vectors."""
        num = hidden.shape[0]
        ends = along(self.movers, _normalised(hidden), self.is_half).reshape(num, 2, _CHANNELS, _HEAD_SIZE)
        agreement = _contract("icr,jcr->cij", ends[:, 0], ends[:, 1], self.is_half) * _HEAD_SIZE**-0.5
        weights = agreement * slope + offset
        near, far = (num - 1) ** -0.5, 1.0 / (num - 1)
        move = pull(near * weights[0] / length + far * weights[1], difference)
        share = pull(near * weights[2] / length + far * weights[3], difference)
        return move, share


class ParticleTransformer(eqx.Module):
    """States from sums of radial features over neighbours, then `depth` blocks, each of which adds to the output.

    Between blocks the geometry moves by weighted sums of unit and difference vectors, in units of the noise, and all
    distances are taken again. Moves and output start at zero: the best linear denoiser.
    """

    embedding: Embedding
    radial: RadialFeatures
    condition: Linear
    entry: Linear
    blocks: tuple[_Block, ...]
    identity: Float[Array, "*model kind width"] | None
    hands: tuple[Handedness, ...]
    geometry: Centred
    topology: Topology | None = eqx.field(static=True)

    def __init__(self, key: Key, geometry: Centred, network: Network, *, unit: float = 1.0, is_half: bool = False):
        """Freshly initialised.

        Args:
            unit: the length of physical distances, such as the distance of two particles in contact; resolved are 0.3
                to 10 of them.
            is_half: take matrix products in bfloat16; coordinates, distances and sums stay in float32.
        """
        self.geometry = geometry
        self.embedding = Embedding(network.is_shared)
        self.radial = RadialFeatures(_NUM_CENTRES, unit)
        key_condition, key_entry, *keys = jax.random.split(key, 2 + network.depth)
        self.condition = Linear(self.embedding.size, network.width, key=key_condition)
        self.entry = Linear(self.radial.size, network.width, key=key_entry)
        self.topology = topology_of(network)
        width, size = network.width, self.radial.size
        self.blocks = tuple(_Block(block_key, width, size, is_half, self.topology) for block_key in keys)
        self.identity, self.hands = None, ()
        if self.topology is not None:
            shape = (self.topology.num_kinds, width)
            self.identity = jax.random.normal(jax.random.fold_in(key_entry, 1), shape)
            if network.is_chiral:
                num = len(self.topology.tetrahedra)
                self.hands = tuple(Handedness(jax.random.fold_in(block_key, 9), num, width) for block_key in keys)

    def __call__(
        self,
        x: Float[Array, " dim"],
        c_noise: Float[Array, ""],
        c_temperature: Float[Array, ""],
        c_in: Float[Array, ""],
    ) -> Float[Array, " dim"]:
        """The raw network output of one configuration."""
        num, axes = self.geometry.num_particles, self.geometry.spatial_dim
        place = self.geometry.embed(x).reshape(num, axes).T
        condition = jax.nn.silu(self.condition(self.embedding(c_noise, c_temperature)))
        noise = jnp.exp(4.0 * c_noise) * c_in  # sigma in scaled coordinates, at most 1
        output = jnp.zeros_like(place)
        pairs = self._pairs(place, c_in)
        neighbours = jnp.sum(pairs[-1], axis=2).T * (num - 1) ** -0.5
        hidden = along(self.entry, neighbours) + condition[None]
        if self.topology is not None and self.identity is not None:
            hidden = hidden + self.identity[self.topology.kinds]
        for depth, block in enumerate(self.blocks):
            if self.topology is not None and self.hands:
                hidden, turn, turned = self.hands[depth](hidden, condition, place, self.topology.tetrahedra)
            else:
                turn = turned = jnp.zeros_like(place)
            hidden, move, share = block(hidden, condition, *pairs, self.topology)
            place, output = place + noise * (move + turn), output + (share + turned)
            pairs = self._pairs(place, c_in)
        return self.geometry.restrict(output.T.reshape(-1))

    def _pairs(
        self, place: Float[Array, "xyz particle"], c_in: Float[Array, ""]
    ) -> tuple[
        Float[Array, "xyz particle particle"],
        Float[Array, "particle particle"],
        Float[Array, "feature particle particle"],
    ]:
        """Differences, distances and radial features of all pairs."""
        difference = differences(place)
        length = lengths(difference)
        return difference, length, self.radial(length, c_in)
