"""The other side of `bench_torch.py`: the same denoiser, training step and guided flow by hand in eager PyTorch.

Nothing is done here that the library leaves out. Where the two differ PyTorch has the lighter work: no check for
non-finite gradients, no blend with the target score, no key of its own for every sample, no compensated sum.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from tempering.diffusion.fit import CLIP_NORM, EMA_DECAY, WARMUP_STEPS

__all__ = ["EagerDenoiser", "EagerTraining", "guided", "guided_draw", "guided_flow", "step_by_jvp", "step_by_vjp"]


class EagerDenoiser(torch.nn.Module):
    """EDM preconditioning around an MLP on the point and the features of the noise level, with given weights."""

    def __init__(
        self,
        layers: Sequence[tuple[np.ndarray, np.ndarray]],
        frequencies: np.ndarray,
        location: np.ndarray,
        sigma_data: np.ndarray,
    ):
        super().__init__()
        self.layers = torch.nn.ModuleList()
        for weight, bias in layers:
            layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
            with torch.no_grad():
                layer.weight.copy_(torch.tensor(weight))
                layer.bias.copy_(torch.tensor(bias))
            self.layers.append(layer)
        for name, values in (("frequencies", frequencies), ("location", location), ("sigma_data", sigma_data)):
            self.register_buffer(name, torch.tensor(values))

    def output_scale(self, sigma: torch.Tensor) -> torch.Tensor:
        return sigma * self.sigma_data * torch.rsqrt(sigma**2 + self.sigma_data**2)

    def forward(self, x_noisy: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        """E[x0 | x_noisy] for x_noisy of shape (batch, dim) and sigma of shape (batch, 1) or (1, 1)."""
        total = sigma**2 + self.sigma_data**2
        c_noise = torch.log(sigma) / 4.0
        phase = c_noise * self.frequencies
        features = torch.cat([c_noise, torch.sin(phase), torch.cos(phase)], dim=1).expand(x_noisy.shape[0], -1)
        centred = x_noisy - self.location
        hidden = torch.cat([centred * torch.rsqrt(total), features], dim=1)
        for layer in self.layers[:-1]:
            hidden = torch.nn.functional.silu(layer(hidden))
        raw = self.layers[-1](hidden)
        return self.location + self.sigma_data**2 / total * centred + self.output_scale(sigma) * raw


class EagerTraining:
    """Adam with clipped gradients, warm-up and cosine, and averaged weights; new indices and noise at every step."""

    def __init__(self, denoiser: EagerDenoiser, position: torch.Tensor, sigmas: tuple[float, float], training):
        self.denoiser, self.position, self.training = denoiser, position, training
        self.log_low, self.log_high = math.log(sigmas[0]), math.log(sigmas[1])
        self.params = list(denoiser.parameters())
        self.average = [param.detach().clone() for param in self.params]
        self.optimiser = torch.optim.Adam(self.params, lr=training.learning_rate)
        self.step = 0

    def _one(self) -> torch.Tensor:
        training, device = self.training, self.position.device
        indices = torch.randint(self.position.shape[0], (training.batch_size,), device=device)
        x = self.position[indices]
        log_sigma = torch.empty(training.batch_size, 1, device=device).uniform_(self.log_low, self.log_high)
        sigma = torch.exp(log_sigma)
        denoised = self.denoiser(x + sigma * torch.randn_like(x), sigma)
        loss = torch.mean(((denoised - x) / self.denoiser.output_scale(sigma)) ** 2)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, CLIP_NORM)
        warm = min(1.0, (self.step + 1) / WARMUP_STEPS)
        cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, self.step / training.num_steps)))
        self.optimiser.param_groups[0]["lr"] = training.learning_rate * warm * (0.99 * cosine + 0.01)
        self.optimiser.step()
        decay = min(EMA_DECAY, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(self.average, self.params, 1.0 - decay)  # one call for all, the quickest there is
        self.step += 1
        return loss.detach()

    def block(self, num_steps: int) -> float:
        """Mean loss of some steps; reading it waits for them."""
        total = torch.zeros((), device=self.position.device)
        for _ in range(num_steps):
            total = total + self._one()
        return float(total) / num_steps


def guided(cold: EagerDenoiser, hot: EagerDenoiser, weight: float) -> Callable:
    """(1 + w) D_cold - w D_hot."""

    def denoise(x: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
        low, high = cold(x, sigma), hot(x, sigma)
        return low + weight * (low - high)

    return denoise


def _log_det(product: Callable, probe: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log |det J| from two products with J and the mean eigenvalue, as `tempering.diffusion.divergence` has them."""
    pushed = product(probe)
    once = pushed / scale - probe
    twice = product(once) / scale - once
    series = torch.sum(probe * (once - twice / 2.0) + once * twice / 3.0 - twice * twice / 4.0, dim=1)
    dim = probe.shape[1]
    mean = torch.sum(probe * pushed, dim=1, keepdim=True) / dim
    return dim * torch.log(scale[:, 0]) + series, torch.clamp(mean, 0.1, 10.0)


def step_by_jvp(step: Callable, x: torch.Tensor, probe: torch.Tensor, scale: torch.Tensor):
    """The points after a step, its log determinant and the next guess of the scale, in forward mode.

    Eager forward mode has no linearisation to reuse: the second product computes the step once more.
    """
    moved = []

    def product(vector: torch.Tensor) -> torch.Tensor:
        value, pushed = torch.func.jvp(step, (x,), (vector,))
        moved.append(value)
        return pushed

    with torch.no_grad():
        log_det, scale = _log_det(product, probe, scale)
    return moved[0], log_det, scale


def step_by_vjp(step: Callable, x: torch.Tensor, probe: torch.Tensor, scale: torch.Tensor):
    """The same in reverse mode, which eager PyTorch users write most often; equal where the Jacobian is symmetric."""
    points = x.detach().requires_grad_(True)
    with torch.enable_grad():
        moved = step(points)

    def product(vector: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(moved, points, vector, retain_graph=True)[0]

    log_det, scale = _log_det(product, probe, scale)
    return moved.detach(), log_det, scale


def guided_flow(denoise: Callable, x: torch.Tensor, sigmas: torch.Tensor, step_fn: Callable, probe_fn: Callable):
    """Euler along the nodes: the points at the last one and how much their log density grew."""
    gain = torch.zeros(x.shape[0], device=x.device)
    scale = torch.ones(x.shape[0], 1, device=x.device)
    nodes = sigmas.reshape(-1, 1, 1)
    for index in range(len(nodes) - 1):
        sigma, sigma_next = nodes[index], nodes[index + 1]

        def step(x: torch.Tensor, sigma=sigma, sigma_next=sigma_next) -> torch.Tensor:
            return x + (sigma_next - sigma) * (x - denoise(x, sigma)) / sigma

        x, log_det, scale = step_fn(step, x, probe_fn(index, x), scale)
        gain = gain - log_det
    return x, gain


def guided_draw(denoise: Callable, num: int, std: torch.Tensor, sigmas: torch.Tensor, step_fn: Callable):
    """Samples from N(0, std^2) carried along the nodes, with log densities by one Rademacher probe a step."""
    noise = torch.randn(num, std.shape[0], device=std.device)
    log_prior = torch.sum(-0.5 * noise**2 - torch.log(std) - 0.5 * math.log(2 * math.pi), dim=1)

    def rademacher(index: int, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * torch.randint(2, x.shape, device=x.device).to(x.dtype) - 1.0

    x, gain = guided_flow(denoise, std * noise, sigmas, step_fn, rademacher)
    return x, log_prior + gain
