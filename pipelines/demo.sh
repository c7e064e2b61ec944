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

# The encoder, the same network untrained, and principal components of the voxels: what a network has to beat.
pretrain() {
    name=$1
    shift
    run neurocontrast pretrain --config small \
        --participants "$out/healthy/participants.tsv" --out "$out/$name" --set "data.cache_dir=$out/cache" \
        --set data.spacing_mm=6 --set "data.shape=[32,36,32]" --set training.probe_every=0 "$@"
}
# The people of the study are all others, and more components of the healthy than half their number keep more of them.
beside="encoder.beside={n_components: 800, share: 0.8}"
pretrain run --set training.epochs=2 --set "$beside"
pretrain untrained --set training.epochs=0 --set "$beside"
pretrain components --set "encoder={name: pca, n_components: 60}"

# Of the encoders to compare with, the scores alone.
scores="--set evaluation.voxels=off --set evaluation.confounds=false --set evaluation.new_site=false
    --set evaluation.outlyingness=false"
for encoder in run untrained components; do
    run neurocontrast embed "$out/$encoder" --participants "$out/study/participants.tsv" \
        --out "$out/$encoder-embeddings.parquet" --set "data.cache_dir=$out/cache"
    test "$encoder" = run && how="" || how=$scores
    # How many labelled people does one need? The study's own voxels are asked too, in the first evaluation.
    run neurocontrast evaluate "$out/$encoder-embeddings.parquet" --target diagnosis --out "$out/$encoder-diagnosis" \
        --train-sizes 40,80,160,480 --n-draws 1 --set evaluation.n_jobs=2 $how
    run neurocontrast evaluate "$out/$encoder-embeddings.parquet" --target age --out "$out/$encoder-age" \
        --set evaluation.n_jobs=2 $how
done
run neurocontrast compare "$out/run-diagnosis" "$out/untrained-diagnosis" "$out/components-diagnosis" --out "$out/comparison"
run neurocontrast report "$out/run-age"
run neurocontrast report "$out/run-diagnosis"

python "$here/demo_summary.py" "$out"

# Real people: weights that were learned at other hospitals, and a hospital that nothing was learned from.
run neurocontrast predict measures "$here/../sample/measures_ds000222/measures.tsv" --out "$out/people.tsv"
PYTHONPATH="$here/../benchmarks" python "$here/demo_people.py" "$out/people.tsv" "$out/people.png"
