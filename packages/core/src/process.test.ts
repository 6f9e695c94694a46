import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { isAlive, tryIdentify } from "./process-identity.ts";
import { lastLines, startProgram, stopProcess } from "./process.ts";

test("a program runs, logs to its file and stops on request", async () => {
  await using directory = await temporaryDirectory();
  const logFile = join(directory.path, "log");
  await using program = await startProgram({
    name: "demo",
    command: "sh",
    args: ["-c", "echo hello; exec sleep 60"],
    logFile,
  });
  assert.ok(isAlive(program.identity));
  await eventually(() => assert.deepEqual(lastLines(logFile, 1), ["hello"]));
  await program.stop();
  assert.deepEqual(await program.exited, { code: null, signal: "SIGTERM" });
  assert.equal(isAlive(program.identity), false);
  assert.equal(await readFile(logFile, "utf8"), "hello\n");
});

test("one that ignores TERM is killed after its grace", async () => {
  await using directory = await temporaryDirectory();
  const logFile = join(directory.path, "log");
  const program = await startProgram({
    name: "stubborn",
    command: "sh",
    args: ["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
    logFile,
  });
  await eventually(() => assert.deepEqual(lastLines(logFile, 1), ["ready"]));
  await program.stop({ graceMs: 50 });
  assert.equal((await program.exited).signal, "SIGKILL");
});

test("a missing program is a clear error; one that ends at once is not alive", async () => {
  await using directory = await temporaryDirectory();
  const logFile = join(directory.path, "log");
  await assert.rejects(
    startProgram({ name: "ghost", command: "/no/such/program", args: [], logFile }),
    /cannot start ghost \(\/no\/such\/program\)/,
  );
  const quick = await startProgram({ name: "quick", command: "true", args: [], logFile });
  assert.equal((await quick.exited).code, 0);
  assert.equal(isAlive(quick.identity), false);
});

test("another process with the same pid is not the same process", async () => {
  const self = tryIdentify(process.pid);
  assert.ok(self);
  assert.ok(isAlive(self));
  const earlier = { ...self, startTicks: self.startTicks - 1 };
  const beforeReboot = { ...self, bootId: "another" };
  assert.equal(isAlive(earlier), false);
  assert.equal(isAlive(beforeReboot), false);
  await stopProcess(earlier); // must not hit us
});

test("the last lines of a file, of a short one and of none", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "log");
  await writeFile(path, "one\ntwo\nthree\n");
  assert.deepEqual(lastLines(path, 2), ["two", "three"]);
  assert.deepEqual(lastLines(path, 9), ["one", "two", "three"]);
  assert.deepEqual(lastLines(join(directory.path, "none"), 3), []);
});

test("a process whose first thread has ended lives until its last one does", async (t) => {
  await using directory = await temporaryDirectory();
  const [source, binary] = [join(directory.path, "threads.c"), join(directory.path, "threads")];
  await writeFile(
    source,
    `#include <pthread.h>
     #include <unistd.h>
     static void *wait_for_input(void *none) { char byte; read(0, &byte, 1); _exit(0); return none; }
     int main(void) { pthread_t other; pthread_create(&other, 0, wait_for_input, 0); pthread_exit(0); }`,
  );
  const built = await runCommand("gcc", ["-pthread", "-o", binary, source]);
  assert.equal(built.code, 0, built.stderr);
  const child = spawn(binary, { stdio: ["pipe", "ignore", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  await once(child, "spawn");
  const identity = tryIdentify(child.pid ?? 0);
  assert.ok(identity);
  await eventually(async () =>
    assert.match(
      await readFile(`/proc/${child.pid}/stat`, "latin1"),
      /\) Z /,
      "its first thread is a zombie",
    ),
  );
  assert.equal(isAlive(identity), true);
  child.stdin.end("x");
  await exited;
  assert.equal(isAlive(identity), false);
});
