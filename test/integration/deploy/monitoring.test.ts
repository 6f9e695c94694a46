/** Alerts and dashboards: Prometheus takes and fires them, and they speak only of metrics that our programs export. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createRegistry, Histogram } from "@cocoon/core";
import { runCommand } from "@cocoon/testkit";
import { parse } from "yaml";
import { createColocationMetrics } from "../../../packages/colocation/src/server/metrics.ts";
import { createAdmissionMetrics } from "../../../packages/kube/src/admission/metrics.ts";
import { exportCertificateMetrics } from "../../../packages/kube/src/certificates/serving-certificates.ts";
import { controllerMetrics } from "../../../packages/kube/src/controller/controller-metrics.ts";
import { requestMetrics } from "../../../packages/kube/src/client/calls.ts";
import { operatorMetrics } from "../../../packages/operator/src/metrics.ts";
import { RegistryMetrics } from "../../../packages/registry/src/metrics.ts";
import { createVkMetrics } from "../../../packages/vk/src/metrics.ts";
import { createUsageMetrics } from "../../../packages/vk/src/usage-metrics.ts";
import { createWebhookMetrics } from "../../../packages/webhook/src/metrics.ts";
import { buildPromtool } from "../../peers/promtool.ts";
import { root } from "./rendered.ts";

const monitoring = join(root, "deploy/monitoring");

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly annotations: { readonly summary?: string };
    }[];
  }[];
}

const rules = (parse(readFileSync(join(monitoring, "alerts.yaml"), "utf8")) as Rules).groups.flatMap(
  (group) => group.rules,
);

interface Dashboard {
  readonly uid: string;
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly expr: string }[];
  }[];
}

const dashboards = globSync("dashboards/*.json", { cwd: monitoring }).map(
  (path) => JSON.parse(readFileSync(join(monitoring, path), "utf8")) as Dashboard,
);

test("every rule is valid, fires when it should and is silent when it should be", async () => {
  const promtool = await buildPromtool();
  const checked = await runCommand(promtool, ["check", "rules", "--lint-fatal", "alerts.yaml"], {
    cwd: monitoring,
  });
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);
  const tested = await runCommand(promtool, ["test", "rules", "alerts.test.yaml"], { cwd: monitoring });
  assert.equal(tested.code, 0, tested.stdout + tested.stderr);
});

test("every rule has a summary, a case in which it fires and one in which it does not", () => {
  const { tests } = parse(readFileSync(join(monitoring, "alerts.test.yaml"), "utf8")) as {
    readonly tests: readonly { readonly name: string }[];
  };
  const names = new Set(tests.map(({ name }) => name));
  for (const { alert, annotations } of rules) {
    assert.ok(annotations.summary, alert);
    for (const outcome of ["fires", "stays silent"])
      assert.ok(names.has(`${alert} ${outcome}`), `${alert} ${outcome}`);
  }
  assert.equal(names.size, rules.length * 2);
});

test("dashboards speak PromQL", async () => {
  const promtool = await buildPromtool();
  const expressions = dashboards.flatMap(({ panels }) => panels.flatMap(({ targets }) => targets));
  assert.ok(expressions.length > 50);
  // One rule each, so that one run checks them all; Grafana's own variable is a duration.
  const recorded = expressions.map(({ expr }, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll("$__rate_interval", "5m"),
  }));
  const checked = await runCommand(promtool, ["check", "rules"], {
    input: JSON.stringify({ groups: [{ name: "panels", rules: recorded }] }),
  });
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);
});

/** Names of all metrics, with what a histogram makes of its name. */
function exported(): Set<string> {
  const registry = createRegistry("test");
  operatorMetrics(registry);
  createWebhookMetrics(registry, () => 0);
  createVkMetrics(registry);
  createUsageMetrics(registry, {} as Parameters<typeof createUsageMetrics>[1]);
  createColocationMetrics(registry);
  requestMetrics(registry);
  for (const prefix of ["cocoon_webhook", "cocoon_colocation_admission"])
    createAdmissionMetrics(registry, prefix);
  const certificates = { daysToExpiry: () => 1, readiness: () => undefined };
  for (const prefix of ["serving_certificate", "cocoon_colocation_certificate"])
    exportCertificateMetrics(registry, certificates, prefix);
  controllerMetrics(registry, {} as Parameters<typeof controllerMetrics>[1]);
  const all = [registry, new RegistryMetrics().registry].flatMap((each) => each.getMetricsAsArray());
  const made = all.flatMap((metric) => {
    const { name } = metric as unknown as { readonly name: string };
    return metric instanceof Histogram ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name];
  });
  return new Set([...made, ...spelledOut()]);
}

/** Metrics that are made where a test cannot reach: their names stand in the source as they are. */
function spelledOut(): string[] {
  const files = globSync("packages/*/src/**/*.ts", { cwd: root }).filter(
    (path) => !/\.test\.ts$|\/testing\//.test(path),
  );
  return files.flatMap((path) => {
    const text = readFileSync(join(root, path), "utf8");
    return [...text.matchAll(/(?:name: |name = |watch\(\s*|^\s*\[)"([a-z]+(?:_[a-z]+)+)"/gm)].flatMap(
      ([, name = ""]) => [name, `${name}_bucket`],
    );
  });
}

const words = new Set(
  "sum by rate increase histogram_quantile min max count topk and or on le group_left without avg".split(" "),
);

/** What an expression reads: names that are no function, label or text. */
function readMetrics(expression: string): string[] {
  const bare = expression
    .replaceAll(/"[^"]*"/g, "")
    .replaceAll(/\{[^}]*\}/g, "")
    .replaceAll(/\[[^\]]*\]/g, "")
    .replaceAll(/\b(by|on|without)\s*\([^)]*\)/g, "");
  return (bare.match(/[a-z_][a-z0-9_]*/gi) ?? []).filter((name) => !words.has(name));
}

test("every metric of alerts and dashboards exists in our code", () => {
  const known = exported();
  const used = [
    ...rules.map(({ alert, expr }) => ({ where: alert, expr })),
    ...dashboards.flatMap(({ uid, panels }) =>
      panels.flatMap(({ title, targets }) =>
        targets.map(({ expr }) => ({ where: `${uid}: ${title}`, expr })),
      ),
    ),
  ];
  const unknown = used.flatMap(({ where, expr }) => {
    const names = readMetrics(expr);
    assert.ok(names.length > 0, `${where}: ${expr}`);
    return names.filter((name) => !known.has(name)).map((name) => `${where}: ${name}`);
  });
  assert.deepEqual(unknown, []);
});
