"""How fast the encoders of images are on one thread, with colours laid out first or last: images a second of CPU time.

Training is a forward and a backward pass over two views of each image, without views, loss or
optimiser; inference is a forward pass. Rounds of both layouts take turns, and the quickest of each
counts. What `Encoder` does by itself is the layout that its network names (``layout``,
``inference_layout``)::

    python -m benchmarks.encoders --names lenet5 resnet_small --rounds 3     # half a minute on one
    core python -m benchmarks.encoders                                            # all of them:
    several minutes python -m benchmarks.encoders --names resnet50 --n 32 --side 64 --stem imagenet
"""

import argparse
import time

import torch

from neurocontrast.encoders import EncoderSettings, build_encoder
from neurocontrast.encoders.settings import NAMES_OF_DIMS

LAYOUTS = {"first": torch.contiguous_format, "last": torch.channels_last}


def seconds_of(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def rates(settings, n, side, rounds):
    encoder = build_encoder(settings)
    images = torch.rand(2 * n, 3, side, side, generator=torch.Generator().manual_seed(0))

    def train():
        encoder.train().zero_grad()
        encoder(images).square().sum().backward()

    @torch.inference_mode()
    def infer():
        encoder.eval()(images)

    best = {}
    for _ in range(rounds):
        for layout, encoder.layout in LAYOUTS.items():
            for what, work, n_images in (("training", train, n), ("inference", infer, 2 * n)):
                best[what, layout] = max(best.get((what, layout), 0.0), n_images / seconds_of(work))
    return encoder, best


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="+", default=NAMES_OF_DIMS[2], choices=NAMES_OF_DIMS[2])
    parser.add_argument(
        "--n", type=int, default=64, help="images that pass together, each in two views"
    )
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--stem", choices=["cifar", "imagenet"])
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| encoder | weights | features | training, first | last | inference, first | last |")
    print("|---|---|---|---|---|---|---|")
    for name in given.names:
        encoder, best = rates(
            EncoderSettings(name=name, stem=given.stem), given.n, given.side, given.rounds
        )
        n_weights = sum(parameter.numel() for parameter in encoder.parameters())
        cells = [
            f"{best[what, layout]:.3g}" for what in ("training", "inference") for layout in LAYOUTS
        ]
        print(
            f"| {name} | {n_weights / 1e6:.3g} M | {encoder.n_features} | {' | '.join(cells)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
