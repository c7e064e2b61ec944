"""``configs/metadata.json`` of a MONAI bundle, as far as its keys are read again."""

from __future__ import annotations

from neurocontrast.documents.document import Document


class OutputFormat(Document):
    """Format of a tensor that the network gives."""

    num_channels: int


class NetworkOutputs(Document):
    """Section ``outputs``: tensors by name."""

    pred: OutputFormat


class NetworkFormat(Document):
    """Section ``network_data_format``: inputs and outputs of the network."""

    outputs: NetworkOutputs


class BundleMetadata(Document):
    """Content of ``configs/metadata.json``."""

    task: str
    network_data_format: NetworkFormat
