"""Views of natural images: this package, Kornia's own augmentation modules, and a loop over Pillow images.

All are timed in one run, in turn, by the processor's time of one thread, so that the ratios hold on
a busy machine too; on a GPU by the clock::

    python -m benchmarks.image_views                       # 32×32; about two minutes
    python -m benchmarks.image_views batch numbers         # sections by name
    python -m benchmarks.image_views speed --device cuda
    python -m benchmarks.image_views picture --out docs/images/image_views.png --store
    DATA/images.npy

`speed`: each operation applied to every image, then whole views as SupCon's settings draw them.
`batch`: whether an image's view changes with the images beside it, Kornia's functions given fixed
parameters. `numbers`: keyed random numbers by Philox, and by a NumPy generator for each sample.
`step`: views within a training step. `picture`: views as the presets make them, of images of a
store (`neurocontrast images`) and of digits.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import kornia
import numpy as np
import PIL
import torch
from kornia import augmentation
from PIL import Image, ImageEnhance
from torch import Tensor

from neurocontrast.encoders import EncoderSettings, build_model
from neurocontrast.losses import NTXent
from neurocontrast.natural import ImageAugmentSettings, RandImageViewd
from neurocontrast.natural import operations as image_operations
from neurocontrast.natural.augment import (
    ColourJitterSettings,
    GrayscaleSettings,
    ImageAffineSettings,
    ImageBlurSettings,
    ImageFlipSettings,
    ResizedCropSettings,
)
from neurocontrast.seeds import derive_generator, derive_uniforms
from neurocontrast.transforms import TwoViews

Timed = Callable[[int], object]
JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}


# --- what is compared
# ----------------------------------------------------------------------------------------------
def our_views() -> dict[str, ImageAugmentSettings]:
    off = ImageAugmentSettings.off()
    always = {
        "resized crop": {"crop": ResizedCropSettings()},
        "affine": {"affine": ImageAffineSettings()},
        "flip": {"flip": ImageFlipSettings(probability=1.0)},
        "colour jitter": {"colour_jitter": ColourJitterSettings(probability=1.0)},
        "hue alone": {
            "colour_jitter": ColourJitterSettings(
                probability=1.0, brightness=0, contrast=0, saturation=0
            )
        },
        "grayscale": {"grayscale": GrayscaleSettings(probability=1.0)},
        "blur": {"blur": ImageBlurSettings(probability=1.0)},
    }
    each = {name: off.model_copy(update=update) for name, update in always.items()}
    return each | {"**a view** (SupCon)": ImageAugmentSettings()}


def kornia_modules(size: int) -> dict[str, torch.nn.Module]:
    crop = {"size": (size, size), "align_corners": False}
    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
    taps = 2 * 8 + 1  # four of the largest standard deviations to either side
    return {
        "resized crop": augmentation.RandomResizedCrop(scale=(0.2, 1.0), **crop),
        "padded crop": augmentation.RandomCrop((size, size), padding=4),
        "affine": augmentation.RandomAffine(
            15.0, (0.1, 0.1), (0.9, 1.1), padding_mode="border", p=1.0
        ),
        "flip": augmentation.RandomHorizontalFlip(p=1.0),
        "colour jitter": augmentation.ColorJitter(**jitter, hue=0.1, p=1.0),
        "hue alone": augmentation.ColorJitter(hue=0.1, p=1.0),
        "grayscale": augmentation.RandomGrayscale(p=1.0),
        "blur": augmentation.RandomGaussianBlur((taps, taps), (0.1, 2.0), p=1.0),
        "**a view** (SupCon)": augmentation.AugmentationSequential(
            augmentation.RandomResizedCrop(scale=(0.2, 1.0), **crop),
            augmentation.RandomHorizontalFlip(p=0.5),
            augmentation.ColorJitter(**jitter, hue=0.1, p=0.8),
            augmentation.RandomGrayscale(p=0.2),
            data_keys=["input"],
        ),
    }


def pillow_operations(
    size: int,
) -> dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]]:
    def crop(image: Image.Image, generator: np.random.Generator) -> Image.Image:
        for _ in range(10):
            area = generator.uniform(0.2, 1.0) * size * size
            ratio = np.exp(generator.uniform(*np.log((3 / 4, 4 / 3))))
            width, height = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
            if width <= size and height <= size:
                break
        else:
            width = height = size
        left, top = generator.integers(size - width + 1), generator.integers(size - height + 1)
        box = (left, top, left + width, top + height)
        return image.crop(box).resize((size, size), Image.Resampling.BILINEAR)

    def hue(image: Image.Image, generator: np.random.Generator) -> Image.Image:
        h, s, v = image.convert("HSV").split()
        moved = np.asarray(h) + np.uint8(int(generator.uniform(-0.1, 0.1) * 255) % 256)
        return Image.merge("HSV", (Image.fromarray(moved), s, v)).convert("RGB")

    enhancements = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color]
    steps = [
        lambda image, generator, of=of: of(image).enhance(generator.uniform(0.6, 1.4))
        for of in enhancements
    ]

    def jitter(image: Image.Image, generator: np.random.Generator) -> Image.Image:
        for step in generator.permutation(4):
            image = [*steps, hue][step](image, generator)
        return image

    def gray(image: Image.Image, _generator: np.random.Generator) -> Image.Image:
        return image.convert("L").convert("RGB")

    def flip(image: Image.Image, _generator: np.random.Generator) -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    def view(image: Image.Image, generator: np.random.Generator) -> Image.Image:
        image = crop(image, generator)
        for probability, change in ((0.5, flip), (0.8, jitter), (0.2, gray)):
            if generator.random() < probability:
                image = change(image, generator)
        return image

    each = {
        "resized crop": crop,
        "flip": flip,
        "colour jitter": jitter,
        "hue alone": hue,
        "grayscale": gray,
    }
    return each | {"**a view** (SupCon)": view}


def made_by(settings: ImageAugmentSettings) -> TwoViews:
    return TwoViews(RandImageViewd("image", settings), seed=0)


def candidates(images: Tensor, name: str) -> dict[str, Timed]:
    """Return calls that make a view of each image, as float32: ours, Kornia's, and Pillow's where it has it."""
    size, names = images.shape[3], [str(number) for number in range(len(images))]
    views, module = made_by(our_views()[name]), kornia_modules(size)[name]
    calls: dict[str, Timed] = {
        "ours": lambda i: views.view(images, names, epoch=i, view=0),
        "Kornia": lambda _i: module(images.to(torch.float32) / 255.0),
    }
    if name in pillow_operations(size) and images.device.type == "cpu":
        pixels, change = (
            images.permute(0, 2, 3, 1).contiguous().numpy(),
            pillow_operations(size)[name],
        )
        calls["Pillow"] = lambda i: pillow_views(pixels, change, np.random.default_rng(i))
    return calls


def pillow_views(pixels: np.ndarray, change: Callable, generator: np.random.Generator) -> Tensor:
    made = np.stack([np.asarray(change(Image.fromarray(image), generator)) for image in pixels])
    return (
        torch.from_numpy(made)
        .permute(0, 3, 1, 2)
        .to(torch.float32, memory_format=torch.contiguous_format)
        / 255.0
    )


# --- sections
# ------------------------------------------------------------------------------------------------------
def show_speed(options: argparse.Namespace) -> None:
    images = random_images(options)
    print(
        f"\nBatches of {options.batch} images, {options.size}×{options.size}, {options.device}; images a second:\n"
    )
    print(
        "| operation, applied to all | ours | Kornia's modules | Pillow, a loop | ours / Kornia | ours / Pillow |"
    )
    print("|---|---|---|---|---|---|")
    for name in our_views():
        seconds = least_seconds(candidates(images, name), options)
        rates = {who: options.batch / value for who, value in seconds.items()}
        ratios = [
            f"{rates['ours'] / rates[who]:.1f}" if who in rates else "–"
            for who in ("Kornia", "Pillow")
        ]
        shown = [
            f"{rates[who]:,.0f}" if who in rates else "–" for who in ("ours", "Kornia", "Pillow")
        ]
        print(f"| {name} | {' | '.join(shown + ratios)} |")


def least_seconds(calls: dict[str, Timed], options: argparse.Namespace) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(options.rounds + 1):
        for name, call in calls.items():
            start = now(options.device)
            call(i)
            seconds[name].append(now(options.device) - start)
    return {name: min(values[1:]) for name, values in seconds.items()}


def now(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def show_batch_dependence(options: argparse.Namespace) -> None:
    """Print how many values of an image's view differ, made with four others, and made alone."""
    generator = torch.Generator().manual_seed(0)
    factor = torch.rand(5, generator=generator) * 0.8 + 0.6
    from kornia import color, enhance, filters

    def ours(x: Tensor, which: Tensor) -> Tensor:
        settings = ImageAugmentSettings(
            affine=ImageAffineSettings(probability=0.5), blur=ImageBlurSettings()
        )
        return RandImageViewd("image", settings).batch(x, which.tolist())

    operations: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "Kornia: luma": lambda x, _: color.rgb_to_grayscale(x),
        "Kornia: brightness": lambda x, i: enhance.adjust_brightness_accumulative(
            x, factor[i].to(x.device)
        ),
        "Kornia: saturation": lambda x, i: enhance.adjust_saturation_with_gray_subtraction(
            x, factor[i].to(x.device)
        ),
        "Kornia: hue": lambda x, i: enhance.adjust_hue(x, factor[i].to(x.device) - 1.0),
        "Kornia: contrast": lambda x, i: enhance.adjust_contrast_with_mean_subtraction(
            x, factor[i].to(x.device)
        ),
        "ours: contrast": lambda x, i: image_operations.adjust_contrast(
            x, factor=factor[i].to(x.device)
        ),
        "Kornia: blur": lambda x, i: filters.gaussian_blur2d(
            x, (9, 9), factor[i, None].expand(-1, 2).to(x.device)
        ),
        "ours: all of a view": ours,
    }
    print("\nShare of values that differ, of 5 images together against one by one:\n")
    sizes = [(32, 32), (33, 31), (96, 96), (223, 225)]
    print(
        f"| operation, threads | {' | '.join(f'{h}×{w}' for h, w in sizes)} |\n|---|{'---|' * len(sizes)}"
    )
    for n_threads in (1, 2) if options.device == "cpu" else (1,):
        torch.set_num_threads(n_threads)
        for name, change in operations.items():
            shares = []
            for height, width in sizes:
                x = torch.rand(5, 3, height, width, generator=generator).to(options.device)
                alone = torch.cat([change(x[i : i + 1], torch.tensor([i])) for i in range(5)])
                shares.append(float((change(x, torch.arange(5)) != alone).float().mean()))
            print(
                f"| {name}, {n_threads} | {' | '.join(f'{share:.1%}' if share else '0' for share in shares)} |"
            )
    torch.set_num_threads(1)


