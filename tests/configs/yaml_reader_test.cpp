#include <catch2/catch.hpp>
#include <string>

#include "configs/config_node.h"

using namespace simrun;

namespace {

struct ReadText {
  ConfigNode root;
  std::vector<Diagnostic> problems;
};

ReadText read(const std::string& text) {
  ReadText result;
  result.root = read_yaml(text, "f.yaml", result.problems);
  return result;
}

std::string first_problem(const std::string& text) {
  const ReadText result = read(text);
  if (result.problems.empty()) return "";
  const Diagnostic& problem = result.problems.front();
  return std::to_string(problem.position.line) + ":" + std::to_string(problem.position.column) + " " +
         problem.message;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int n = 0; n < times; ++n) all += text;
  return all;
}

}  // namespace

TEST_CASE("every value keeps its characters and its place, counted from 1") {
  const ReadText result = read("a: 010\nb:\n  c: [x, \"1\"]\n");
  REQUIRE(result.problems.empty());
  const ConfigNode* a = result.root.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->text == "010");
  CHECK_FALSE(a->quoted);
  CHECK(a->position == SourcePosition{"f.yaml", 1, 4});
  const ConfigNode* c = result.root.find("b")->find("c");
  REQUIRE(c != nullptr);
  CHECK(c->key_position == SourcePosition{"f.yaml", 3, 3});
  CHECK(c->children[1].quoted);
  CHECK(c->children[1].position == SourcePosition{"f.yaml", 3, 10});
}

TEST_CASE("JSON is read the same way") {
  const ReadText result = read("{\n\t\"a\": 1,\n\t\"b\": null,\n\t\"c\": [true, {\"d\": \"x\"}]\n}\n");
  REQUIRE(result.problems.empty());
  CHECK(result.root.find("a")->text == "1");
  CHECK(result.root.find("b")->kind == ConfigNode::Kind::null);
  CHECK(result.root.find("c")->children[1].find("d")->text == "x");
}

TEST_CASE("what YAML lets pass and a config must not is refused where it stands") {
  CHECK(first_problem("a: 1\nb: 2\na: 3\n") == "3:1 duplicate key 'a'");
  CHECK(first_problem("a: {b: 1, b: 2}\n") == "1:11 duplicate key 'b'");
  CHECK(first_problem("a: &x 1\n") == "1:4 YAML anchors (&name) are not accepted");
  CHECK(first_problem("a: !!int 3\n") == "1:4 YAML tags are not accepted: 'tag:yaml.org,2002:int'");
  CHECK(first_problem("a: 1\n---\nb: 2\n") == "2:1 a config is one YAML document; a second one starts here");
  CHECK(first_problem("? [a, b]\n: 1\n") == "1:3 a key must be a plain word, not a list or a map");
  CHECK(read("x: &x {b: 1}\n? *x\n: 1\n").problems.back().message ==
        "a key must be a plain word, not a list or a map");
  CHECK(first_problem("~: 1\n") == "1:1 a key is empty");
  CHECK(first_problem("a: 1\nb: \x04 2\n") == "2:4 control character 0x04: not a text file");
  CHECK(first_problem(std::string("a: 1\0b", 6)) == "1:5 control character 0x00: not a text file");
  CHECK(first_problem("a: [1, 2\n").starts_with("1:9 not valid YAML: "));
  CHECK(first_problem("a: b: c\n").starts_with("1:5 not valid YAML: "));
  CHECK(first_problem("\ta: 1\n").find("not valid YAML: ") != std::string::npos);
}

