"""A PyTorch log density or energy as a target, through the door of black boxes: value and gradient in one pass.

PyTorch is an optional extra and is imported when asked for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tempering.adapters.callback import CallbackTarget, from_callable
from tempering.compilation import plain_jax
from tempering.errors import DensityError, SettingsError, require_extra, what_is
from tempering.settings.checks import require_flag

__all__ = ["TorchDensity", "from_torch"]


class TorchDensity:
    """The pair (log density, gradient) of a batched PyTorch function, as NumPy arrays; arguments as `from_torch`'s."""

    def __init__(self, fn: Callable[..., Any], is_energy: bool, dtype: Any, device: Any):
        self.fn, self.is_energy, self.dtype, self.device = fn, is_energy, dtype, device

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n,) and gradients (n, dim) of points (n, dim)."""
        import torch  # pyright: ignore[reportMissingImports]

        with torch.enable_grad():
            x = torch.tensor(points, dtype=self.dtype, device=self.device, requires_grad=True)
            values = self.fn(x)
            self._check(values, len(points))
            (gradients,) = torch.autograd.grad(values.sum(), x)
        sign = -1.0 if self.is_energy else 1.0
        return sign * _as_numpy(values), sign * _as_numpy(gradients)

    def _check(self, values: Any, num: int) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        if not isinstance(values, torch.Tensor):
            raise DensityError(
                f"the PyTorch function returned {what_is(values)} for {num} points; it must return a tensor of "
                f"shape ({num},)"
            )
        if tuple(values.shape) != (num,) or not values.dtype.is_floating_point:
            raise DensityError(
                f"the PyTorch function returned a tensor of shape {tuple(values.shape)} and dtype {values.dtype} for "
                f"{num} points; it must be of shape ({num},) and a floating dtype: a value for each row"
            )
        if not values.requires_grad:
            raise DensityError(
                "the PyTorch function returned a tensor without a gradient: keep to differentiable operations (no "
                ".detach(), .item(), .numpy() or torch.no_grad()), or use tp.from_callable with gradient='none'"
            )


@plain_jax()
def from_torch(
    fn: Callable[..., Any],
    dim: int,
    *,
    is_energy: bool = False,
    dtype: Any = None,
    device: Any = None,
    **host: Any,
) -> CallbackTarget:
    """Make a PyTorch log density, or an energy, a target for `tp.fit`. Needs the extra `torch`.

    Args:
        fn: a function or `torch.nn.Module` that takes (n, dim) and returns (n,). Autograd must be able to differentiate
            it. Rows must not depend on each other (no batch normalisation in training mode). One pass gives value and
            gradient, and counts once.
        dim: the dimension of a point.
        is_energy: True if it returns -log density.
        dtype, device: the dtype and device of the tensors that it gets. None takes those of the module's first
            parameter or buffer, or float64 on the CPU.
        host: `pool`, `chunk_size`, `timeout`, `on_failure` and `store`, as for `from_callable`.

    Returns:
        A target, as from `from_callable`.

    Raises:
        SettingsError: if PyTorch is not installed, or if `is_energy` or `dtype` is not allowed.
        DensityError: if `fn` is not callable. During a fit, if it returns another shape or no gradient.
    """
    require_extra("torch", "PyTorch densities")
    import torch  # pyright: ignore[reportMissingImports]

    if not callable(fn):
        raise DensityError(f"fn is {what_is(fn)}; it must be a PyTorch function or module (n, dim) -> (n,)")
    require_flag("is_energy", is_energy)
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise SettingsError(f"dtype = {dtype!r} is not allowed: it must be a floating dtype of PyTorch, or None")
    own = None
    if isinstance(fn, torch.nn.Module):
        own = next((t for t in (*fn.parameters(), *fn.buffers()) if t.dtype.is_floating_point), None)
    dtype = dtype or (torch.float64 if own is None else own.dtype)
    device = device or ("cpu" if own is None else own.device)
    density = TorchDensity(fn, is_energy, dtype, device)
    return from_callable(density, dim, gradient="returned", batched=True, **host)


def _as_numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().to("cpu").double().numpy()
