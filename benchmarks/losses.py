"""Cost of the losses beside other libraries: forward + backward, d = 128, one thread.

Every case runs in a process of its own: CPU time of the process, and peak memory above what it held
when everything was imported and no tensor made. Peers that are not installed are left out; one that
needs more than the memory limit is reported as such.

    python -m benchmarks.losses                       # a table
    python -m benchmarks.losses --large               # ours at 131,072 embeddings as well: minutes
    python -m benchmarks.losses --paired              # ours and the plain expression in
    alternation, in one process python -m benchmarks.losses --metadata 8192       # what metadata
    cost: three losses in alternation, by operation python -m benchmarks.losses --metadata 16384
    --device cuda
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

D = 128
LIMIT_GIB = 14
FEW = 2048
SIZES = (128, 1024, 4096, 16384)
LARGE = 131072

OURS = (
    "NTXent", "InfoNCE", "YAwareInfoNCE", "ConditionalAlignmentUniformity", "AlignmentUniformity", "SupCon", "SINCERE",
    "EpsilonSupInfoNCE", "DebiasedInfoNCE", "HardNegativeInfoNCE", "FairInfoNCE",
)  # fmt: skip
PEERS = {
    "lightly NT-Xent": "lightly",
    "PML NT-Xent": "pytorch_metric_learning",
    "PML SupCon": "pytorch_metric_learning",
    "nidl InfoNCE": "nidl",
    "nidl y-Aware": "nidl",
}


def ours(name: str) -> Callable:
    from neurocontrast import kernels, losses

    age = kernels.Gaussian("age", sigma=5.0)
    arguments = {
        "YAwareInfoNCE": (age,),
        "ConditionalAlignmentUniformity": (age,),
        "SupCon": ("label",),
        "SINCERE": ("label",),
        "EpsilonSupInfoNCE": ("label",),
        "FairInfoNCE": ("label",),
    }
    return getattr(losses, name)(*arguments.get(name, ()))


def peer(name: str) -> Callable:
    if name == "lightly NT-Xent":
        from lightly.loss import NTXentLoss

        loss = NTXentLoss(temperature=0.1)
        return lambda a, b, _: loss(a, b)
    if name.startswith("PML"):
        from pytorch_metric_learning import losses

        kind = losses.NTXentLoss if name == "PML NT-Xent" else losses.SupConLoss
        loss = kind(temperature=0.1)
        of_scan = name == "PML NT-Xent"

        def on_pool(a: Tensor, b: Tensor, m: dict) -> Tensor:
            labels = torch.arange(len(a)) if of_scan else m["label"]
            return loss(torch.cat([a, b]), labels.repeat(2))

        return on_pool
    from nidl import losses

    if name == "nidl InfoNCE":
        loss = losses.InfoNCE(temperature=0.1)
        return lambda a, b, _: loss(a, b)
    loss = losses.YAwareInfoNCE(bandwidth=25.0, temperature=0.1)
    return lambda a, b, m: loss(a, b, m["age"][:, None])


def pool(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    z = functional.normalize(torch.cat([a, b]))
    return z @ z.T / 0.1, torch.eye(len(z), dtype=torch.bool)


def gaussian(m: dict) -> Tensor:
    age = m["age"]
    return torch.exp(-0.5 * ((age[:, None] - age) / 5) ** 2).repeat(2, 2)


def same_label(m: dict) -> Tensor:
    label = m["label"]
    return (label[:, None] == label).repeat(2, 2)


def find_twin(s, others):
    return functional.cross_entropy(
        s.masked_fill(~others, -torch.inf), torch.arange(len(s)).roll(len(s) // 2)
    )


def nt_xent(a, b, _):
    s, own = pool(a, b)
    return find_twin(s, ~own)


def fair(a, b, m):
    s, own = pool(a, b)
    return find_twin(s, same_label(m) & ~own)


def infonce(a, b, _):
    s = functional.normalize(a) @ functional.normalize(b).T / 0.1
    twin = torch.arange(len(s))
    return (functional.cross_entropy(s, twin) + functional.cross_entropy(s.T, twin)) / 2


def weighted(s, own, w):
    w = w.masked_fill(own, 0)
    w = w / w.sum(1, keepdim=True)
    return (s.masked_fill(own, -torch.inf).logsumexp(1) - (w * s).sum(1)).mean()


def y_aware(a, b, m):
    return weighted(*pool(a, b), gaussian(m))


def supcon(a, b, m):
    return weighted(*pool(a, b), same_label(m).float())


def conditional(a, b, m):
    s, own = pool(a, b)
    w = gaussian(m)
    apart = (1 - w).masked_fill(own, 0)
    w = w.masked_fill(own, 0)
    uniformity = ((apart / apart.sum(1, keepdim=True)).log() + s).logsumexp((0, 1))
    return uniformity - math.log(len(s)) - (w * s).sum(1).div(w.sum(1)).mean()


def sincere(a, b, m):
    s, own = pool(a, b)
    same = same_label(m)
    negatives = s.masked_fill(same, -torch.inf).logsumexp(1, keepdim=True)
    positives = (same & ~own).float()
    return ((functional.softplus(negatives - s) * positives).sum(1) / positives.sum(1)).mean()


def debiased(a, b, _, tau=0.5, prior=0.1, beta=0.0):
    z = functional.normalize(torch.cat([a, b]))
    s, n = z @ z.T / tau, 2 * len(a) - 2
    twins = s.diagonal(len(a)).repeat(2)
    s = s.masked_fill(torch.eye(len(a), dtype=torch.bool).repeat(2, 2), -torch.inf)
    negatives = s.logsumexp(1)
    if beta:
        negatives = ((1 + beta) * s).logsumexp(1) - (beta * s).logsumexp(1) + math.log(n)
    corrected = (negatives.exp() - n * prior * twins.exp()) / (1 - prior)
    return functional.softplus(corrected.clamp_min(n * math.exp(-1 / tau)).log() - twins).mean()


def hard_negative(a, b, _):
    return debiased(a, b, _, beta=1.0)


def alignment_uniformity(a, b, _):
    a, b = functional.normalize(a), functional.normalize(b)
    spread = [torch.pdist(z).square().mul(-2).logsumexp(0) for z in (a, b)]
    pairs = len(a) * (len(a) - 1) / 2
    return (a - b).square().sum(1).mean() + sum(spread) / 2 - math.log(pairs)


EXPRESSIONS = {
    "NTXent": nt_xent,
    "InfoNCE": infonce,
    "YAwareInfoNCE": y_aware,
    "ConditionalAlignmentUniformity": conditional,
    "AlignmentUniformity": alignment_uniformity,
    "SupCon": supcon,
    "SINCERE": sincere,
    "DebiasedInfoNCE": debiased,
    "HardNegativeInfoNCE": hard_negative,
    "FairInfoNCE": fair,
}
"""The dense expression one would write, through autograd: as stable as the loss, without its checks and empty cases."""
PLAIN = tuple(f"plain {name}" for name in EXPRESSIONS)


def build(name: str) -> Callable:
    if name in PLAIN:
        return EXPRESSIONS[name.removeprefix("plain ")]
    return ours(name) if name in OURS else peer(name)


def memory() -> tuple[float, float]:
    """Peak and present resident memory of this process, in MiB."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(lines[key].split()[0]) / 1024 for key in ("VmHWM", "VmRSS"))


