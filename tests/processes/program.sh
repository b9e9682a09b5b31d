#!/usr/bin/env bash
# `mpirun -n N simrun --execute`: the first process prints and writes what one process with threads would, the others are silent; a
# mistake is told once. 77 (ctest: skipped) without mpirun or plugin.
#
#   program.sh SIMRUN
set -uo pipefail
simrun=$1
if ! command -v mpirun >/dev/null || ! "$simrun" --doctor | grep -q '^transport  mpi  *yes'; then
  echo "program.sh: mpirun or the MPI plugin is missing:" >&2
  "$simrun" --doctor | grep '^transport  mpi' >&2
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
bad=0
expect() {  # what, then a command that must succeed
  if ! "${@:2}"; then
    echo "FAILED: $1" >&2
    cat error >&2
    bad=1
  fi
}

cat >job.yaml <<'YAML'
simrun: 1
model: {model_type: llama, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4,
  num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12}
training: {seq_length: 8, micro_batch_size: 1, global_batch_size: 8, precision: fp32}
parallelism: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2}
optimizer: {zero_stage: 1}
cluster: {from: dgx_a100, nodes: 1, gpus_per_node: 8}
YAML

# The result without what a clock or the transport has to do with.
same_for_all() { grep -v -E '"(measured_step_s|replayed_step_s|cores|measured|transport|processes)"' "$1"; }
execute=("$simrun" job.yaml --execute --dtype f64 --steps 4 --save-every 2 --json --no-html)
"${execute[@]}" --save threads.ckpt >threads.json 2>error
expect "threads" [ $? -eq 0 ]
for processes in 2 4 8; do
  timeout -k 5 120 mpirun -q --oversubscribe -n "$processes" "${execute[@]}" --save mpi.ckpt >mpi.json 2>error
  expect "$processes processes: exit code" [ $? -eq 0 ]
  expect "$processes processes: silent" [ ! -s error ]
  expect "$processes processes: transport" grep -q '"transport": "mpi"' mpi.json
  sed -i 's/mpi\.ckpt/threads.ckpt/' mpi.json
  expect "$processes processes: result" diff -q <(same_for_all threads.json) <(same_for_all mpi.json)
  expect "$processes processes: checkpoint" cmp threads.ckpt mpi.ckpt
done

execute=("$simrun" job.yaml --execute --dtype f64 --json --no-html)
timeout -k 5 60 mpirun -q --oversubscribe -n 3 "${execute[@]}" >result 2>error
expect "3 processes: exit code" [ $? -eq 2 ]
expect "3 processes: one message" [ "$(grep -c 'the plan has 8 ranks, which 3 processes' error)" -eq 1 ]
timeout -k 5 60 mpirun -q --oversubscribe -n 4 "${execute[@]}" --set training.micro_batch_size=3 >result 2>error
expect "mistake: exit code" [ $? -eq 2 ]
expect "mistake: told once" [ "$(grep -c 'error:' error)" -eq 1 ]
timeout -k 5 60 mpirun -q --oversubscribe -n 4 "${execute[@]}" --dtype f46 >result 2>error
expect "mistaken flag: exit code" [ $? -eq 2 ]
expect "mistaken flag: told once" [ "$(grep -c 'error:' error)" -eq 1 ]
exit $bad
