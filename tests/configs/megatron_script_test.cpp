// What of bash the import of Megatron-LM's arguments reads.
#include <catch2/catch.hpp>

#include "configs/megatron_words.h"
#include "configs/shell_words.h"

namespace simrun {
namespace {

// "--flag value value" of each flag, joined by "; ".
std::string flags_in(const std::string& script) {
  std::vector<Diagnostic> problems;
  std::string text;
  for (const GivenFlag& flag : read_megatron_words(script, "run.sh", problems).flags) {
    text += (text.empty() ? "" : "; ") + flag.name;
    for (const ShellWord& value : flag.values) text += " " + value.text + (value.is_unknown ? "?" : "");
    if (flag.is_conditional) text += " (perhaps)";
  }
  for (const Diagnostic& problem : problems) text += " error: " + problem.message;
  return text;
}

TEST_CASE("arguments are what the command that starts the Python program has, whatever else is defined") {
  CHECK(flags_in("OTHER=(--c 3)\nTP=8\nARGS=(\n  --a $TP  # eight\n  # --no\n  --b \"x y\"\n)\n"
                 "ARGS+=(--d)\n"
                 "torchrun --nproc_per_node 8 --nnodes=2 --master_port 1 pretrain_gpt.py ${ARGS[@]} \\\n"
                 "  \"${ARGS[@]}\" \"$@\" 2>&1 | tee log --e\n") ==
        "--nproc-per-node 8; --nnodes 2; --a 8; --b x y; --d; --a 8; --b x y; --d");
}

TEST_CASE(
    "words of an unquoted variable are split where it is used, and keep the place where they are written") {
  std::vector<Diagnostic> problems;
  const ShellScript script =
      read_shell("A=\"--x 1 \\\n   --y 2\"\npython p.py $A '$A' \"$A\"\n", "run.sh", problems);
  REQUIRE(script.commands.size() == 1);
  const std::vector<ShellWord>& words = script.commands.front().words;
  REQUIRE(words.size() == 8);  // python p.py --x 1 --y 2 $A "--x 1 --y 2"
  CHECK(words[4].text == "--y");
  CHECK(words[4].position.line == 2);
  CHECK(words[4].position.column == 4);
  CHECK(words[6].text == "$A");
  CHECK(!words[6].is_unknown);
  CHECK(words[7].text == "--x 1    --y 2");
}

TEST_CASE("defaults and arithmetic are computed; what the file does not say stays as it is written") {
  CHECK(flags_in("N=2\nW=$(($N * (3+1) - 7 % 4))\npython p.py --w $W --d ${X:-5} --e ${N:-9} --u $U --c "
                 "$(nproc) --q `hostname` --z $((N/0)) --p ${1:-7}") ==
        "--w 5; --d 5; --e 2; --u $U?; --c $(...)?; --q `...`?; --z $((N/0))?; --p 7");
}

TEST_CASE("conditions on strings are decided, of others both branches may hold") {
  const std::string decided =
      "T=fp8\nif [[ \"$T\" == \"bf16\" ]]; then\n A=(--a)\nelif [ $T = fp8 ] && [ -n \"$T\" ]; then\n "
      "A=(--b)\n"
      "else\n A=(--c)\nfi\n[ -z \"$T\" ] && A+=(--d)\n[[ $T != x ]] || A+=(--e)\n[ 3 -lt 4 ] && A+=(--f)\n"
      "python p.py ${A[@]}\n";
  CHECK(flags_in(decided) == "--b; --f");
  CHECK(flags_in(
            "A=(--a)\nif [ -f /etc/x ]; then\n A+=(--b)\nelse A+=(--c); fi\nfor i in 1 2; do\n A+=(--i $i)\n"
            "done\npython p.py ${A[@]} --z\n") ==
        "--a; --b (perhaps); --c (perhaps); --i $i? (perhaps); --z");
  CHECK(flags_in("cd x && python p.py --a\n") == "--a");
}

TEST_CASE("a test counts for all commands that && and || join to it") {
  const std::string plain = "python p.py --b\n";
  CHECK(flags_in(plain + "[ a = b ] && cd y && python p.py --a\n") == "--b");
  CHECK(flags_in(plain + "[ a = b ] && cd y || python p.py --a\n") == "--a");
  CHECK(flags_in(plain + "[ a = a ] || cd y && python p.py --a\n") == "--a");
  CHECK(flags_in(plain + "[ a = b ] && cd y\npython p.py --a\n") == "--a");
  CHECK(flags_in("[ -f x ] && cd y && A=--a; python p.py $A --b\n") == "--a (perhaps); --b");
}

TEST_CASE("what stands behind an exit at the top of a script is never run") {
  const std::string more = "python pretrain_gpt.py --b\n";
  CHECK(flags_in("python pretrain_gpt.py --a\nexit 0\n" + more) == "--a");
  for (const char* other :
       {"f() {\nexit 1\n}\n", "function f {\nexit 1\n}\n", "cd x || { echo no\nexit 1\n}\n",
        "(cd x\nexit 1\n)\n", "if [ -f x ]; then\nexit\nfi\n", "grep x y &&\nexit\n", "[ a = b ] &&\nexit\n"})
    CHECK(flags_in(other + more) == "--b");
}

TEST_CASE("what eval assigns under a condition is there only perhaps") {
  CHECK(flags_in("B='--t 2'; if [ -f y ]; then eval 'T=$B'; fi; python p.py --a $T\n") ==
        "--a; --t 2 (perhaps)");
  CHECK(flags_in("B='--t 2'; if [ y = y ]; then eval 'T=$B'; fi; python p.py --a $T\n") == "--a; --t 2");
}

// "line:column message" of each problem.
std::string problems_in(const std::string& script) {
  std::vector<Diagnostic> problems;
  read_megatron_words(script, "run.sh", problems);
  std::string text;
  for (const Diagnostic& of : problems)
    text +=
        std::to_string(of.position.line) + ":" + std::to_string(of.position.column) + " " + of.message + "\n";
  return text;
}

TEST_CASE("of several Python programs the one that trains is read, else the last") {
  const std::string train = "torchrun --nnodes 2 x/pretrain_gpt.py --a 1\n";
  const std::string others =
      "python tools/preprocess_data.py --input x\npython tools/run_text_generation_server.py --a 2\n";
  CHECK(flags_in(train + others) == "--nnodes 2; --a 1");
  CHECK(flags_in(others + train) == "--nnodes 2; --a 1");
  CHECK(flags_in("CMD=\"pretrain_t5.py --a 1\"\n" + others + "ssh host \"python $CMD\"\n") == "--a 1");
  CHECK(flags_in(others) == "--a 2");
  CHECK(flags_in("python convert.py --c\n") == "--c");
  CHECK(flags_in("RUN=\"python pretrain_gpt.py --a 1\"\necho $RUN\neval $RUN\n") == "--a 1");
}

TEST_CASE("a second training command is refused where the script has it") {
  CHECK(problems_in("torchrun pretrain_gpt.py --a 1\ncd x && python y/pretrain_gpt.py --a 2\n"
                    "R=\"python pretrain_t5.py\"\nX=1 $R --a 3\n") ==
        "2:9 pretrain_gpt.py runs a second time; first it does on line 1\n"
        "4:5 pretrain_t5.py is another training command; the first, pretrain_gpt.py, is on line 1\n");
  const std::string held = "A=\"python pretrain_gpt.py --a 1\"\nB=\"python pretrain_t5.py --b 2\"\n";
  CHECK(flags_in(held + "ssh host \"$A\"\n") == "--a 1");
  CHECK(flags_in(held + "ssh host \"${B:-x}\"\n") == "--b 2");
  CHECK(flags_in(held + "python finetune.py --c\n") == "--c");
  CHECK(problems_in(held + "ssh host \"$A; $B\"\n") == problems_in(held));
  CHECK(problems_in(held) ==
        "2:4 pretrain_t5.py is another training command; the first, pretrain_gpt.py, is on line 1\n");
}

TEST_CASE("the loop or condition that a training command stands in is named once, where it begins") {
  CHECK(problems_in("ARGS=\"--a 1 --b 2\"\nfor TP in 1 2 4; do\n  if [ $TP = 4 ]; then\n"
                    "    torchrun pretrain_gpt.py $ARGS --c $TP\n  fi\ndone\n") ==
        "2:1 pretrain_gpt.py runs in this loop\n");
  const std::string conditional =
      " pretrain_gpt.py runs only under a condition whose outcome the file does not say\n";
  CHECK(problems_in("echo\n  if [ -f x ]; then python pretrain_gpt.py --a; fi\n") == "2:3" + conditional);
  CHECK(problems_in("true; [ -f x ] && [ a = a ] && cd y && python pretrain_gpt.py --a\n") ==
        "1:7" + conditional);
  CHECK(problems_in("true; [ -f x ] && bash -c 'python pretrain_gpt.py --a'\n") == "1:7" + conditional);
  CHECK(problems_in("for i in 1 2; do echo $i --b; done\npython pretrain_gpt.py --a\n").empty());
}

TEST_CASE("the script that bash -c is given is read, at the places where it is written") {
  CHECK(flags_in("A=(--a 1 \\\n  --b)\nsrun --x=y bash -c \"cd z; torchrun --nnodes $N p.py ${A[@]} --r "
                 "\\$RANK --c 'x y'\"\n") == "--nnodes $N?; --a 1; --b; --r $RANK?; --c x y");
  CHECK(flags_in("T=2\nsrun /bin/sh -euo pipefail -c 'python p.py --t $T' \\\n  > log 2>&1\n") == "--t 2");
  CHECK(flags_in("bash -c 'python p.py --a \"$@\"' bash --b\n") == "--a");
  CHECK(flags_in("bash -c -e -- 'python p.py --a' x y\n") == "--a");
  CHECK(flags_in("A=(python p.py --a)\nbash -c \"${A[@]}\" --b\n") == "--a");
  CHECK(flags_in("C='python p.py --a'\nC+=' --b \"x y\"'\neval \"$C\"\n") == "--a; --b x y");
  CHECK(flags_in("bash run.sh -c 'python p.py --a'\npython p.py --b\n") == "--b");
  std::vector<Diagnostic> problems;
  const ShellScript script =
      read_shell("T=\"--t 2\"\nbash -c \"\n  python p.py \\\"--a\\\" $T\"\n", "run.sh", problems);
  REQUIRE(script.commands.size() == 1);
  const std::vector<ShellWord>& words = script.commands.front().words;
  REQUIRE(words.size() == 5);
  CHECK(script.commands.front().position == SourcePosition{"run.sh", 3, 3});
  CHECK(words[2].text == "--a");
  CHECK(words[2].position == SourcePosition{"run.sh", 3, 17});
  CHECK(words[3].position == SourcePosition{"run.sh", 1, 4});
}

TEST_CASE("#SBATCH lines say how many nodes, tasks and GPUs Slurm's variables count") {
  CHECK(flags_in("#SBATCH -N 4 --ntasks-per-node=8 # eight\n#SBATCH --gres=gpu:h100:8\n"
                 "torchrun --nnodes $SLURM_NNODES --nproc-per-node ${SLURM_GPUS_ON_NODE:-1} p.py "
                 "--w $((SLURM_JOB_NUM_NODES * 8)) --n $SLURM_NTASKS --g $SLURM_GPUS_PER_NODE\n") ==
        "--nnodes 4; --nproc-per-node 8; --nnodes 4; --nproc-per-node 8; --w 32; --n 32; "
        "--g $SLURM_GPUS_PER_NODE?");
  CHECK(flags_in("#SBATCH --nodes=2-4\n#SBATCH --gpus-per-node a100:4\npython p.py --n $SLURM_NNODES "
                 "--g $SLURM_GPUS_PER_NODE\n") ==
        "--nnodes 2-4; --nproc-per-node 4; --n $SLURM_NNODES?; --g 4");
  const auto gpus = [](const std::string& option) {
    return flags_in("#SBATCH\t" + option + "\npython p.py --a\n");
  };
  for (const char* option : {"--gres=gpu:v100:8,lscratch:100", "--gres=lscratch:100,gpu:8",
                             "--gpus-per-node=a100:8", "--gres gpu:3g.20gb:8"})
    CHECK(gpus(option) == "--nproc-per-node 8; --a");
  for (const char* option : {"--gres=gpu:a100", "--gres=gpu", "--gres=gpu:3g.20gb,tmp"})
    CHECK(gpus(option) == "--nproc-per-node 1; --a");
  CHECK(gpus("--gres=lscratch:100,gpus:2") == "--a");
  CHECK(gpus("--gpus-per-node=v100:3,k80:5") == "--nproc-per-node v100:3,k80:5; --a");
  CHECK(gpus("--gres=gpu:a:2,gpu:b:4") == "--nproc-per-node gpu:a:2,gpu:b:4; --a");
}

TEST_CASE("without a command, lists and variables of flags are the arguments; else every word is") {
  CHECK(flags_in("MODEL_ARGS=(\n --a 1\n)\nX=7\nMORE=\"--b $X\"\n") == "--a 1; --b 7");
  CHECK(flags_in("--a 1\n--b\n--c='x y' # --d\n") == "--a 1; --b; --c x y");
  CHECK(flags_in("#SBATCH --nodes=64 --gpus-per-node=8\nopts=\"--a 1\"\nrun=\"python -u p.py ${opts}\"\n"
                 "srun sh -c \"${run}\"\n") == "--nnodes 64; --nproc-per-node 8; --a 1");
}

TEST_CASE("here documents, substitutions and redirections are passed over") {
  CHECK(
      flags_in("cat <<EOF > f\npython p.py --no\nEOF\nX=$(ls \"a)\" | wc)\npython p.py --a >out 2>&1 &\n") ==
      "--a");
}

TEST_CASE("what is never closed is an error where it opens") {
  const auto problem_at = [](const std::string& text) {
    std::vector<Diagnostic> problems;
    read_shell(text, "run.sh", problems);
    REQUIRE(problems.size() == 1);
    return std::pair(problems.front().position.line, problems.front().position.column);
  };
  CHECK(problem_at("a\nB='x\n") == std::pair(2, 3));
  CHECK(problem_at("A=(--x\n--y\n") == std::pair(1, 3));
  CHECK(problem_at("a $(b\n") == std::pair(1, 4));
}

TEST_CASE("scripts that would grow without end are refused") {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n", nested = "A=";
  for (int line = 0; line < 40; ++line) doubling += "A=$A$A\n";
  for (int depth = 0; depth < 100'000; ++depth) nested += "${B:-";
  const std::string within = "X='eval $X; eval $X'\neval $X\n";
  for (const std::string& script : {doubling, nested, within}) {
    std::vector<Diagnostic> problems;
    read_shell(script, "run.sh", problems);
    CHECK(problems.size() == 1);
  }
}

// No prefix of a script makes the reader run for ever or past its end.
TEST_CASE("every prefix of a script is read to its end") {
  const std::string script =
      "A=(--a \"$X\" ${Y:-'z'} $((1+2)) `b`)\nif [[ -z $A ]]; then B+=x; fi <<E\nq\nE\ncase $x in a) ;; "
      "esac\n"
      "f() { python p.py \"${A[@]}\" \\\n --b; } | tee\nbash -c \"x '$A' \\\"z\\\"\"\n";
  for (std::size_t length = 0; length <= script.size(); ++length) {
    std::vector<Diagnostic> problems;
    read_shell(script.substr(0, length), "run.sh", problems);
    CHECK(problems.size() <= 1);
  }
}

}  // namespace
}  // namespace simrun
