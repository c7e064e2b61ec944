#!/bin/sh
# The main job, end to end, on simulated brains: what `make demo` runs.
# Usage: sh pipelines/demo.sh [FOLDER]      (with neurocontrast on the PATH)
set -eu

out=${1:-demo}
here=$(dirname "$0")
rm -rf "$out"
mkdir -p "$out"

run() { echo; echo "\$ $*"; "$@"; }

# Two cohorts from the same eight scanners: healthy people to learn from, and a study of other people. Its patients have
# brains that look 15 years older on average, and a focal atrophy; both are written in simulation.json.
run neurocontrast simulate "$out/healthy" --n-subjects 1000 --n-sites 8 --spacing-mm 6 --seed 0 --patients 0
run neurocontrast simulate "$out/study" --n-subjects 600 --n-sites 8 --spacing-mm 6 --seed 1 --site-seed 0 \
    --patients 0.5 --set simulation.patient_ageing_years=15
run neurocontrast check "$out/study/participants.tsv"

# The frozen encoder, and the same network untrained to compare with.
pretrain() {
    run neurocontrast pretrain --config "$here/../configs/brain/yaware.yaml" \
        --participants "$out/healthy/participants.tsv" --out "$out/$1" --set "data.cache_dir=$out/cache" \
        --set data.spacing_mm=6 --set "data.shape=[32,36,32]" --set training.probe_every=0 --set "training.epochs=$2"
}
pretrain run 4
pretrain untrained 0

for network in run untrained; do
    run neurocontrast embed "$out/$network" --participants "$out/study/participants.tsv" \
        --out "$out/$network-embeddings.parquet" --set "data.cache_dir=$out/cache"
    run neurocontrast evaluate "$out/$network-embeddings.parquet" --target diagnosis --out "$out/$network-diagnosis" \
        --set evaluation.n_jobs=2
    run neurocontrast evaluate "$out/$network-embeddings.parquet" --target age --out "$out/$network-age" --set evaluation.n_jobs=2
done
run neurocontrast compare "$out/run-diagnosis" "$out/untrained-diagnosis" --out "$out/comparison"
run neurocontrast report "$out/run-age"
run neurocontrast report "$out/run-diagnosis"

python "$here/demo_summary.py" "$out"
