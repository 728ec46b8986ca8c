#!/usr/bin/env bash
# One sweep on a Ray cluster whose nodes are Slurm jobs that come and go: a small head job, and an array of workers.
#
#   head=$(sbatch --parsable --cpus-per-task=2 clusters/slurm-elastic.sh head search_spaces/recall.yaml /shared/results)
#   sbatch --array=1-16 --cpus-per-task=8 clusters/slurm-elastic.sh worker "$head"
#   sbatch --array=1-4 --gpus=1 --partition=preemptible clusters/slurm-elastic.sh worker "$head"      # more, at any time
#
# Submitted from the checkout, on a file system that all nodes share, with its .venv (`make .venv/runtime`, or
# locks/gpu.lock for GPUs). A worker may be preempted, cancelled or out of time: its packs go on elsewhere from their
# checkpoints. Slurm queues preempted jobs again. After the end of the head's time submit both lines again.
# The two jobs meet in .slurm/<head job>: an address, and a token that only their user can read.
#SBATCH --job-name=sweep
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
set -euo pipefail

usage="usage: sbatch clusters/slurm-elastic.sh head SPACE.yaml RESULTS [options of sweeper.run] | worker HEAD_JOB"
role=${1:?$usage}
cd "$SLURM_SUBMIT_DIR"
export PATH="$PWD/.venv/bin:$PATH"
command -v ray > /dev/null || { echo "no Ray in $PWD/.venv: submit from the checkout, after make .venv/runtime" >&2; exit 2; }
umask 077
# Names of nodes may be known to the system and not to a name server.
export RAY_AUTH_MODE=token GRPC_DNS_RESOLVER=native
# Ray would go on with a pack for 30 s and then leave in the middle of a step. Slurm may give less, and checkpoints are
# there.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0

# `scancel` and preemption send SIGTERM to every process of a job at once, and the Ray of a head would be gone before its
# sweep has asked the packs for checkpoints. So what runs shielded hears SIGINT alone, from this script.
shielded() {
  exec python -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell has its background processes ignore
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

# Ends a process with a signal when Slurm ends this job, and waits for the process either way.
wait_for() {
  local code=0 process=$1 signal=$2
  trap 'leaving=1; kill "-$signal" "$process" 2> /dev/null || true' TERM INT
  while kill -0 "$process" 2> /dev/null; do wait "$process" && code=0 || code=$?; done
  trap - TERM INT
  return "$code"
}
leaving=

head() {
  local space=${1:?$usage} results=${2:?$usage}
  local meeting=.slurm/$SLURM_JOB_ID port=$((20000 + SLURM_JOB_ID % 20000)) code=0
  local address=${SLURMD_NODENAME:-$(hostname)}:$port
  mkdir -p "$meeting"
  rm -f "$meeting"/{address,ended}
  RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  export RAY_AUTH_TOKEN
  printf %s "$RAY_AUTH_TOKEN" > "$meeting/token"
  shielded ray start --head --port="$port" --num-cpus=0 --num-gpus=0 --include-dashboard=false --block &
  local ray=$!
  trap 'kill -INT "$ray" 2> /dev/null || true' EXIT
  until ray health-check --address "$address" 2> /dev/null; do
    kill -0 "$ray" || { echo "Ray's head has ended" >&2; exit 1; }
    sleep 1
  done
  printf %s "$address" > "$meeting/address.new"
  mv "$meeting/address.new" "$meeting/address"
  shielded python -m sweeper.run "$space" --results "$results" --address "$address" "${@:3}" &
  wait_for $! INT || code=$?
  rm -f "$meeting/address"
  # A job that Slurm has ended may be queued again, and its workers wait for it.
  [[ -n $leaving ]] || touch "$meeting/ended"
  exit "$code"
}

worker() {
  local job=${1:?$usage}
  local meeting=.slurm/$job gpus=() token address ray watch
  if [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then gpus=("--num-gpus=$SLURM_GPUS_ON_NODE"); fi
  # Two workers on one machine must not share a folder. Names of sockets are short.
  own=$(mktemp -d /tmp/ray-XXXXXX)
  trap 'rm -rf "$own"' EXIT
  # The state of the head job: nothing if Slurm does not know the job, ? while Slurm does not answer.
  head_state() {
    local said
    if said=$(squeue --noheader --format=%T --jobs "$job" 2>&1); then
      printf %s "$said"
    elif [[ $said != *"Invalid job id"* ]]; then
      printf '?'
    fi
  }
  # Slurm knows whether the head is there: a head that was killed has left its files. One that completes still asks packs
  # for checkpoints.
  head_runs() { [[ $(head_state) =~ ^(RUNNING|COMPLETING|\?)$ ]]; }
  # Until the head job is no longer known to Slurm, or its sweep has ended.
  while [[ -z $leaving && ! -e $meeting/ended && -n $(head_state) ]]; do
    if [[ -e $meeting/address ]] && head_runs; then
      token=$(< "$meeting/token") address=$(< "$meeting/address")
      RAY_AUTH_TOKEN=$token ray start --address "$address" --num-cpus="${SLURM_CPUS_PER_TASK:-1}" \
        "${gpus[@]}" --temp-dir "$own" --block &
      ray=$!
      # Ray itself looks for a head that has ended for minutes.
      (while [[ -e $meeting/address ]] && head_runs; do sleep 5; done; kill -TERM "$ray" 2> /dev/null) &
      watch=$!
      wait_for "$ray" TERM || true
      kill "$watch" 2> /dev/null || true
    fi
    [[ -n $leaving ]] || sleep 5
  done
}

case $role in
  head | worker) "$role" "${@:2}" ;;
  *) echo "$usage" >&2; exit 2 ;;
esac
