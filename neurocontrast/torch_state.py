"""Run functions with PyTorch's global settings as in a new process, whatever the caller has set."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")


@contextmanager
def default_torch_state(*, keep_device: bool = False) -> Iterator[None]:
    """Set PyTorch's defaults (float32, CPU, gradients, no autocast) until the context ends.

    Parameters
    ----------
    keep_device : bool
        Keep the caller's default device: a network built on ``meta`` has shapes alone.
    """
    torch = sys.modules.get("torch")
    if torch is None:  # nothing can be set yet
        yield
        return
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            if not keep_device and torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            yield
    finally:
        torch.set_default_dtype(dtype)


def in_default_torch_state(
    function: Callable[_Parameters, _Value],
) -> Callable[_Parameters, _Value]:
    """Wrap a function to run with PyTorch's defaults: float32, CPU, gradients, no autocast.

    The caller's settings are restored when the function returns.
    """
    return _within(function, keep_device=False)


def in_default_precision(function: Callable[_Parameters, _Value]) -> Callable[_Parameters, _Value]:
    """Wrap a function to run with PyTorch's default precision, but on the caller's default device.

    While the function runs, the default type is float32, gradients are on, and autocast is off. The
    caller's settings are restored when the function returns.
    """
    return _within(function, keep_device=True)


def _within(
    function: Callable[_Parameters, _Value], *, keep_device: bool
) -> Callable[_Parameters, _Value]:
    """Wrap a function to run within `default_torch_state`, which gets the argument `keep_device`.

    `default_torch_state`, a context manager, could be the decorator itself. The wrapped function
    would then be called by a function of `contextlib`, which `warn_caller` would take for the
    user's program.
    """

    @wraps(function)
    def run(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Value:
        with default_torch_state(keep_device=keep_device):
            return function(*arguments, **options)

    return run
