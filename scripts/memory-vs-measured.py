#!/usr/bin/env python3
"""Predicted against published memory: every row of tests/data/measured_memory.csv.

  scripts/memory-vs-measured.py [--keep DIR]

Writes one job per row from the row's own columns and flags, compiles it and prints predicted and measured bytes per
GPU. What is predicted are the live tensors of the plan at their peak, or, for rows taken between steps, what stays:
weights, gradients, optimizer state. What an allocator or a driver holds beside them is a column of its own, the same
for all rows of a kind; it is not added up silently. Nothing is fitted to these rows. Needs python3; $SIMRUN or
build/release/simrun.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIMRUN = os.environ.get("SIMRUN", os.path.join(ROOT, "build/release/simrun"))
# What the sources leave out: Megatron-LM's functional tests read a GPT-2 sized vocabulary, BigScience's GPT-2's.
ASSUMED_VOCABULARY = 50257
# The named reserve of the clusters' presets: CUDA context, NCCL buffers. Only nvidia-smi sees it.
RESERVE = 2 << 30
# cuBLAS recommends a workspace of 32 MiB from Hopper on (cublasSetWorkspace). PyTorch takes one from its allocator (pull request
# 83461), and Transformer Engine, Megatron-LM's kernels, another.
CUBLAS_WORKSPACE = 32 << 20
GPUS = [("V100-32GB", "v100_sxm2_32gb"), ("V100-SXM2-32GB", "v100_sxm2_32gb"), ("V100", "v100_sxm2_16gb"),
        ("A100", "a100_sxm_80gb"), ("H100", "h100_sxm"), ("GB200", "h200_sxm")]


def flag(row, name, default=None):
    found = re.search(r"--" + name + r" (\S+)", row["flags"])
    return found.group(1) if found else default


def number(row, name, default=1):
    return int(row[name]) if row[name] else default


def latent_attention_model(row):
    """The model of Megatron-LM's --multi-latent-attention, in DeepSeek-V3's keys."""
    heads = number(row, "heads")
    dense = int(re.search(r"--moe-layer-freq \(\[0\]\*(\d+)", row["flags"]).group(1))
    shared, ffn = int(flag(row, "moe-shared-expert-intermediate-size")), int(flag(row, "moe-ffn-hidden-size"))
    return {"model_type": "deepseek_v3", "num_hidden_layers": number(row, "layers"), "hidden_size": number(row, "hidden"),
            "intermediate_size": int(flag(row, "ffn-hidden-size")), "moe_intermediate_size": ffn, "num_attention_heads": heads,
            "num_key_value_heads": heads, "vocab_size": number(row, "vocab", ASSUMED_VOCABULARY),
            "max_position_embeddings": number(row, "seq_len"), "n_routed_experts": number(row, "n_experts"),
            "n_shared_experts": shared // ffn, "num_experts_per_tok": number(row, "topk"), "first_k_dense_replace": dense,
            "moe_layer_freq": 1, "n_group": int(flag(row, "moe-router-num-groups")),
            "topk_group": int(flag(row, "moe-router-group-topk")), "topk_method": "noaux_tc", "scoring_func": "sigmoid",
            "q_lora_rank": int(flag(row, "q-lora-rank")), "kv_lora_rank": int(flag(row, "kv-lora-rank")),
            "qk_nope_head_dim": int(flag(row, "qk-head-dim")), "qk_rope_head_dim": int(flag(row, "qk-pos-emb-head-dim")),
            "v_head_dim": int(flag(row, "v-head-dim")), "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
            "tie_word_embeddings": False, "num_nextn_predict_layers": int(flag(row, "mtp-num-layers", 0))}


def is_megatron(row):
    return row["id"].startswith(("mlci", "MCI", "DGXC"))


def model_of(row):
    if row["id"].startswith("TT"):
        return {"from": "llama3-8b" if "8B" in row["model"] else "llama3-70b"}
    if flag(row, "multi-latent-attention") == "true":
        return latent_attention_model(row)
    model = {"model_type": "gpt", "num_layers": number(row, "layers"), "hidden_size": number(row, "hidden"),
             "num_attention_heads": number(row, "heads"), "vocab_size": number(row, "vocab", int(flag(row, "vocab-size", ASSUMED_VOCABULARY))),
             "max_position_embeddings": number(row, "seq_len")}
    if row["ffn_hidden"]:
        model["ffn_hidden_size"] = number(row, "ffn_hidden")
    if number(row, "kv_heads") != number(row, "heads"):
        model["num_query_groups"] = number(row, "kv_heads")
    if row["id"].startswith("bloom"):
        heads = number(row, "heads")
        return {"model_type": "bloom", "n_layer": number(row, "layers"), "hidden_size": number(row, "hidden"),
                "n_head": heads, "vocab_size": 250680, "attention_dropout": 0.0, "hidden_dropout": 0.0}
    if row["id"].startswith("DGXC"):  # Nemotron-4 15B (arXiv 2402.16819)
        model.update(position_embedding_type="rope", squared_relu=True, disable_bias_linear=True,
                     untie_embeddings_and_output_weights=True, attention_dropout=0.0, hidden_dropout=0.0)
    if flag(row, "untie-embeddings-and-output-weights") == "true":
        model["untie_embeddings_and_output_weights"] = True
    if flag(row, "disable-bias-linear") == "true":
        model["disable_bias_linear"] = True
    if flag(row, "swiglu") == "true":
        model["swiglu"] = True
    if flag(row, "normalization"):
        model["normalization"] = flag(row, "normalization")
    if flag(row, "position-embedding-type"):
        model["position_embedding_type"] = flag(row, "position-embedding-type")
    for key in ("hidden_dropout", "attention_dropout"):
        if flag(row, key.replace("_", "-")):
            model[key] = float(flag(row, key.replace("_", "-")))
    if number(row, "n_experts", 0):
        model.update(num_experts=number(row, "n_experts"), moe_router_topk=number(row, "topk"))
        if "second layer" in row["flags"]:
            model.update(moe_layer_freq=2, ffn_hidden_size=8 * number(row, "hidden"))
        frequency = flag(row, "moe-layer-freq")
        if frequency:
            model["moe_layer_freq"] = frequency
    return model


def optimizer_of(row):
    stage = {"fsdp": 3}.get(row["zero_stage"], row["zero_stage"] or 0)
    optimizer = {"zero_stage": int(stage)}
    if is_megatron(row):
        overlaps = row["id"].startswith("mlci") or "overlap_grad_reduce" in row["model"]
        if int(stage) < 2:
            optimizer.update(overlap_grad_reduce=overlaps, overlap_param_gather=overlaps and int(stage) == 1)
        if row["id"].startswith("DGXC"):  # NeMo's recipes reduce gradients in bf16
            optimizer["main_grads_dtype"] = "bf16"
    elif row["precision"] == "fp16":  # DeepSpeed and Alpa keep fp16 gradients
        optimizer["main_grads_dtype"] = "bf16"
    return optimizer


def job_of(row):
    sp = row["sp"] == "1" and number(row, "tp") > 1
    parallelism = {"tensor_model_parallel_size": number(row, "tp"), "pipeline_model_parallel_size": number(row, "pp"),
                   "virtual_pipeline_model_parallel_size": number(row, "vpp"),
                   "context_parallel_size": number(row, "cp"), "sequence_parallel": sp}
    if number(row, "ep") > 1:
        parallelism["expert_model_parallel_size"] = number(row, "ep")
    if flag(row, "expert-tensor-parallel-size") and number(row, "n_experts", 0):
        parallelism["expert_tensor_parallel_size"] = int(flag(row, "expert-tensor-parallel-size"))
    if number(row, "pp") > 1:
        parallelism["pipeline_schedule"] = "interleaved_1f1b" if number(row, "vpp") > 1 else "1f1b"
    layers, pp, vpp = number(row, "layers"), number(row, "pp"), number(row, "vpp")
    layout = flag(row, "pipeline-model-parallel-layout")
    if layout:
        stages = re.sub(r"\(([^)]*)\)\*(\d+)", lambda part: part[1] * int(part[2]), layout).count("|") + 1
        parallelism.update(pipeline_model_parallel_layout=layout, virtual_pipeline_model_parallel_size=stages // pp,
                           pipeline_schedule="interleaved_1f1b")
        if flag(row, "overlap-moe-expert-parallel-comm") == "true":
            parallelism["pipeline_schedule"] = "interleaved_1f1b_overlap"
    elif layers % (pp * vpp):
        even = -(-layers // pp)
        counts = [even] * pp
        for s in range(even * pp - layers):
            counts[s % pp if s % 2 == 0 else -1 - s // 2] -= 1
        parallelism["pipeline_model_parallel_layout"] = "|".join(
            ("E" if s == 0 else "") + f"t*{n}" + ("L" if s == pp - 1 else "") for s, n in enumerate(counts))
    flash = row["flash_attention"] != "0"  # not stated: Transformer Engine chooses a fused kernel
    training = {"seq_length": number(row, "seq_len"), "micro_batch_size": number(row, "micro_batch"),
                "global_batch_size": number(row, "global_batch"),
                "precision": "bf16" if row["precision"] == "fp8" and not SUPPORTS_FP8 else row["precision"],
                "attention": "flash" if flash else "unfused"}
    recompute = {"granularity": row["recompute"] or "none"}
    modules = flag(row, "recompute-modules")
    if modules and row["recompute"] == "selective":
        names = re.search(r'--recompute-modules \[?"?\[?([\w ]+)', row["flags"])
        recompute["modules"] = names.group(1).split() if names else ["core_attn"]
    gpu = next(name for text, name in GPUS if text in row["hardware"])
    per_node = min(number(row, "gpus_per_node", 8), number(row, "n_gpus"))
    cluster = {"from": "dgx_h100", "nodes": number(row, "n_gpus") // per_node, "gpus_per_node": per_node,
               "nics_per_node": per_node, "gpu": gpu}
    return {"simrun": 1, "model": model_of(row), "training": training, "parallelism": parallelism,
            "optimizer": optimizer_of(row), "recompute": recompute, "cluster": cluster}


SUPPORTS_FP8 = True


def reserve_of(row):
    """What is held beside the tensors, where the row counts it."""
    if row["kind"] == "nvidia_smi":
        return RESERVE
    counts_workspaces = "H100" in row["hardware"] or "GB200" in row["hardware"]  # and not Alpa's, of XLA on V100
    return (2 if is_megatron(row) else 1) * CUBLAS_WORKSPACE if counts_workspaces else 0


def bytes_between(row, folder):
    """torchtitan's selective checkpoint keeps every second product of a layer: more than modules [layernorm, mlp], less
    than [layernorm]."""
    bounds = [predicted_bytes(row, folder, {"granularity": "selective", "modules": modules})[0]
              for modules in (["layernorm", "mlp"], ["layernorm"])]
    return "keeps every second product, which no list of modules says: between " + " and ".join(
        f"{b / 2**30:.1f}" for b in bounds) + " GiB"


def predict(row, folder):
    if row["id"].startswith("TT") and row["recompute"] == "selective":
        return None, bytes_between(row, folder)
    return predicted_bytes(row, folder)


def predicted_bytes(row, folder, recompute=None):
    job = job_of(row)
    if recompute:
        job["recompute"] = recompute
    path = os.path.join(folder, row["id"] + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(job, file, indent=1)
    run = subprocess.run([SIMRUN, path, "--json", "--no-html"], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        return None, run.stderr.strip().splitlines()[0] if run.stderr else f"exit {run.returncode}"
    stages = json.loads(run.stdout)["stages"]
    # Megatron-LM's tests log the last rank (the 7B ones the first), everybody else the fullest.
    if row["id"].startswith("MCI"):
        stages = stages[-1:]
    elif row["id"].startswith("mlci"):
        stages = stages[:1]
    if row["kind"] == "allocated_between_steps":
        return max(sum(s["memory"][k] for k in ("weights", "gradients", "optimizer")) for s in stages), ""
    return max(s["peak_memory_bytes"] for s in stages), ""


def main():
    if not os.access(SIMRUN, os.X_OK):
        sys.exit(f"memory-vs-measured.py: {SIMRUN} is missing; scripts/run.sh builds it")
    folder = tempfile.mkdtemp()
    if sys.argv[1:2] == ["--keep"] and len(sys.argv) == 3:
        folder = sys.argv[2]
        os.makedirs(folder, exist_ok=True)
    with open(os.path.join(ROOT, "tests/data/measured_memory.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    kinds = {}
    print(f"{'row':12}{'model':34}{'predicted':>10}{'reserve':>9}{'measured':>10}{'error':>9}   GiB per GPU")
    for kind in ("allocated_between_steps", "allocated_peak", "reserved_peak", "nvidia_smi"):
        print(f"\n{kind}")
        for row in (r for r in rows if r["kind"] == kind):
            predicted, problem = predict(row, folder)
            measured = int(row["bytes"])
            if predicted is None:
                print(f"{row['id']:12}{row['model'][:32]:34}{'':19}{measured / 2**30:>10.2f}   not predicted: {problem}")
                kinds.setdefault(kind, []).append(None)
                continue
            reserve = reserve_of(row)
            error = (predicted + reserve) / measured - 1
            kinds.setdefault(kind, []).append(error)
            gib = [f"{b / 2**30:.2f}" for b in (predicted, reserve, measured)]
            print(f"{row['id']:12}{row['model'][:32]:34}{gib[0]:>10}{gib[1]:>9}{gib[2]:>10}{100 * error:>+8.1f} %")
    print()
    for kind, errors in kinds.items():
        known = [e for e in errors if e is not None]
        if known:
            print(f"{kind}: {len(known)} of {len(errors)} rows, mean absolute error "
                  f"{100 * sum(map(abs, known)) / len(known):.1f} %, bias {100 * sum(known) / len(known):+.1f} %")


if __name__ == "__main__":
    main()