TEST_CASE(
    "anchors, aliases, merges and tags are all refused, and the rest is read as if they were not there") {
  const ReadText result = read(
      "a: &x {b: 1, c: [2]}\nd:\n  <<: *x\n  b: 3\ne: !!int 4\nf: &y five\ng: *y\nh: !!str 6\n"
      "i: {<<: [*x]}\nj: {\"<<\": 7}\n");
  std::string told;
  for (const Diagnostic& of : result.problems)
    told += std::to_string(of.position.line) + ":" + std::to_string(of.position.column) + " " +
            of.message.substr(5, of.message.find(' ', 5) - 5) + "; ";
  CHECK(told ==
        "1:4 anchors; 3:7 merges; 5:4 tags; 6:4 anchors; 7:4 aliases; 8:4 tags; 9:10 aliases; 9:9 merges; ");
  const ConfigNode& root = result.root;
  REQUIRE(root.children.size() == 8);  // a d e f g h i j
  CHECK(root.find("d")->find("b")->text == "3");
  CHECK(root.find("d")->find("c")->children[0].text == "2");
  CHECK_FALSE(root.find("e")->quoted);
  CHECK(root.find("g")->text == "five");
  CHECK(root.find("g")->position == SourcePosition{"f.yaml", 7, 4});
  CHECK(root.find("h")->quoted);
  CHECK(root.find("i")->find("b")->text == "1");
  CHECK(root.find("j")->find("<<")->text == "7");
}

TEST_CASE("a billion laughs is not laughed, and of its places 100 are named") {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'z'; ++name)
    bomb += std::string(1, name) + ": &" + name + " [" +
            repeated(std::string("*") + char(name - 1) + ", ", 9) + "x]\n";
  CHECK(first_problem(bomb) == "1:4 YAML anchors (&name) are not accepted");
  CHECK(read(bomb).problems.size() <= 100);
  CHECK(read(bomb).root.children.empty());
  CHECK(first_problem("a: &a [*a]\n") == "1:4 YAML anchors (&name) are not accepted");
  CHECK(first_problem("a: *nowhere\n").find("not valid YAML") != std::string::npos);
}

TEST_CASE("anchors within anchors hold no more than aliases may repeat") {
  const std::string list = "a: &a [&b [&c [" + repeated("x, ", 40'000) + "x]]]\nd: ";
  CHECK(read(list + "*c\n").root.children.empty());  // a third time 40 000
  CHECK(read(list + "1\n").root.children.size() == 2);
  CHECK(read("e: &e [x]\n" + list + "*e\n").root.children.size() == 3);
}

TEST_CASE("deep nesting is refused, not followed") {
  CHECK(first_problem(repeated("[", 200) + repeated("]", 200)) == "1:33 nested deeper than 32 levels");
  CHECK(first_problem(repeated("{a: ", 100) + repeated("}", 100)) == "1:129 nested deeper than 32 levels");
  CHECK(first_problem(repeated("- ", 100'000)) == "1:65 nested deeper than 32 levels");
  CHECK_FALSE(first_problem(repeated("[", 200'000)).empty());
  CHECK_FALSE(first_problem(repeated("{a: ", 100'000)).empty());
  CHECK_FALSE(first_problem(repeated("? ", 100'000)).empty());
  CHECK(first_problem(repeated("[", 32) + repeated("]", 32)).empty());
}

TEST_CASE("a text larger than any config is refused unread") {
  CHECK(first_problem(std::string((1U << 20U) + 1, 'a')) == "0:0 larger than 1 MiB: not a config");
}

TEST_CASE("merging overrides keys one by one, keeps each value's place, and a new `from` replaces") {
  ReadText base = read("a: {b: 1, c: 2}\nl: [1, 2]\ngpu: old\n");
  const ReadText over = read("\na: {c: 3, d: 4}\nl: [5]\ngpu: {memory: 8 GiB}\n");
  const ConfigNode both = merged(base.root, over.root);
  CHECK(both.find("a")->find("b")->text == "1");
  CHECK(both.find("a")->find("c")->text == "3");
  CHECK(both.find("a")->find("c")->position.line == 2);
  CHECK(both.find("a")->find("b")->position.line == 1);
  CHECK(both.find("a")->find("d")->text == "4");
  CHECK(both.find("l")->children.size() == 1);
  CHECK(both.find("gpu")->find("from")->text == "old");
  CHECK(both.find("gpu")->find("memory")->text == "8 GiB");
  const ConfigNode replaced = merged(both, read("gpu: {from: new}").root);
  CHECK(replaced.find("gpu")->find("memory") == nullptr);
}
