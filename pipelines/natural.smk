# The papers' experiments with natural images: images -> pretrain -> embed -> evaluate, for every variant and seed, then one
# table, figures and a comparison. One command each:
#
#   snakemake --snakefile pipelines/natural.smk --profile pipelines/profiles/local \
#             --config experiment=linear size=small source=cifar10.tar.xz
#
# experiment: the files of pipelines/natural/; size: small, full. See pipelines/README.md.
import json
import sys
from pathlib import Path
from shlex import quote

sys.path.insert(0, str(Path(workflow.basedir).parent))

from neurocontrast.config.bases import bases_of
from neurocontrast.files import digest_of
from pipelines.natural.annotation import annotate
from pipelines.natural.columns import KEYS, add_columns
from pipelines.natural.experiment import MEASURES, load_natural
from pipelines.natural.probing import write_accuracy, write_probes
from pipelines.natural.results import summarise_experiment
from pipelines.workflow import set_options

asked, experiment = load_natural(config)
OUT = asked.folder
THREADS = 1 if asked.size == "small" else 4    # jobs of one thread beside one another use two cores best
GPU = 0 if asked.size == "small" else 1
ENVIRONMENT = "OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads}"


def folder_of(images):
    """Images made in the same way are made once, for all experiments of one `out`."""
    return f"{asked.out}/images/{images.get('name') or images['dataset']}-{digest_of(json.dumps(images, sort_keys=True))[:8]}"


PREPARED = experiment.prepared_images
# What simulated attributes are made for: all images, whichever are kept.
OMITTED = (*KEYS, "n_train", "n_validation", "n_test")
BARE = {key: value for key, value in PREPARED.items() if key not in OMITTED}
ATTRIBUTES = f"{OUT}/attributes.tsv"
if experiment.annotation is not None:
    PREPARED = PREPARED | {"attributes": ATTRIBUTES, "attributes_key": "participant_id"}
IMAGES = folder_of(PREPARED)
BARE_IMAGES = folder_of(BARE)
SECTIONS = {Path(IMAGES).name: PREPARED, Path(BARE_IMAGES).name: BARE}
ALL = expand("{variant}/seed-{seed}", variant=experiment.variants, seed=experiment.seeds)
FIRST = experiment.seeds[0]
MILESTONES = experiment.milestones
PROBED = any(MEASURES[name].features for name in experiment.measures)
RUN = f"{OUT}/{{variant}}/seed-{{seed}}"


wildcard_constraints:
    variant="|".join(experiment.variants),
    seed=r"\d+",
    layer="encoder|head",
    epoch=r"\d+",


rule all:
    input:
        f"{OUT}/results.tsv",
        f"{OUT}/comparison/comparison.html" if len(experiment.variants) > 1 else [],


rule images:
    input:
        lambda wildcards: ATTRIBUTES if SECTIONS[wildcards.images].get("attributes") == ATTRIBUTES else [],
    output:
        f"{asked.out}/images/{{images}}/participants.tsv",
    params:
        folder=f"{asked.out}/images/{{images}}",
        settings=lambda wildcards: set_options(
            {"images": {key: value for key, value in SECTIONS[wildcards.images].items() if key not in KEYS}}
        ),
        columns=lambda wildcards: {key: SECTIONS[wildcards.images][key] for key in KEYS if SECTIONS[wildcards.images].get(key)},
        seed=lambda wildcards: SECTIONS[wildcards.images].get("seed", 0),
    log:
        f"{OUT}/logs/{{images}}.log",
    run:
        shell("neurocontrast images {params.folder:q} --overwrite {params.settings} > {log:q} 2>&1")
        add_columns(output[0], **params.columns, seed=params.seed)


# Simulated weak annotation, from the classes of the images alone.
rule annotate:
    input:
        f"{BARE_IMAGES}/participants.tsv",
    output:
        ATTRIBUTES,
    run:
        annotate(input[0], settings=experiment.annotation, out=output[0])


# --resume starts anew where nothing is yet, and goes on where a job was killed or requeued.
PRETRAIN = (
    ENVIRONMENT + " neurocontrast pretrain --config {input.recipe:q} --participants {input.participants:q} "
    "--out {params.folder:q} --resume {params.settings} --set seed={wildcards.seed}"
)
EMBED = (
    ENVIRONMENT + " neurocontrast embed {params.folder:q} --config {input.recipe:q} --participants {input.participants:q} "
    "--out {output:q} --overwrite {params.settings}"
)