def show_numbers(options: argparse.Namespace) -> None:
    n, n_numbers = options.batch, 23

    def one_by_one(i: int) -> list[np.ndarray]:
        return [derive_generator("views", 0, i, sample, 0).random(n_numbers) for sample in range(n)]

    calls: dict[str, Timed] = {
        "Philox": lambda i: derive_uniforms("views", 0, i, samples=range(n), n_numbers=n_numbers),
        "a generator for each": one_by_one,
    }
    seconds = least_seconds(calls, argparse.Namespace(**vars(options) | {"device": "cpu"}))
    print(f"\n{n_numbers} keyed numbers for each of {n} samples, microseconds a sample:")
    for name, value in seconds.items():
        print(f"- {name}: {1e6 * value / n:.1f}")


def show_step(options: argparse.Namespace) -> None:
    """Print how much longer a step (views, both passes, update) takes with single operations by Kornia's functions."""
    images = random_images(options)
    names = [str(number) for number in range(options.batch)]
    settings = {
        "SupCon": ImageAugmentSettings(),
        "with blur": ImageAugmentSettings(blur=ImageBlurSettings()),
    }
    print(f"\nA step of {options.batch} images, two views of each, NT-Xent; ms:\n")
    print(
        "| encoder, views | rest of the step | views | their share | the step with Kornia's … |\n|---|---|---|---|---|"
    )
    for name in ("resnet_small", "resnet18"):
        model = build_model(
            EncoderSettings(name=name, projection=(128, 64), projection_norm="layers")
        )
        model, loss = model.to(options.device), NTXent(temperature=0.5)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        made = made_by(settings["SupCon"])(images, names, epoch=0)

        def rest(_i: int, model=model, loss=loss, optimizer=optimizer, made=made) -> None:
            optimizer.zero_grad()
            z = model(torch.cat(made))
            loss(*z.chunk(2)).backward()
            optimizer.step()

        for preset, chosen in settings.items():
            views = made_by(chosen)
            calls: dict[str, Timed] = {
                "rest": rest,
                "views": lambda i, views=views: views(images, names, epoch=i),
            }
            calls |= {
                other: partial(_with, change, calls["views"]) for other, change in KORNIA.items()
            }
            ms = {each: 1e3 * value for each, value in least_seconds(calls, options).items()}
            step = ms["rest"] + ms["views"]
            others = ", ".join(
                f"{other}: {(ms['rest'] + ms[other]) / step - 1.0:+.1%}" for other in KORNIA
            )
            shown = f"{ms['rest']:.0f} | {ms['views']:.0f} | {ms['views'] / step:.1%} | {others}"
            print(f"| {name}, {preset} | {shown} |", flush=True)


