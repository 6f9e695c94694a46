/** Units, environment files and the Dockerfile: what they name exists, and their steps work. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { chmod, cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { colocationProgram } from "@cocoon/colocation";
import { dashboardProgram } from "@cocoon/dashboard";
import { buildProgram } from "@cocoon/cli/program";
import { getEnvNames, readConfig, type Options, type Program } from "@cocoon/core";
import { fullTierOnly, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { operatorProgram } from "../../../packages/operator/src/config.ts";
import { serveProgram } from "../../../packages/registry/src/config.ts";
import { webhookProgram } from "../../../packages/webhook/src/config.ts";
import { findBundle, programs } from "../../../scripts/build/programs.ts";
import { buildKustomization } from "../../../scripts/generate/kustomize.ts";
import { root, version } from "./rendered.ts";

const units = globSync("packaging/systemd/*.service", { cwd: root });

describe("systemd", () => {
  test("takes every unit", async () => {
    assert.ok(units.length >= 5);
    await using directory = await temporaryDirectory();
    // A root with the programs, since a unit whose program is missing is a fault.
    const place = join(directory.path, "usr/local/bin");
    const unitPlace = join(directory.path, "etc/systemd/system");
    await mkdir(place, { recursive: true });
    await mkdir(unitPlace, { recursive: true });
    for (const program of Object.keys(programs)) {
      await writeFile(join(place, program), "#!/bin/sh\n");
      await chmod(join(place, program), 0o755);
    }
    for (const unit of units) {
      const text = (await readFile(join(root, unit), "utf8")).replaceAll("/usr/local/bin/", `${place}/`);
      await writeFile(join(unitPlace, basename(unit)), text);
    }
    const verified = await runCommand("systemd-analyze", [
      "verify",
      "--man=no",
      ...units.map((unit) => join(unitPlace, basename(unit))),
    ]);
    const complaints = verified.stderr.split("\n").filter((line) => line.includes(unitPlace));
    assert.deepEqual(complaints, [], verified.stderr);
    assert.equal(verified.code, 0, verified.stderr);
  });

  test("every unit runs a program of ours with the environment file that has an example", () => {
    for (const unit of units) {
      const text = readFileSync(join(root, unit), "utf8");
      const program = /^ExecStart=\/usr\/local\/bin\/(\S+)/m.exec(text)?.[1] ?? "";
      assert.ok(Object.hasOwn(programs, program), unit);
      const environment = /^EnvironmentFile=-\/etc\/cocoon\/(\S+)$/m.exec(text)?.[1] ?? "";
      assert.ok(existsSync(join(root, "packaging", `${environment}.example`)), `${unit}: ${environment}`);
    }
  });
});

test("every program has an environment example, and each line is a variable or a remark", () => {
  // vk-cocoon starts the page server and hands its settings over.
  const own = Object.keys(programs).filter((name) => name !== "cocoon-page-server");
  for (const program of own.filter((name) => findBundle(name) === name)) {
    const text = readFileSync(join(root, `packaging/${program}.env.example`), "utf8");
    const lines = text.split("\n").filter((line) => line !== "");
    assert.ok(
      lines.some((line) => /^#[A-Z][A-Z0-9_]*=/.test(line)),
      program,
    );
    for (const line of lines) assert.match(line, /^#( |[A-Z][A-Z0-9_]*=)/, `${program}: ${line}`);
  }
});

interface Container {
  readonly command: readonly [string, ...string[]];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
}

const tables: Readonly<Record<string, Program<Options>>> = {
  "cocoon-operator": operatorProgram,
  "cocoon-webhook": webhookProgram,
  "cocoon-colocation": colocationProgram,
  "cocoon-dashboard": dashboardProgram,
  epoch: serveProgram,
};

for (const path of ["config/default", "config/cert-manager", "config/legacy"])
  test(`every container of ${path} is started with settings that its program knows`, async () => {
    const deployments = buildKustomization(join(root, path)).filter(({ kind }) => kind === "Deployment");
    assert.ok(deployments.length > 0);
    for (const { metadata, spec } of deployments) {
      const { template } = spec as {
        readonly template: { readonly spec: { readonly containers: readonly Container[] } };
      };
      for (const { command, args = [], env = [] } of template.spec.containers) {
        if (command[0] === "cocoonctl") {
          await assertCocoonctl(command.slice(1));
          continue;
        }
        const table = tables[command[0]];
        assert.ok(table, metadata.name);
        const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
        // A wrong flag or value is a fault here, as it would be when the pod starts.
        assert.equal(readConfig(table, { argv: args, env: variables }).kind, "config");
        const known = new Set(
          Object.entries(table.options).flatMap(([key, option]) => getEnvNames(key, option)),
        );
        const strangers = Object.keys(variables).filter(
          (name) => !known.has(name) && !forNodeItself.has(name),
        );
        assert.deepEqual(strangers, [], metadata.name);
      }
    }
  });

async function assertCocoonctl([name = "", ...args]: readonly string[]): Promise<void> {
  const command = (await buildProgram("cocoonctl")).commands.find((each) => each.name() === name);
  assert.ok(command, `cocoonctl ${name}`);
  const known = new Set(command.options.map(({ long }) => long));
  for (const arg of args) assert.ok(known.has(arg.split("=")[0] ?? ""), `cocoonctl ${name} ${arg}`);
}

/** Read by Node and by the C library under it. */
const forNodeItself = new Set(["NODE_OPTIONS", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_"]);

interface Step {
  readonly word: string;
  readonly rest: string;
}

function steps(): Step[] {
  return readFileSync(join(root, "Dockerfile"), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [word = "", ...rest] = line.split(" ");
      return { word, rest: rest.join(" ") };
    });
}

const copies = (fromBuild: boolean) =>
  steps()
    .filter(({ word, rest }) => word === "COPY" && rest.startsWith("--from=") === fromBuild)
    .map(({ rest }) => rest.split(" ").filter((part) => !part.startsWith("--")));

describe("the Dockerfile", () => {
  test("copies what there is, and names this version", () => {
    for (const parts of copies(false))
      for (const source of parts.slice(0, -1)) assert.ok(existsSync(join(root, source)), source);
    assert.ok(readFileSync(join(root, "Dockerfile"), "utf8").includes(`cocoon:${version()} .`));
  });

  test(
    "builds an image whose programs run",
    { ...fullTierOnly("installs every package and builds the executable once more") },
    async () => {
      await using directory = await temporaryDirectory();
      const source = join(directory.path, "src");
      await mkdir(source);
      for (const parts of copies(false))
        for (const name of parts.slice(0, -1))
          await cp(join(root, name), join(source, name), {
            recursive: true,
            filter: (path) => !path.includes("/node_modules/"),
          });
      for (const { word, rest } of steps().filter((step) => step.word === "RUN")) {
        const ran = await runCommand("sh", ["-euc", rest], {
          cwd: source,
          env: { REVISION: "0123456789ab" },
          timeoutMs: 15 * 60_000,
        });
        assert.equal(ran.code, 0, `${word} ${rest}: ${ran.stderr.slice(-2_000)}`);
      }
      const image = join(directory.path, "image");
      for (const [from = ""] of copies(true))
        await cp(join(directory.path, from), image, { recursive: true, verbatimSymlinks: true });
      for (const program of ["cocoon-operator", "cocoon-webhook", "cocoon-colocation", "vk-cocoon"]) {
        const said = await runCommand(join(image, "usr/local/bin", program), ["--version"], {
          env: { PATH: "/nonexistent" },
        });
        assert.match(said.stdout, /revision 0123456789ab/, said.stderr);
      }
    },
  );
});
