#!/bin/bash
# Pretraining on a SLURM cluster, over as many jobs as it takes, to the weights of one that was never stopped:
#
#   sbatch pipelines/slurm_pretrain.sh RUN --config yaware --participants participants.tsv
#
# Five minutes before the time is over SLURM signals the tasks; they finish the batch, save, and end with code 75.
# The job is then queued again and goes on with --resume, as it does after preemption or the failure of a node.
# Set account, partition, time and devices to your site's, here or as options of sbatch: --ntasks-per-node=2
# --gpus-per-node=2. One task is one GPU, with --cpus-per-task cores to read and prepare its scans; without GPUs, one
# process of as many threads.
#SBATCH --job-name=neurocontrast
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -u
resumable=75
killed=138    # by the signal, before training could take it over

if [ $# -lt 1 ]; then
    echo "usage: sbatch $0 RUN [options of neurocontrast pretrain]" >&2
    exit 2
fi
run=$1
shift

# srun does not take --cpus-per-task over from sbatch since SLURM 22.05: each task would be left with one core.
cpus=${SLURM_CPUS_PER_TASK:-1}
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$cpus}"

# --wait, not --kill-on-bad-exit: that would kill tasks which are about to end with code 75, and lose the code.
srun --cpus-per-task="$cpus" --kill-on-bad-exit=0 --wait=300 \
    neurocontrast pretrain --out "$run" --resume "$@" \
    --set training.devices="$SLURM_NTASKS_PER_NODE" --set training.num_nodes="$SLURM_NNODES"
code=$?

if [ $code -eq $resumable ] || [ $code -eq $killed ]; then
    scontrol requeue "$SLURM_JOB_ID" && echo "queued again, to go on with $run" && exit 0
    echo "not queued again; sbatch the same to go on with $run" >&2
fi
exit $code
