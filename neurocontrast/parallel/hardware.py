"""Devices, machines and precision of a training, as a configuration asks for them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hardware:
    """Devices, machines and precision of the section ``training``."""

    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    """Processes on each machine."""
    num_nodes: int = 1
    """Number of machines."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"

    @property
    def n_processes(self) -> int:
        """Number of processes on all machines."""
        return self.devices * self.num_nodes
