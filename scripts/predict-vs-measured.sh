#!/usr/bin/env bash
# Predicted against published measurements: Megatron-LM (SC 2021, table 1) and Korthikanti et al. (2022, table 5).
#
#   scripts/predict-vs-measured.sh [--keep DIR]
#
# Writes one job per row of tests/data/*.csv from the row's own columns, simulates it and prints a table with the errors. Nothing is
# fitted to these rows alone: the cluster is the preset dgx_a100, the framework that of the year, gradients are fp16 as Megatron-LM keeps
# them with --fp16. --keep leaves the job files in DIR.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
simrun=${SIMRUN:-$root/build/release/simrun}
if [ ! -x "$simrun" ]; then
  echo "predict-vs-measured.sh: $simrun is missing; scripts/run.sh builds it" >&2
  exit 2
fi

case "${1:-}" in
  --keep) jobs=${2:?--keep needs a folder}; mkdir -p "$jobs" ;;
  "") jobs=$(mktemp -d); trap 'rm -rf "$jobs"' EXIT ;;
  *) echo "predict-vs-measured.sh: unknown option '$1'; there is: --keep DIR" >&2; exit 2 ;;
esac

# CSV rows (header and # lines skipped) -> one job file each, named after the row's id.
write_jobs() {
  awk -F, -v folder="$jobs" -v framework="$2" '
    /^#/ { next }
    $1 == "id" { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    {
      file = folder "/" $column["id"] ".yaml"
      vpp = $column["vpp"]; pp = $column["pp"]
      schedule = vpp > 1 ? "interleaved_1f1b" : "1f1b"
      print "# " $column["model"] " on " $column["n_gpus"] " GPUs" > file
      print "simrun: 1" > file
      print "model: {model_type: gpt, num_layers: " $column["layers"] ", hidden_size: " $column["hidden"] \
        ", ffn_hidden_size: " $column["ffn_hidden"] ", num_attention_heads: " $column["heads"] \
        ", vocab_size: " $column["vocab"] ", max_position_embeddings: " $column["seq_len"] "}" > file
      print "training: {seq_length: " $column["seq_len"] ", micro_batch_size: " $column["micro_batch"] \
        ", global_batch_size: " $column["global_batch"] \
        ", precision: fp16, attention: unfused, attention_dropout: 0.1, hidden_dropout: 0.1}" > file
      print "parallelism:" > file
      print "  tensor_model_parallel_size: " $column["tp"] > file
      print "  pipeline_model_parallel_size: " pp > file
      print "  virtual_pipeline_model_parallel_size: " vpp > file
      print "  sequence_parallel: " ($column["sp"] == 1 ? "true" : "false") > file
      print "  pipeline_schedule: " schedule > file
      print "optimizer: {zero_stage: 0, main_grads_dtype: fp16}" > file
      print "recompute: {granularity: " $column["recompute"] "}" > file
      print "cluster: {from: dgx_a100, nodes: " $column["n_gpus"] / 8 "}" > file
      print "framework: " framework > file
      close(file)
      print $column["id"] "," $column["model"] "," $column["n_gpus"] "," $column["layers"] "," $column["hidden"] "," \
        $column["vocab"] "," $column["seq_len"] "," $column["tp"] "," pp "," vpp "," $column["sp"] "," $column["global_batch"] "," \
        $column["recompute"] "," $NF
    }' "$1"
}

# id -> "step_time_s fits", or "- -" if simrun refused the job.
simulate() {
  local json code=0
  json=$("$simrun" "$jobs/$1.yaml" --json --no-html 2>"$jobs/$1.err") || code=$?
  if [ $code -ne 0 ] && [ $code -ne 3 ]; then
    sed "s/^/$1: /" "$jobs/$1.err" >&2
    echo "- -"
    return
  fi
  tr ',{}' '\n' <<<"$json" | awk -F'"' '
    $2 == "step_time_s" && step == "" { step = $3; gsub(/[: ]/, "", step) }
    $2 == "fits" && fits == "" { fits = $3; gsub(/[: ]/, "", fits) }
    END { print (step == "" ? "-" : step), (fits == "" ? "-" : fits) }'
}

# $1 csv, $2 title, $3 what: tflops | seconds, $4 framework
compare() {
  local id rest
  echo "$2"
  printf '  %-10s %5s  %-16s  %-9s  %9s  %9s  %7s\n' model GPUs 'tp/pp/vpp' recompute measured predicted error
  write_jobs "$root/tests/data/$1" "$4" | while IFS=, read -r id rest; do
    echo "$id,$rest,$(simulate "$id" | tr ' ' ',')"
  done | awk -F, -v what="$3" '
    {
      model = $2; gpus = $3; layers = $4; h = $5; vocab = $6; s = $7; batch = $12; measured = $14; step = $15; fits = $16
      layout = $8 "/" $9 "/" $10 ($11 == 1 ? " sp" : "")
      if (step == "-") { printf "  %-10s %5d  %-16s  %-9s  %9s  %9s\n", model, gpus, layout, $13, measured, "failed"; failed = 1; next }
      predicted = step
      if (what == "tflops") {  # the definition of the paper, at the predicted time
        flops = 96 * batch * s * layers * h * h * (1 + s / (6 * h) + vocab / (16 * layers * h))
        predicted = flops / (step * gpus) / 1e12
      }
      error = predicted / measured - 1
      printf "  %-10s %5d  %-16s  %-9s  %9.2f  %9.2f  %+6.1f%%%s\n", model, gpus, layout, $13, measured, predicted, 100 * error,
        fits == "false" ? "  (predicted not to fit)" : ""
      sum += error < 0 ? -error : error; ++rows
    }
    END {
      if (rows) printf "  mean absolute percentage error %.1f%% over %d rows\n\n", 100 * sum / rows, rows
      exit failed
    }'
}

failed=0
compare sc21_table1.csv 'Megatron-LM, SC 2021, table 1: hardware TFLOP/s per GPU (more is faster)' tflops megatron_2021 || failed=1
compare korthikanti_table5.csv 'Korthikanti et al. 2022, table 5: iteration time in seconds' seconds megatron_2022 || failed=1
exit $failed