rule pretrain:
    input:
        participants=f"{IMAGES}/participants.tsv",
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/run/encoder.safetensors",
    params:
        folder=f"{RUN}/run",
        settings=lambda wildcards: set_options(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/pretrain-{{variant}}-{{seed}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        PRETRAIN + " > {log:q} 2>&1"


# One run that stops at every milestone, is embedded, and goes on.
rule pretrain_until:
    input:
        lambda wildcards: [
            f"{OUT}/{wildcards.variant}/seed-{wildcards.seed}/epoch-{epoch}.parquet"
            for epoch in MILESTONES
            if epoch < int(wildcards.epoch)
        ][-1:],
        participants=f"{IMAGES}/participants.tsv",
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/epoch-{{epoch}}.parquet",
    params:
        folder=f"{RUN}/run",
        settings=lambda wildcards: set_options(
            experiment.settings_of(wildcards.variant) | {"training.epochs": int(wildcards.epoch)}
        ),
    log:
        f"{OUT}/logs/pretrain-{{variant}}-{{seed}}-{{epoch}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        PRETRAIN + " > {log:q} 2>&1 && " + EMBED + " >> {log:q} 2>&1"


rule embed:
    input:
        f"{RUN}/epoch-{MILESTONES[-1]}.parquet" if MILESTONES else rules.pretrain.output,
        participants=f"{IMAGES}/participants.tsv",
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/{{layer}}.parquet",
    params:
        folder=f"{RUN}/run",
        settings=lambda wildcards: set_options(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/embed-{{variant}}-{{seed}}-{{layer}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        EMBED + " --set embedding.layer={wildcards.layer} > {log:q} 2>&1"


# What the papers measure and the package does not.
rule probe:
    input:
        expand(f"{RUN}/{{layer}}.parquet", layer=experiment.embedded_layers, allow_missing=True),
    output:
        f"{RUN}/probes.json",
    threads: THREADS
    run:
        write_probes(Path(output[0]).parent, experiment=experiment, seed=int(wildcards.seed))


rule classify:
    input:
        f"{RUN}/epoch-{{epoch}}.parquet",
    output:
        f"{RUN}/epoch-{{epoch}}.tsv",
    threads: THREADS
    run:
        write_accuracy(input[0], output[0], n_threads=threads)


rule evaluate:
    input:
        embeddings=rules.embed.output,
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/{{layer}}/evaluation.json",
    params:
        folder=f"{RUN}/{{layer}}",
        settings=lambda wildcards: set_options(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/evaluate-{{variant}}-{{seed}}-{{layer}}.log",
    threads: THREADS
    shell:
        ENVIRONMENT + " neurocontrast evaluate {input.embeddings:q} --config {input.recipe:q} --out {params.folder:q} "
        "--overwrite {params.settings} > {log:q} 2>&1"


# Table, figures and the experiment as it was run.
rule results:
    input:
        expand(f"{OUT}/{{run}}/{{layer}}/evaluation.json", run=ALL, layer=experiment.layers),
        expand(f"{OUT}/{{run}}/{{layer}}.parquet", run=ALL, layer=experiment.embedded_layers),
        expand(f"{OUT}/{{run}}/probes.json", run=ALL) if PROBED else [],
        expand(f"{OUT}/{{run}}/epoch-{{epoch}}.tsv", run=ALL, epoch=MILESTONES),
        experiment=str(asked.path),
    output:
        f"{OUT}/results.tsv",
        f"{OUT}/results.md",
    run:
        summarise_experiment(OUT, experiment=experiment)


# Every variant at the first seed, on the same test images.
rule compare:
    input:
        expand(f"{OUT}/{{variant}}/seed-{FIRST}/{experiment.layers[0]}/evaluation.json",
               variant=[experiment.reference, *(name for name in experiment.variants if name != experiment.reference)]),
    output:
        f"{OUT}/comparison/comparison.html",
    params:
        folders=lambda wildcards, input: [str(Path(path).parent) for path in input],
        names=",".join(
            experiment.variants[name].label.replace(",", "")
            for name in [experiment.reference, *(name for name in experiment.variants if name != experiment.reference)]
        ),
        folder=f"{OUT}/comparison",
    log:
        f"{OUT}/logs/compare.log",
    shell:
        "neurocontrast compare {params.folders:q} --names {params.names:q} --out {params.folder:q} --overwrite > {log:q} 2>&1"
