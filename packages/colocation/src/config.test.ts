import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "@cocoon/core";
import { colocationProgram } from "./config.ts";

test("the arguments of Koordinator's own Deployment start this server", () => {
  const argv = [
    "--enable-leader-election",
    "--metrics-addr=:8080",
    "--health-probe-addr=:8000",
    "--logtostderr=true",
    "--alsologtostderr",
    "--leader-election-namespace=koordinator-system",
    "--config-namespace=koordinator-system",
    "--v=4",
    "--feature-gates=",
    "--sync-period=0",
    "--enable-pprof",
    "--quota-update-conflict-fresh-get",
  ];
  const result = readConfig(colocationProgram, { argv, env: {} });
  assert.equal(result.kind, "config");
  assert.ok(result.kind === "config" && result.config.configNamespace === "koordinator-system");
});
