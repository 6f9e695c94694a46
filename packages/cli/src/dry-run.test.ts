import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { dryRunScript } from "./dry-run.ts";

const golden = join(import.meta.dirname, "..", "testdata", "dry-run.sh");

test("a dry run prints every command and touches nothing (golden; UPDATE_GOLDEN=1 writes it again)", async (t) => {
  const { COCOON_CACHE: cache, PATH: path } = process.env;
  t.after(() => {
    process.env["PATH"] = path;
    if (cache === undefined) delete process.env["COCOON_CACHE"];
    else process.env["COCOON_CACHE"] = cache;
  });
  await using directory = await temporaryDirectory();
  const ports = { etcd: 2379, etcdPeer: 2380, apiserver: 6443, controllerManager: 10257, scheduler: 10259 };
  const state = JSON.stringify({ version: 1, kubernetes: "1.36.3", ports });
  await writeFile(join(directory.path, "cluster.json"), state);
  const parts = { registry: 5000, registryHealth: 5001, node1: 10250, node1Health: 9091 };
  const more = {
    node2: 10350,
    node2Health: 9191,
    operatorHealth: 8081,
    operatorMetrics: 8080,
    webhook: 8443,
    webhookHealth: 9090,
    colocation: 9443,
    colocationHealth: 8000,
    colocationMetrics: 8082,
    dashboard: 8750,
    dashboardHealth: 8751,
    metricsServer: 4443,
    gateway: 3000,
    gatewayHealth: 3001,
  };
  await mkdir(join(directory.path, "parts"));
  await writeFile(
    join(directory.path, "parts", "parts.json"),
    JSON.stringify({ ports: { ...parts, ...more } }),
  );
  process.env["COCOON_CACHE"] = "/cache";
  process.env["PATH"] = "/bin";
  const script = await dryRunScript(directory.path, {
    settings: { auditLog: true, aggregation: true },
    partSettings: { metricsServer: true, legacy: true },
  });
  const text = script
    .replaceAll(directory.path, "/state")
    .replaceAll(homedir(), "~")
    .replaceAll(process.execPath, "node")
    .replaceAll(join(import.meta.dirname, "../../.."), "/source");
  if (process.env["UPDATE_GOLDEN"]) writeFileSync(golden, text);
  assert.equal(text, readFileSync(golden, "utf8"));
  assert.equal(readFileSync(join(directory.path, "cluster.json"), "utf8"), state);
});

test("the parts of a platform send their traces to the collector that up was given", async () => {
  await using directory = await temporaryDirectory();
  const otlpEndpoint = "http://127.0.0.1:4318";
  const script = await dryRunScript(join(directory.path, "new"), { partSettings: { otlpEndpoint } });
  assert.match(script, /OTEL_EXPORTER_OTLP_ENDPOINT='?http:\/\/127\.0\.0\.1:4318/);
  const without = await dryRunScript(join(directory.path, "other"), {});
  assert.doesNotMatch(without, /OTEL_EXPORTER_OTLP_ENDPOINT/);
});

test("a dry run in a new directory finds ports and leaves no directory behind", async () => {
  await using directory = await temporaryDirectory();
  const target = join(directory.path, "new");
  assert.match(await dryRunScript(target, {}), /--secure-port=\d+/);
  assert.equal(existsSync(target), false);
});
