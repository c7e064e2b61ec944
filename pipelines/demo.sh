#!/bin/sh
# The main job, end to end, on simulated brains: what `make demo` runs.
# Usage: sh pipelines/demo.sh [FOLDER]      (with neurocontrast on the PATH)
set -eu

out=${1:-demo}
here=$(dirname "$0")
rm -rf "$out"
mkdir -p "$out"

run() { echo; echo "\$ $*"; "$@"; }

# Half of a command is imports and other work of one core: beside it runs another. `beside` starts commands whose output
# `joined` shows at their end, with the exit code of the first that failed; each process then has one thread.
log=$out/beside.log
second=
trap 'test -z "$second" || kill "$second" 2>/dev/null || true' EXIT
beside() {
    (set -e; one_thread; "$@") >"$log" 2>&1 &
    second=$!
}
joined() {
    status=0
    wait "$second" || status=$?
    second=
    cat "$log"
    rm "$log"
    return "$status"
}
one_thread() { export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1; }

# Two cohorts from the same eight scanners: healthy people to learn from, and a study of other people. Its patients have
# brains that look 15 years older on average, and a focal atrophy; both are written in simulation.json.
healthy() {
    run neurocontrast simulate "$out/healthy" --n-subjects 1000 --n-sites 8 --spacing-mm 6 --seed 0 --patients 0
}
study() {
    run neurocontrast simulate "$out/study" --n-subjects 600 --n-sites 8 --spacing-mm 6 --seed 1 --site-seed 0 \
        --patients 0.5 --set simulation.patient_ageing_years=15
    run neurocontrast check "$out/study/participants.tsv" --set data.n_workers=1
}
beside study
(one_thread; healthy)
joined

# The encoder, the same network untrained, and principal components of the voxels: what a network has to beat.
pretrain() {
    name=$1
    shift
    run neurocontrast pretrain --config small \
        --participants "$out/healthy/participants.tsv" --out "$out/$name" --set "data.cache_dir=$out/cache" \
        --set data.spacing_mm=6 --set "data.shape=[32,36,32]" --set training.probe_every=0 "$@"
}
embed() {
    run neurocontrast embed "$out/$1" --participants "$out/study/participants.tsv" \
        --out "$out/$1-embeddings.parquet" --set "data.cache_dir=$out/cache"
}
# How many labelled people does one need? The study's own voxels are asked too, in the first evaluation.
diagnosis() {
    name=$1
    shift
    run neurocontrast evaluate "$out/$name-embeddings.parquet" --target diagnosis --out "$out/$name-diagnosis" \
        --train-sizes 40,80,160,480 --n-draws 1 "$@"
}
age() {
    name=$1
    shift
    run neurocontrast evaluate "$out/$name-embeddings.parquet" --target age --out "$out/$name-age" "$@"
}
# Of the encoders to compare with, the scores alone.
scores="--set evaluation.voxels=off --set evaluation.confounds=false --set evaluation.new_site=false
    --set evaluation.outlyingness=false"
others() {
    embed "$1"
    diagnosis "$1" $scores
    age "$1" $scores
}

# The people of the study are all others, and more components of the healthy than half their number keep more of them.
components="encoder.beside={n_components: 800, share: 0.8}"
pretrain run --set training.epochs=2 --set "$components"
embed run

second_half() {
    age run
    pretrain untrained --set training.epochs=0 --set "$components"
    others untrained
}
first_half() {
    diagnosis run
    pretrain components --set "encoder={name: pca, n_components: 60}"
    others components
}
beside second_half
(one_thread; first_half)
joined

# Real people: weights that were learned at other hospitals, and a hospital that nothing was learned from.
people() {
    run neurocontrast predict measures "$here/../sample/measures_ds000222/measures.tsv" --out "$out/people.tsv"
    PYTHONPATH="$here/.." python "$here/demo_people.py" "$out/people.tsv" "$out/people.png"
}
beside people
run neurocontrast compare "$out/run-diagnosis" "$out/untrained-diagnosis" "$out/components-diagnosis" --out "$out/comparison"
run neurocontrast report "$out/run-age"
run neurocontrast report "$out/run-diagnosis"
python "$here/demo_summary.py" "$out"
joined
