"""Devices, machines and precision that a configuration asks for."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hardware:
    """Devices, machines and precision of a training, from the section ``training``."""

    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    """Number of processes on each machine."""
    num_nodes: int = 1
    """Number of machines of a training."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"

    @property
    def n_processes(self) -> int:
        """Number of processes on all machines together."""
        return self.devices * self.num_nodes
