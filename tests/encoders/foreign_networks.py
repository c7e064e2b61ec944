"""Networks of other programs by what is published of them: their layers, names and sizes.

The DenseNet is that of the y-Aware authors (`yAwareContrastiveLearning`, `models/densenet.py`) and
of nidl 0.0.2, whose layers are MONAI's under other names; the ResNet is that of MedicalNet
(`models/resnet.py`), written anew.
"""

import torch
from monai.networks.nets import DenseNet121
from torch import nn
from torch.nn import functional


class DenseNet(nn.Module):
    """`kind`: "encoder" and "classifier" of the y-Aware authors, or "nidl"."""

    def __init__(self, kind, n_channels=1):
        super().__init__()
        self.features = DenseNet121(spatial_dims=3, in_channels=n_channels, out_channels=2).features
        if kind != "classifier":
            self.features.norm5 = nn.Identity()
        if kind == "encoder":
            self.hidden_representation = nn.Linear(1024, 512)
            self.head_projection = nn.Linear(512, 128)
        elif kind == "classifier":
            self.classifier = nn.Linear(1024, 2)
        else:
            self.embedding = nn.Linear(1024, 64)

    def state_dict(self, **options):
        return {
            name.replace(".layers.", "."): each
            for name, each in super().state_dict(**options).items()
        }

    def pooled(self, volumes):
        return functional.relu(self.features(volumes)).mean(dim=(2, 3, 4))

    def projected(self, volumes):
        if hasattr(self, "embedding"):
            return self.embedding(self.pooled(volumes))
        return self.head_projection(
            functional.relu(self.hidden_representation(self.pooled(volumes)))
        )


class Block(nn.Module):
    def __init__(self, n_in, n_out, *, stride, dilation, is_bottleneck, shortcut):
        super().__init__()
        n_last = 4 * n_out if is_bottleneck else n_out
        shape = {"dilation": dilation, "padding": dilation, "bias": False}
        if is_bottleneck:
            self.conv1 = nn.Conv3d(n_in, n_out, 1, bias=False)
            self.conv2 = nn.Conv3d(n_out, n_out, 3, stride=stride, **shape)
            self.conv3 = nn.Conv3d(n_out, n_last, 1, bias=False)
            self.bn3 = nn.BatchNorm3d(n_last)
        else:
            self.conv1 = nn.Conv3d(n_in, n_out, 3, stride=stride, **shape)
            self.conv2 = nn.Conv3d(n_out, n_last, 3, **shape)
        self.bn1 = nn.BatchNorm3d(n_out)
        self.bn2 = nn.BatchNorm3d(n_out)
        self.stride = stride
        self.n_more = n_last - n_in
        self.is_bottleneck = is_bottleneck
        if (stride > 1 or self.n_more) and shortcut == "B":
            self.downsample = nn.Sequential(
                nn.Conv3d(n_in, n_last, 1, stride=stride, bias=False), nn.BatchNorm3d(n_last)
            )

    def forward(self, maps):
        made = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(maps)))))
        if self.is_bottleneck:
            made = self.bn3(self.conv3(functional.relu(made)))
        if hasattr(self, "downsample"):
            return functional.relu(made + self.downsample(maps))
        kept = maps[:, :, :: self.stride, :: self.stride, :: self.stride]
        return functional.relu(made + functional.pad(kept, (0, 0, 0, 0, 0, 0, 0, self.n_more)))


class MedicalNet(nn.Module):
    def __init__(self, depth, n_channels=1):
        super().__init__()
        n_blocks = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
        how = {"is_bottleneck": depth == 50, "shortcut": "A" if depth in (18, 34) else "B"}
        self.conv1 = nn.Conv3d(n_channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm3d(64)
        n_in = 64
        for number, (n, stride, dilation) in enumerate(
            zip(n_blocks, (1, 2, 1, 1), (1, 1, 2, 4), strict=True)
        ):
            stage = nn.Sequential()
            width = 64 * 2**number
            for _ in range(n):
                stage.append(
                    Block(
                        n_in,
                        width,
                        stride=stride if not len(stage) else 1,
                        dilation=dilation,
                        **how,
                    )
                )
                n_in = 4 * width if depth == 50 else width
            setattr(self, f"layer{number + 1}", stage)
        self.conv_seg = nn.Sequential(nn.ConvTranspose3d(n_in, 32, 2, stride=2), nn.BatchNorm3d(32))

    def pooled(self, volumes):
        maps = functional.relu(self.bn1(self.conv1(volumes)))
        maps = functional.max_pool3d(maps, 3, stride=2, padding=1)
        return self.layer4(self.layer3(self.layer2(self.layer1(maps)))).mean(dim=(2, 3, 4))


def randomised(network, seed=0):
    """Give every tensor, statistics of normalisation too, values of its own, and return the network for evaluation."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point() and tensor.ndim < 2:
                spread = torch.rand(tensor.shape, generator=generator)
                tensor.copy_(spread + 0.5 if name.endswith(("weight", "var")) else spread - 0.5)
    return network.eval()