def make_batch(n_embeddings: int, device: str = "cpu") -> tuple[list[Tensor], dict]:
    generator = torch.Generator().manual_seed(0)
    n = n_embeddings // 2
    views = [torch.randn(n, D, generator=generator).to(device).requires_grad_() for _ in range(2)]
    age, label = (
        20 + 60 * torch.rand(n, generator=generator),
        torch.randint(10, (n,), generator=generator),
    )
    return views, {"age": age.to(device), "label": label.to(device)}


def once(loss: Callable, views: list[Tensor], metadata: dict) -> float:
    """CPU seconds of one forward and backward; on a GPU, which has the process wait, seconds."""
    for view in views:
        view.grad = None
    on_gpu = views[0].is_cuda
    clock, wait = (
        (time.perf_counter, torch.cuda.synchronize) if on_gpu else (time.process_time, lambda: None)
    )
    wait()
    start = clock()
    loss(*views, metadata).backward()
    wait()
    return clock() - start


def compare_paired(n_embeddings: int, repetitions: int = 1500) -> str:
    """Ours and the plain expression in alternation, so that whatever else the machine does slows both; medians."""
    torch.set_num_threads(1)
    batch = make_batch(n_embeddings)
    lines = [f"| ms at {n_embeddings:,} | ours | plain | ratio |", "|---|---|---|---|"]
    for name, plain in EXPRESSIONS.items():
        pair = (ours(name), plain)
        torch.testing.assert_close(
            *(loss(*batch[0], batch[1]) for loss in pair), rtol=1e-4, atol=1e-5
        )
        times = [[once(loss, *batch) for loss in pair] for _ in range(repetitions + 50)][50:]
        mine, its = (1e3 * statistics.median(part) for part in zip(*times, strict=True))
        ratio = statistics.median(a / b for a, b in times)
        lines.append(f"| {name} | {mine:.3f} | {its:.3f} | {ratio:.2f} |")
    return "\n".join(lines)


