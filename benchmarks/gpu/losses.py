"""Losses of `gpu.py`: time, peak memory and value at 32 to 131,072 pairs, beside every other way to compute them."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import losses as of_cpu
from benchmarks.gpu.rows import Case, Figures, Options, peak_mib, seconds_of

PAIRS = (32, 256, 2048, 16_384, 131_072)
SMALL = (32, 64)
NAMES = ("NTXent", "YAwareInfoNCE", "ConditionalAlignmentUniformity", "SupCon", "SINCERE")
Loss = Callable[..., Tensor]


def cases(part: str, options: Options) -> Iterator[Case]:
    """Give the cases by size, compiled ones after the sizes that every way can have, and the largest last."""
    del part
    torch.set_default_device(options.device)  # plain expressions make their masks there
    sizes = SMALL if options.small else PAIRS
    for n_pairs in sizes[:-1]:
        yield from eager(n_pairs, options)
    yield Case("matrix products", lambda deadline: products(options, deadline))
    for name in NAMES:
        build = functools.partial(compiled, name, options.backend)
        for n_pairs in sizes[:-1]:
            yield case_of(f"{name}, compiled", build, n_pairs, options)
    yield from eager(sizes[-1], options)


def eager(n_pairs: int, options: Options) -> Iterator[Case]:
    """Give the cases of a size that no compiler is needed for, ours first."""
    for name in NAMES:
        yield case_of(f"{name}, ours", lambda name=name: ours(name, options), n_pairs, options)
    if options.inf_cl is not None:
        yield case_of("Inf-CL", lambda: inf_cl(options.inf_cl), n_pairs, options)
    for name in NAMES:
        yield case_of(f"{name}, plain", lambda name=name: plain(name), n_pairs, options)
    for name, module in of_cpu.PEERS.items():
        if importlib.util.find_spec(module):
            yield case_of(name, lambda name=name: of_cpu.peer(name), n_pairs, options)


def ours(name: str, options: Options) -> Loss:
    return of_cpu.ours(name).to(options.device)


def plain(name: str) -> Loss:
    return of_cpu.EXPRESSIONS[name]


@functools.cache
def compiled(name: str, backend: str) -> Loss:
    """Compile an expression once for all sizes; a case fails by itself where no compiler is there."""
    return torch.compile(plain(name), backend=backend, dynamic=True)


def inf_cl(path: Path | None) -> Loss:
    """Return InfoNCE by Inf-CL's kernel, whose file has a function `cal_flash_loss` of unit rows."""
    assert path is not None
    spec = importlib.util.spec_from_file_location("inf_cl_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["inf_cl_kernel"] = module
    spec.loader.exec_module(module)

    def loss(a: Tensor, b: Tensor, _: dict[str, Tensor]) -> Tensor:
        q = functional.normalize(a)
        k = functional.normalize(b)
        labels = torch.arange(len(q))
        there: Tensor = module.cal_flash_loss(q, k / 0.1, labels, q.shape[1])
        back: Tensor = module.cal_flash_loss(k, q / 0.1, labels, q.shape[1])
        return (there.mean() + back.mean()) / 2

    return loss


def case_of(title: str, build: Callable[[], Loss], n_pairs: int, options: Options) -> Case:
    """Return the case of a loss at a number of pairs, which is built when it is measured."""

    def measure(deadline: float) -> Figures:
        loss = build()
        batch = make_batch(n_pairs, options.device)
        value = float(step(loss, *batch).detach())
        seconds = seconds_of(lambda: step(loss, *batch), options, deadline=deadline, at_most=0.3)
        return {
            "ms": 1e3 * seconds,
            "MiB": peak_mib(lambda: step(loss, *batch), options.device),
            "value": value,
        }

    return Case(f"{title}, {n_pairs:,} pairs", measure)


def make_batch(n_pairs: int, device: str) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Return two views and their metadata, the same on every device."""
    with torch.device("cpu"):
        views, metadata = of_cpu.make_batch(2 * n_pairs)
    leaves = [view.detach().to(device).requires_grad_() for view in views]
    return leaves, {name: column.to(device) for name, column in metadata.items()}


def step(loss: Loss, views: list[Tensor], metadata: dict[str, Any]) -> Tensor:
    """Compute the loss and the gradients of both views."""
    for view in views:
        view.grad = None
    value = loss(*views, metadata)
    value.backward()
    return value


def products(options: Options, deadline: float) -> Figures:
    """Time the four matrix products of NT-Xent: similarities, once more for the gradient, and two gradients."""
    n = 2 * (SMALL[-1] if options.small else 8_192)
    z = torch.randn(n, of_cpu.D)
    s = torch.empty(n, n)

    def four() -> None:
        torch.mm(z, z.T, out=s)
        torch.mm(z, z.T, out=s)
        torch.mm(s, z)
        torch.mm(s.T, z)

    return {"ms": 1e3 * seconds_of(four, options, deadline=deadline), "embeddings": n}
