#!/bin/bash
# A run under SLURM that stops with a checkpoint before its time is over, and continues when it is requeued:
#   sbatch demos/slurm/job.sh params/natural_images.toml runs/natural_images
#SBATCH --job-name=petabatch
#SBATCH --ntasks=4                 # ranks: at most one per slice
#SBATCH --cpus-per-task=4          # threads per rank
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@300          # to all ranks, 300 seconds before the end: they write a checkpoint, exit code 3
#SBATCH --requeue
#SBATCH --open-mode=append         # one log for all parts
set -u
params=$1
run=$2

source .venv/bin/activate          # where petabatch and mpi4py are installed

if [ -d "$run" ]; then
    command=(petabatch resume "$run")
else
    command=(petabatch run "$params" --out "$run")
fi
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" "${command[@]}" --mpi --threads "$SLURM_CPUS_PER_TASK"
code=$?

if [ $code -eq 3 ]; then           # stopped early, with a checkpoint
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
