#!/usr/bin/env bash
# One sweep as one Slurm job: Ray starts on all of its nodes, the sweep runs on the first, and Ray stops with it.
#
#   sbatch --nodes=4 clusters/slurm.sh search_spaces/recall.yaml /shared/results
#
# Submitted from the checkout, on a file system that all nodes share, with its .venv (`make .venv/runtime`, or
# locks/gpu.lock for GPUs). Submitting the same line again carries on; so does Slurm itself when a node fails. Two minutes
# before the end of its time a job leaves checkpoints and ends.
# Nodes are whole: `ray stop` at the end of a job stops every Ray process of its user on the node.
#SBATCH --job-name=sweep
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
set -euo pipefail

space=${1:?usage: sbatch clusters/slurm.sh SPACE.yaml RESULTS [options of sweeper.run]}
results=${2:?usage: sbatch clusters/slurm.sh SPACE.yaml RESULTS [options of sweeper.run]}
cd "$SLURM_SUBMIT_DIR"
export PATH="$PWD/.venv/bin:$PATH"  # `ray symmetric-run` looks for `ray` there
command -v ray > /dev/null || { echo "no Ray in $PWD/.venv: submit from the checkout, after make .venv/runtime" >&2; exit 2; }

# Two jobs on one network must not find each other.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(ray get-auth-token --generate 2> /dev/null)
export RAY_AUTH_TOKEN

# Names of nodes may be known to the system and not to a name server.
export GRPC_DNS_RESOLVER=native
# TMPDIR comes from the shell that submitted, and all nodes may share it. The sockets of a node must be its own.
export RAY_TMPDIR=/tmp
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes%%$'\n'*}
gpus=()
if [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then gpus=("--num-gpus=$SLURM_GPUS_ON_NODE"); fi
srun --nodes="$SLURM_NNODES" --ntasks-per-node=1 \
  ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_NNODES" \
  --num-cpus="$SLURM_CPUS_PER_TASK" "${gpus[@]}" -- \
  python -m sweeper.run "$space" --results "$results" --address "$head:6379" "${@:3}" &
sweep=$! code=0

# Slurm's signal reaches this script alone: a signal to Ray would end Ray before the packs have left their checkpoints.
# Asked again and again, since the sweep may be about to begin.
trap 'while kill -0 "$sweep" 2> /dev/null; do python -m sweeper stop "$space" --results "$results" || true; sleep 5; done' TERM
while kill -0 "$sweep" 2> /dev/null; do wait "$sweep" && code=0 || code=$?; done
exit "$code"
