# New scans in a folder, predicted one by one: features, prediction and warnings of each as one file of JSON.
#
#   snakemake --snakefile pipelines/new_scan.smk --profile pipelines/profiles/local \
#             --config inbox=inbox run=RUN evaluation=EVAL out=predicted
#
# Nothing watches the folder: call it again when scans have arrived, from cron for instance. What is there is not made
# again. A scan that fails keeps no other from being predicted (the profile has keep-going); why is in out/logs, and it
# is tried again by the next call.
from pathlib import Path

INBOX, OUT = Path(config["inbox"]), config["out"]
ENDINGS = (".nii.gz", ".nii")
SCANS = {
    path.name.removesuffix(ending): str(path)
    for ending in ENDINGS
    for path in sorted(INBOX.glob(f"*{ending}"))
    if not path.name.startswith(".")
}
if not SCANS:
    raise WorkflowError(f"inbox: no file that ends in {' or '.join(ENDINGS)} is in '{INBOX}'.")


rule all:
    input:
        expand("{out}/{scan}.jsonl", out=OUT, scan=SCANS),


rule predict:
    input:
        scan=lambda wildcards: SCANS[wildcards.scan],
        run=f"{config['run']}/encoder.json",
        probe=f"{config['evaluation']}/probe/probe.json",
    output:
        record=f"{OUT}/{{scan}}.jsonl",
        origin=f"{OUT}/{{scan}}.json",
        table=f"{OUT}/{{scan}}.tsv",
    params:
        run=config["run"],
        evaluation=config["evaluation"],
    log:
        f"{OUT}/logs/{{scan}}.log",
    shell:
        "neurocontrast predict {params.evaluation:q} {input.scan:q} --run {params.run:q} "
        "--out {output.table:q} --overwrite --jsonl > {output.record:q} 2> {log:q}"
