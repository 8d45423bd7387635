"""What a baseline may ask of a target, refused in words before anything is spent."""

from tempering.errors import SettingsError
from tempering.targets.base import Target
from tempering.targets.cost import has_gradient, is_black_box

__all__ = ["refuse_particles", "require_gradient", "require_jax"]


def require_gradient(title: str, target: Target) -> None:
    """Refuse a density without a gradient."""
    if not has_gradient(target):
        raise SettingsError(
            f"{title} needs the gradient of the density, and this one has none; give it one, such as "
            "tp.from_callable(fn, dim, gradient='finite'), or take a method without gradients: 'ptsd', 'bnem', or "
            "'fab' with kernel='random_walk'"
        )


def require_jax(title: str, target: Target) -> None:
    """Refuse a density that JAX cannot differentiate twice."""
    if is_black_box(target):
        raise SettingsError(
            f"{title} differentiates the gradient of the density, and this one calls a program that JAX cannot look "
            "into; write the density in JAX, or take another method, such as 'ptsd' or 'fab'"
        )


def refuse_particles(title: str, target: Target) -> None:
    """Refuse particles where the method has no network that keeps their symmetries."""
    if target.geometry is not None:
        raise SettingsError(
            f"{title} has no equivariant network here, and the density is one of particles; take 'idem' or 'bnem', "
            "which have one, or 'ptsd'"
        )