WITH_METADATA = ("NTXent", "YAwareInfoNCE", "ConditionalAlignmentUniformity")
OPERATIONS = {
    "matrix products": ("aten::mm", "aten::addmm_", "aten::addmm"),
    "exponentials": ("aten::exp_", "aten::exp"),
    "sums and largest": ("aten::sum", "aten::amax"),
    "choices and comparisons": (
        "aten::where",
        "aten::le",
        "aten::gt",
        "aten::masked_fill_",
        "aten::clamp_max_",
    ),
    "copies and fills": ("aten::copy_", "aten::fill_", "aten::zero_", "aten::cat"),
    "other arithmetic": (
        "aten::mul",
        "aten::mul_",
        "aten::sub",
        "aten::sub_",
        "aten::add",
        "aten::add_",
        "aten::div",
    ),
}


def compare_metadata(n_embeddings: int, device: str, repetitions: int = 7) -> str:
    """Losses with and without metadata in alternation: medians of time and ratio, and the milliseconds by kind."""
    from torch.profiler import ProfilerActivity, profile

    torch.set_num_threads(1)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    batch, named = (
        make_batch(n_embeddings, device),
        {name: ours(name).to(device) for name in WITH_METADATA},
    )
    times = [[once(loss, *batch) for loss in named.values()] for _ in range(repetitions + 1)][1:]
    lines = [
        f"| {n_embeddings:,} embeddings | s | ratio | " + " | ".join(OPERATIONS) + " |",
        "|---" * 9 + "|",
    ]
    for place, (name, loss) in enumerate(named.items()):
        with profile(activities=activities) as profiled:
            once(loss, *batch)
        measure = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
        own = {each.key: getattr(each, measure) / 1e3 for each in profiled.key_averages()}
        kinds = [f"{sum(own.get(key, 0) for key in keys):.3g}" for keys in OPERATIONS.values()]
        seconds, ratio = (
            statistics.median(part)
            for part in zip(*((t[place], t[place] / t[0]) for t in times), strict=True)
        )
        lines.append(f"| {name} | {seconds:.3g} | {ratio:.2f} | " + " | ".join(kinds) + " |")
    return "\n".join(lines)


