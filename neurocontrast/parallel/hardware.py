"""Devices, machines and precision that a training asks for."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Hardware:
    """Devices and precision of a training, as the section ``training`` asks for them."""

    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    """Processes on each machine."""
    num_nodes: int = 1
    """Machines."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"

    @property
    def n_processes(self) -> int:
        """Processes on all machines."""
        return self.devices * self.num_nodes
