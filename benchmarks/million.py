"""One loss of up to a million embeddings: seconds, memory and rounding, forward + backward, on two processes.

Every case is a run of its own by torchrun, of one thread a process (gloo). Scans have an age in tenths of a year and a
sex, and the kernel is Gaussian on age (σ = 5 years) times categorical on sex. The sums of random rows are compared with
float64 sums over all columns. So are the gradients of these embeddings, for which the sums of all other anchors are
those of the float32 forward, and the sums of weights are computed in float64::

    python benchmarks/million.py --sizes 1000 10000 100000 --results million.jsonl   # minutes at d = 128
    python benchmarks/million.py --sizes 1000000 --d 32 --results million.jsonl      # an hour or two on two cores
    python benchmarks/million.py --results million.jsonl                             # table and docs/images/million.svg
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from neurocontrast import losses
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.losses import pairwise, tiles

TITLES = {"YAwareInfoNCE": "y-Aware InfoNCE", "ConditionalUniformity": "conditional uniformity"}
PROCESSES, ROWS, SIGMA, SCALE = 2, 32, 5.0, 10.0
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "million.svg"


def make_part(rank: int, n: int, d: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Views and metadata of one process's part of n embeddings."""
    generator = torch.Generator().manual_seed(rank)
    samples = n // 2 // PROCESSES
    first = torch.randn(samples, d, generator=generator)
    second = first + torch.randn(samples, d, generator=generator)
    age = 20 + torch.randint(600, (samples,), generator=generator) / 10
    return [first, second], {"age": age, "sex": torch.randint(2, (samples,), generator=generator)}