def run_case(name: str, n_embeddings: int) -> None:
    """Time one loss in this process and print the result as JSON."""
    torch.set_num_threads(1)
    loss = build(name)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_GIB << 30, LIMIT_GIB << 30))
    _, before = memory()
    batch = make_batch(n_embeddings)
    try:
        times = [once(loss, *batch)]
        if n_embeddings <= FEW:
            times = [once(loss, *batch) for _ in range(400 if n_embeddings <= 256 else 30)][10:]
    except (RuntimeError, MemoryError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        print(json.dumps({"name": name, "n": n_embeddings, "fits": False}))
        return
    seconds = sorted(times)[len(times) // 4]
    print(
        json.dumps(
            {
                "name": name,
                "n": n_embeddings,
                "fits": True,
                "seconds": seconds,
                "mib": memory()[0] - before,
            }
        )
    )


def measure(name: str, n_embeddings: int, repeats: int) -> dict:
    """Run a case in fresh processes; the fastest counts, for the machine may be shared."""
    results = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--case", name, str(n_embeddings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode > 0:
            reason = done.stderr.strip().splitlines()[-1]
            return {"name": name, "n": n_embeddings, "fits": False, "failed": reason}
        if done.returncode < 0:  # killed for memory
            return {"name": name, "n": n_embeddings, "fits": False}
        results.append(json.loads(done.stdout.strip().splitlines()[-1]))
        if not results[-1]["fits"]:
            return results[-1]
    return min(results, key=lambda result: result["seconds"])


def shown(result: dict | None) -> str:
    if result is None:
        return ""
    if "failed" in result:
        return f"failed: {result['failed']}"
    if not result["fits"]:
        return f"does not fit in {LIMIT_GIB} GiB"
    seconds = result["seconds"]
    duration = f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    return f"{duration} / {result['mib']:.0f} MiB"


def table(results: list[dict], sizes: list[int]) -> str:
    by_case = {(result["name"], result["n"]): result for result in results}
    lines = [
        "| loss | " + " | ".join(f"{n:,}" for n in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for name in dict.fromkeys(result["name"] for result in results):
        lines.append(
            f"| {name} | " + " | ".join(shown(by_case.get((name, n))) for n in sizes) + " |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs=2, metavar=("NAME", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--only", nargs="+", help="names of cases")
    parser.add_argument(
        "--repeats", type=int, default=2, help="processes a case, of which the fastest counts"
    )
    parser.add_argument(
        "--large", action="store_true", help=f"four of ours at {LARGE:,} embeddings as well"
    )
    parser.add_argument(
        "--paired", action="store_true", help="ours beside the plain expression at 128 and 1,024"
    )
    parser.add_argument(
        "--metadata", type=int, metavar="N", help="three losses in alternation at N embeddings"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of --metadata")
    parser.add_argument("--results", type=Path, help="JSON lines to add to and to draw from")
    arguments = parser.parse_args()
    if arguments.case:
        run_case(arguments.case[0], int(arguments.case[1]))
        return
    if arguments.paired:
        print(compare_paired(128), compare_paired(1024, 50), sep="\n\n")
        return
    if arguments.metadata:
        print(compare_metadata(arguments.metadata, arguments.device))
        return
    installed = [name for name, module in PEERS.items() if importlib.util.find_spec(module)]
    names = arguments.only or [*OURS, *PLAIN, *installed]
    cases = [(name, n) for name in names for n in arguments.sizes if name not in PLAIN or n <= 1024]
    if arguments.large:
        cases += [
            (name, LARGE)
            for name in ("NTXent", "YAwareInfoNCE", "ConditionalAlignmentUniformity", "SINCERE")
        ]
    stored = (
        arguments.results.read_text().splitlines()
        if arguments.results and arguments.results.exists()
        else []
    )
    results = [json.loads(line) for line in stored]
    for name, n in cases:
        results.append(measure(name, n, 1 if n == LARGE else arguments.repeats))
        print(f"{name} {n:,}: {shown(results[-1])}", file=sys.stderr, flush=True)
        if arguments.results:
            with arguments.results.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    print(table(results, sorted({result["n"] for result in results})))


if __name__ == "__main__":
    main()
