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
  CHECK(first_problem("a: 1\nb: \x04 2\n") == "2:4 control character 0x04: not a text file");
  CHECK(first_problem(std::string("a: 1\0b", 6)) == "1:5 control character 0x00: not a text file");
  CHECK(first_problem("a: [1, 2\n").starts_with("1:9 not valid YAML: "));
  CHECK(first_problem("a: b: c\n").starts_with("1:5 not valid YAML: "));
  CHECK(first_problem("\ta: 1\n").find("not valid YAML: ") != std::string::npos);
}

TEST_CASE("a billion laughs stops at the first anchor") {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'z'; ++name)
    bomb += std::string(1, name) + ": &" + name + " [" +
            repeated(std::string("*") + char(name - 1) + ", ", 9) + "x]\n";
  CHECK(first_problem(bomb) == "1:4 YAML anchors (&name) are not accepted");
  CHECK(first_problem("a: &a [*a]\n") == "1:4 YAML anchors (&name) are not accepted");
  CHECK(first_problem("a: *nowhere\n").find("not valid YAML") != std::string::npos);
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
