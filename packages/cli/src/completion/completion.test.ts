import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { buildProgram, visibleCommands } from "../program.ts";
import { candidatesFor } from "./candidates.ts";
import { completionScript } from "../commands/completion.ts";

const program = await buildProgram("cocoonctl");
const at = (...words: string[]) => {
  const { words: found, kinds } = candidatesFor(words, program);
  return { words: found, kinds };
};

test("commands, their families and their options are completed from the tree", () => {
  assert.deepEqual(at("su").words, ["suspend"]);
  assert.ok(!at("").words.some((word) => word.startsWith("__")));
  assert.deepEqual(at("snapshot", "r").words, ["rm", "restore"]);
  assert.deepEqual(at("get", "-o", "").words, ["table", "wide", "json", "yaml", "name"]);
  assert.deepEqual(at("suspend", "--ti").words, ["--timeout"]);
});

test("names are looked up by what the command takes there", () => {
  assert.deepEqual(at("suspend", "").kinds, ["set"]);
  assert.deepEqual(at("suspend", "-n", "team", "a", "").kinds, ["set"], "any number of them");
  assert.deepEqual(at("migrate", "demo", "").kinds, ["node"]);
  assert.deepEqual(at("migrate", "demo", "--to", "").kinds, ["node"]);
  assert.deepEqual(at("exec", "").kinds, ["machine"]);
  assert.deepEqual(at("exec", "demo", "--", "").kinds, [], "behind it the guest's words begin");
  assert.deepEqual(at("drain", "").kinds, ["node"]);
  assert.deepEqual(candidatesFor(["suspend", "-n", "team", "--context", "c", ""], program).options, {
    namespace: "team",
    context: "c",
  });
});

test("every shell has a script; bash takes it", () => {
  for (const shell of ["bash", "zsh", "fish"]) assert.match(completionScript(shell), /__complete -- /, shell);
  assert.throws(() => completionScript("tcsh"), /use bash, zsh, fish/);
  execFileSync("bash", ["-n"], { input: completionScript("bash") });
});

test("every command explains itself, with examples", () => {
  const bare = ["kubectl", "version", "snapshot", "apikey"];
  for (const command of visibleCommands(program).flatMap((each) => [each, ...each.commands])) {
    assert.notEqual(command.description(), "", command.name());
    if (bare.includes(command.name())) continue;
    let help = "";
    command.configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    assert.match(help, /\nExamples:\n {2}/, command.name());
  }
});