def report_progress() -> None:
    """Say now and then how much of a long pass over the tiles is done."""
    spans, started = tiles.Pairs.spans, time.time()

    def reported(pairs: tiles.Pairs, n: int):
        blocks = -(-n // pairs.side)
        total = blocks * (blocks + 1) // 2 // pairs.processes.size
        begun = told = time.time()
        for done, span in enumerate(spans(pairs, n)):
            yield span
            now = time.time()
            if now - told > 60 and total > 1000:
                told = now
                end = time.strftime("%H:%M UTC", time.gmtime(begun + (now - begun) * total / (done + 1)))
                print(f"{(done + 1) / total:.1%} of this pass, {now - started:.0f} s; it ends {end}", flush=True)

    tiles.Pairs.spans = reported


def run_case(name: str, n: int, d: int) -> dict:
    """Measure a case in this process, one of two."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(days=1))
    rank = dist.get_rank()
    if rank == 0:
        report_progress()
    loss = getattr(losses, name)(Gaussian("age", sigma=SIGMA) * Categorical("sex"), temperature=1 / SCALE)
    views, metadata = make_part(rank, n, d)
    for view in views:
        view.requires_grad_()
    kept, log_sum_exp = [], pairwise.log_sum_exp
    pairwise.log_sum_exp = lambda *given: kept.append(log_sum_exp(*given)) or kept[0]
    dist.barrier()
    cpu, clock = time.process_time(), time.perf_counter()
    value = loss(*views, metadata)
    forward = time.perf_counter() - clock
    print(f"forward: {forward:.1f} s, loss {value.item():.6f}", file=sys.stderr, flush=True)
    value.backward()
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sums, _, mass = (None if each is None else each.detach() for each in kept[0])
    gradients = torch.stack([view.grad for view in views]) / PROCESSES
    found = {"forward": forward, "seconds": seconds, "cpu": cpu, "mib": mib}
    found |= errors(name, rank, n, d, sums, mass, gradients)
    everyone = [None] * PROCESSES
    dist.all_gather_object(everyone, found)
    dist.destroy_process_group()
    worst = {key: max(each[key] for each in everyone) for key in found}
    return {"loss": name, "n": n, "d": d, "value": value.item(), **worst, "cpu": sum(each["cpu"] for each in everyone)}


def errors(name: str, rank: int, n: int, d: int, sums: Tensor, mass: Tensor | None, gradients: Tensor) -> dict:
    """Largest error of the log-sums, and relative error of the gradients, of random embeddings of this process."""
    parts = [make_part(each, n, d) for each in range(PROCESSES)]
    raw = torch.stack([torch.cat([views[view] for views, _ in parts]) for view in range(2)])
    age, sex = (torch.cat([metadata[column] for _, metadata in parts]) for column in ("age", "sex"))
    samples = n // 2
    picked = torch.randperm(samples // PROCESSES, generator=torch.Generator().manual_seed(9))[:ROWS]
    view, sample = torch.arange(len(picked)) % 2, picked + rank * (samples // PROCESSES)
    anchors = functional.normalize(raw[view, sample].double(), dim=1)
    exact = exact_rows(name, raw, age, sex, (anchors, view, sample), sums)
    norms = raw[view, sample].double().norm(dim=1, keepdim=True)
    tangent = (exact["gradient"] - anchors * (exact["gradient"] * anchors).sum(1, keepdim=True)) / norms
    got = gradients[view, picked].double()
    apart = {"sum_error": (sums[view, sample] - exact["sums"]).abs().max().item()}
    if mass is not None:
        apart["mass_error"] = (mass[sample] / exact["mass"] - 1).abs().max().item()
    return {**apart, "gradient_error": ((got - tangent).norm(dim=1) / tangent.norm(dim=1)).max().item()}


def exact_rows(name: str, raw: Tensor, age: Tensor, sex: Tensor, rows: tuple[Tensor, ...], sums: Tensor) -> dict:
    """Sums and gradients of rows in float64, by blocks of columns."""
    anchors, view, sample = rows
    alike, n = name == "YAwareInfoNCE", 2 * len(age)
    masses = all_masses(age, sex, alike=alike)
    log_factors = -sums.double() if alike else -masses.log()
    if not alike:
        log_factors = log_factors - (sums.double() - masses.log()).logsumexp((0, 1))
    log_factors = log_factors.expand(2, -1)
    own = log_factors[view, sample].unsqueeze(1)
    total, mass, gradient = anchors.new_zeros(len(view)), anchors.new_zeros(len(view)), torch.zeros_like(anchors)
    for start in range(0, len(age), 8192):
        j = slice(start, start + 8192)
        w = weights(age[sample], sex[sample], age[j], sex[j])
        for other in range(2):
            columns = functional.normalize(raw[other, j].double(), dim=1)
            itself = (view == other).unsqueeze(1) & (sample.unsqueeze(1) == torch.arange(start, start + w.shape[1]))
            similarity = SCALE * anchors @ columns.T
            b = (torch.ones_like(w) if alike else 1 - w).masked_fill(itself, 0)
            total += (b * similarity.exp()).sum(1)
            mass += (w if alike else b).masked_fill(itself, 0).sum(1)
            pushed = b * ((similarity + own).exp() + (similarity + log_factors[other, j]).exp())
            if alike:
                pushed = (pushed - w.masked_fill(itself, 0) * (1 / masses[sample].unsqueeze(1) + 1 / masses[j])) / n
            gradient += SCALE * pushed @ columns
    torch.testing.assert_close(mass, masses[sample], rtol=1e-9, atol=0.0)
    return {"sums": total.log(), "mass": mass, "gradient": gradient}


def weights(age: Tensor, sex: Tensor, other_age: Tensor, other_sex: Tensor) -> Tensor:
    apart = (age.double().unsqueeze(1) - other_age.double()) / SIGMA
    return apart.square().mul(-0.5).exp() * (sex.unsqueeze(1) == other_sex)


def all_masses(age: Tensor, sex: Tensor, *, alike: bool) -> Tensor:
    """Σ_{j≠i} w_ij of every anchor, or of 1 − w_ij, in float64."""
    distinct, index, counts = torch.unique(
        torch.stack([age, sex.float()]), dim=1, return_inverse=True, return_counts=True
    )
    w = weights(distinct[0], distinct[1], distinct[0], distinct[1])
    w = w if alike else 1 - w
    return (2 * (w @ counts.double()) - w.diagonal())[index]


def measure(name: str, n: int, d: int) -> dict:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, __file__, "--case", name, str(n), str(d)], stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        for line in running.stdout:
            if line.startswith("{"):
                return json.loads(line)
            print(f"{name} {n:,} × {d}: {line.rstrip()}", file=sys.stderr, flush=True)
    raise SystemExit(f"{name} at {n:,} failed with exit code {running.returncode}.")


def shown(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:.2g}"


def table(results: list[dict]) -> str:
    lines = [
        "| loss | d | embeddings | seconds | CPU s of both | peak MiB a process | error of log-sums | of gradients |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {TITLES[r['loss']]} | {r['d']} | {r['n']:,} | {shown(r['seconds'])} | {shown(r['cpu'])} | {r['mib']:,.0f} "
        f"| {r['sum_error']:.0e} | {r['gradient_error']:.0e} |"
        for r in results
    ]
    return "\n".join(lines)


def plot(results: list[dict]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "million"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, d in dict.fromkeys((r["loss"], r["d"]) for r in results):
        points = sorted((r["n"], r["cpu"], r["mib"]) for r in results if (r["loss"], r["d"]) == (name, d))
        n, cpu, mib = zip(*points, strict=True)
        label = f"{TITLES[name]}, d = {d}"
        if len(n) > 1:
            label += f" (slope {math.log(cpu[-1] / cpu[-2]) / math.log(n[-1] / n[-2]):.2f})"
        style = {"marker": "o", "linestyle": "-" if name == "YAwareInfoNCE" else "--", "label": label}
        axes[0].loglog(n, cpu, **style)
        axes[1].semilogx(n, mib, **style)
    axes[0].set(xlabel="embeddings", ylabel="CPU seconds of both processes")
    axes[0].set_title("forward + backward; slope between the two largest")
    axes[1].set(xlabel="embeddings", ylabel="peak MiB of a process", ylim=(0, None))
    axes[1].set_title("memory, the interpreter included")
    axes[0].legend(fontsize="small")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="numbers of embeddings, multiples of 4")
    parser.add_argument("--d", type=int, default=128, help="dimensions of an embedding")
    parser.add_argument("--only", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--results", type=Path, required=True, help="JSON lines to add to and to draw from")
    arguments = parser.parse_args(sys.argv[1:] if "--case" not in sys.argv else [*sys.argv[1:], "--results", "-"])
    if arguments.case:
        name, n, d = arguments.case
        found = run_case(name, int(n), int(d))
        if os.environ["RANK"] == "0":
            print(json.dumps(found), flush=True)
        return
    if wrong := [n for n in arguments.sizes if n % 4 or n < 8]:
        parser.error(f"--sizes: two views on two processes need multiples of 4 from 8 on, found {wrong}")
    for name in arguments.only:
        for n in arguments.sizes:
            with arguments.results.open("a") as file:
                file.write(json.dumps(measure(name, n, arguments.d)) + "\n")
    results = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    results.sort(key=lambda r: (list(TITLES).index(r["loss"]), r["d"], r["n"]))
    print(table(results))
    plot(results)


if __name__ == "__main__":
    main()