def _kornia_blur(
    x: Tensor, *, sigma_pixels: np.ndarray, radius_pixels: int | None, largest: float
) -> Tensor:
    from kornia import filters

    radius = int(4.0 * largest + 0.5) if radius_pixels is None else radius_pixels
    sigmas = torch.from_numpy(sigma_pixels.astype(np.float32))[:, None].expand(-1, 2).to(x.device)
    return filters.gaussian_blur2d(x, (2 * radius + 1,) * 2, sigmas)


def _kornia_hue(x: Tensor, turns: Tensor) -> Tensor:
    return kornia.enhance.adjust_hue(x, turns * 2.0 * np.pi)


KORNIA: dict[str, dict[str, Callable]] = {
    "hue": {"hue": _kornia_hue},
    "contrast": {
        "contrast": lambda x, factor: kornia.enhance.adjust_contrast_with_mean_subtraction(
            x, factor
        )
    },
    "blur": {"blur": _kornia_blur},
}


def _with(change: dict[str, Callable], call: Timed, i: int) -> None:
    """Call with another function in the place of one of the operations."""
    blur, colours = image_operations.blur, image_operations.COLOUR_OPERATIONS
    image_operations.blur = change.get("blur", blur)
    image_operations.COLOUR_OPERATIONS = tuple(
        change.get(name, ours) for name, ours in zip(JITTER, colours, strict=True)
    )
    try:
        call(i)
    finally:
        image_operations.blur, image_operations.COLOUR_OPERATIONS = blur, colours


