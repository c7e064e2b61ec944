"""``configs/metadata.json`` of a MONAI bundle, as far as neurocontrast reads the file's keys."""

from __future__ import annotations

from neurocontrast.documents.document import Document


class OutputFormat(Document):
    """Number of channels of one output tensor of a bundle's network."""

    num_channels: int


class NetworkOutputs(Document):
    """Section ``outputs`` of a MONAI bundle's metadata: format of the network's output tensor."""

    pred: OutputFormat


class NetworkFormat(Document):
    """Section ``network_data_format`` of a MONAI bundle: formats of the network's outputs."""

    outputs: NetworkOutputs


class BundleMetadata(Document):
    """Content of a MONAI bundle's ``configs/metadata.json``: task, and formats of tensors."""

    task: str
    network_data_format: NetworkFormat
