import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { defaultText, optionType, readConfig, type ConfigInput } from "./config.ts";
import { isFault } from "./fault.ts";

const program = {
  name: "demo",
  summary: "a program",
  options: {
    healthPort: { schema: optionType.port(8081), description: "where health is served" },
    resync: { schema: optionType.durationMs(15_000), description: "period", env: ["RESYNC_PERIOD"] },
    verbose: { schema: optionType.bool(false), description: "say more", boolean: true },
    pools: { schema: optionType.list(["default"]), description: "pools" },
    policy: {
      schema: optionType.choice(["alert", "destroy", "keep"], "alert"),
      description: "orphans",
      env: ["VK_ORPHAN_POLICY"],
    },
    token: { schema: optionType.optionalText(), description: "secret", secret: true },
  },
} as const;

function read(input: Partial<ConfigInput>) {
  const result = readConfig(program, { argv: [], env: {}, ...input });
  assert.equal(result.kind, "config");
  return result.config;
}

test("without anything, the defaults", () => {
  assert.deepEqual(read({}), {
    healthPort: 8081,
    resync: 15_000,
    verbose: false,
    pools: ["default"],
    policy: "alert",
    token: undefined,
  });
});

test("flags win over environment, environment over file", async () => {
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "config.json");
  await writeFile(file, JSON.stringify({ healthPort: 1, resync: "1s", pools: ["a", "b"] }));
  const config = read({
    argv: ["--config", file, "--health-port", "3", "--verbose"],
    env: { COCOON_HEALTH_PORT: "2", RESYNC_PERIOD: "1m" },
  });
  assert.deepEqual(config, {
    healthPort: 3,
    resync: 60_000,
    verbose: true,
    pools: ["a", "b"],
    policy: "alert",
    token: undefined,
  });
});

test("an empty variable counts as unset, the documented name comes before the mechanical one", () => {
  assert.equal(read({ env: { RESYNC_PERIOD: "", COCOON_RESYNC: "2s" } }).resync, 2_000);
  assert.equal(read({ env: { RESYNC_PERIOD: "3s", COCOON_RESYNC: "2s" } }).resync, 3_000);
});

test("all mistakes are reported at once, naming flag and fix", () => {
  const bad = { argv: ["--health-port", "70000", "--resync", "soon"], env: { VK_ORPHAN_POLICY: "explode" } };
  assert.throws(
    () => read(bad),
    (error) => {
      assert.ok(isFault(error, "invalid"));
      assert.deepEqual(
        error.causes.map((cause) => cause.field),
        ["--health-port", "--resync", "--policy"],
      );
      assert.match(error.message, /--resync: must be a duration such as/);
      assert.match(error.message, /--policy: must be one of alert, destroy, keep/);
      return true;
    },
  );
});

test("choices and log levels are accepted in any case", () => {
  assert.equal(read({ argv: ["--policy", "Destroy"] }).policy, "destroy");
  const leveled = {
    ...program,
    options: { level: { schema: optionType.logLevel(), description: "log level" } },
  };
  const result = readConfig(leveled, { argv: ["--level", "WARN"], env: {} });
  assert.ok(result.kind === "config");
  assert.equal(result.config.level, "warn");
  assert.throws(
    () => readConfig(leveled, { argv: ["--level", "loud"], env: {} }),
    /must be one of trace, debug/,
  );
});

test("unknown flags and unknown file keys are errors", async () => {
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "config.json");
  await writeFile(file, JSON.stringify({ healthPrt: 1 }));
  assert.throws(
    () => read({ argv: ["--helth-port", "1"] }),
    /Unknown option '--helth-port'.*see demo --help/,
  );
  assert.throws(() => read({ argv: ["--config", file] }), /unknown keys healthPrt/);
  assert.throws(
    () => read({ argv: ["--config", join(directory.path, "none")] }),
    /cannot read configuration file/,
  );
});

test("help lists every option with default and variables; the printed configuration hides secrets", () => {
  const help = readConfig(program, { argv: ["--help"], env: {} });
  assert.ok(help.kind === "print");
  assert.match(help.text, /--resync\n +period \(default 15s\)\n +env: RESYNC_PERIOD, COCOON_RESYNC/);
  for (const text of [
    "where health is served (default 8081)",
    "say more (default false)",
    "secret (default none)",
  ])
    assert.ok(help.text.includes(text), `${text} in ${help.text}`);
  const printed = readConfig(program, { argv: ["--print-config", "--token", "hunter2"], env: {} });
  assert.ok(printed.kind === "print");
  assert.ok(!printed.text.includes("hunter2"));
  const version = readConfig(program, { argv: ["--version"], env: {} });
  assert.ok(version.kind === "print");
  assert.match(version.text, /^demo \d+\.\d+\.\d+ \(revision .+, built .+\)\n$/);
  assert.equal(defaultText(program.options.pools), "default");
});

test("flags as Go's flag package takes them, and klog's are accepted", () => {
  const program = {
    name: "demo",
    summary: "",
    options: {
      leaderElect: {
        schema: optionType.bool(true),
        description: "",
        env: ["LEADER_ELECT"],
        boolean: true,
        lenientEnv: true,
      },
    },
  };
  const leads = (argv: readonly string[], env: Record<string, string> = {}) => {
    const result = readConfig(program, { argv, env });
    return result.kind === "config" && result.config.leaderElect;
  };
  assert.equal(leads(["-leader-elect=false", "--v=2", "--logtostderr"]), false);
  assert.equal(leads(["--leader-elect"]), true);
  assert.equal(leads([], { LEADER_ELECT: "F" }), false);
  assert.equal(leads([], { LEADER_ELECT: "perhaps" }), true, "a variable that cannot be read is not set");
  assert.throws(() => leads(["--leader-elect=perhaps"]), /must be true or false/);
});