def draw_picture(options: argparse.Namespace) -> None:
    from matplotlib import pyplot as plt

    rows = picture_rows(options.store)
    n_views = 9
    figure, axes = plt.subplots(len(rows), 1 + n_views, figsize=(9.6, 1.02 * len(rows)), dpi=150)
    for row, (axes_of_row, (name, preset, image)) in enumerate(zip(axes, rows, strict=True)):
        views = [image[None].float() / 255.0]
        maker = made_by(preset)
        views += [
            maker.view(image[None], [str(row)], epoch=epoch, view=0) for epoch in range(n_views)
        ]
        for axis, view in zip(axes_of_row, views, strict=True):
            axis.imshow(view[0].permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set_xticks([], [])
            axis.set_yticks([], [])
        axes_of_row[0].set_ylabel(name, fontsize=7)
    axes[0, 0].set_title("image", fontsize=8)
    axes[0, 1].set_title("views", fontsize=8, loc="left")
    figure.tight_layout(pad=0.3, w_pad=0.2, h_pad=0.2)
    figure.savefig(options.out)
    print(f"wrote {options.out}")


def picture_rows(store: Path | None) -> list[tuple[str, ImageAugmentSettings, Tensor]]:
    from sklearn.datasets import load_digits

    photographs = (
        np.load(store, mmap_mode="r") if store else np.empty((0, 3, 32, 32), dtype=np.uint8)
    )
    photographs = [
        torch.from_numpy(np.array(image))
        for image in photographs[:: max(1, len(photographs) // 3)][:3]
    ]
    presets = {
        "SupCon": ImageAugmentSettings(),
        "SimCLR": ImageAugmentSettings(crop={"scale": (0.08, 1.0)}),
    }
    rows = [
        (name, preset, image)
        for (name, preset), image in zip(presets.items(), photographs, strict=False)
    ]
    off = dict.fromkeys(["flip", "colour_jitter", "grayscale"])
    of_digits = ImageAugmentSettings(affine={}, crop={"scale": (0.6, 1.0)}, **off)
    for index, colour in ((3, (214, 39, 40)), (14, (31, 119, 180))):
        ink = torch.from_numpy(load_digits().images[index] / 16.0).float()[None, None]
        ink = torch.nn.functional.interpolate(ink, size=(24, 24), mode="bicubic")[0].clamp(0, 1)
        ink = torch.nn.functional.pad(ink, [4] * 4)
        digit = (torch.tensor(colour)[:, None, None] * (1 - ink)).to(torch.uint8)
        rows.append(("digits", of_digits, digit))
    return rows


def random_images(options: argparse.Namespace) -> Tensor:
    shape = (options.batch, 3, options.size, options.size)
    drawn = torch.randint(
        0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    return drawn.to(options.device)


def main() -> None:
    sections: dict[str, Callable[[argparse.Namespace], None]] = {
        "speed": show_speed,
        "batch": show_batch_dependence,
        "numbers": show_numbers,
        "step": show_step,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections",
        nargs="*",
        help=f"of {', '.join(sections)}, picture; all but the last by default",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", type=int, default=32, help="side of the images, in pixels")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7, help="the least time of so many is shown")
    parser.add_argument(
        "--out", type=Path, default=Path("image_views.png"), help="file of the picture"
    )
    parser.add_argument(
        "--store", type=Path, help="images.npy of `neurocontrast images`, for the picture"
    )
    options = parser.parse_args()
    everything = sections | {"picture": draw_picture}
    if unknown := set(options.sections) - set(everything):
        parser.error(f"there is no section {', '.join(unknown)}; choose of {', '.join(everything)}")
    torch.set_num_threads(1)
    machine = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else f"{platform.machine()}, one thread"
    )
    versions = f"torch {torch.__version__}, kornia {kornia.__version__}, Pillow {PIL.__version__}"
    print(f"{datetime.date.today()}, {versions}, {machine}")
    for section in options.sections or sections:
        partial(everything[section], options)()


if __name__ == "__main__":
    main()
