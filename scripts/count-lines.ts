/**
 * Counts the lines of the product: TypeScript below packages/<name>/src without tests, suites and the testkit.
 *
 *   node scripts/count-lines.ts
 *
 * The restructuring of the packages was to leave fewer lines than the 86,584 before it, for what existed then. Files that
 * features since then added are listed by their paths and counted apart; what these features added to older files is not.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");
const before = 86_584;

const features: Readonly<Record<string, RegExp>> = {
  gateway: /^gateway\/|^cli\/.*(?:gateway|api-?key)/,
  dashboard: /^dashboard\/|^cli\/.*dashboard|\/screen\.ts/,
  "lazy wake, pre-copy, tracing": /laz(?:y|ily)|\/tracing\/|live-files|show-loading/,
  "agent-sandbox": /agent-sandbox|\/sandbox/,
  "cluster network": /\/(?:cni|policy|dns|services)(?:\/|-|\.ts)|network-policy|kube-proxy|coredns/,
  "isolation of QEMU": /^qemu\/src\/process\/(?:jail|namespaces|isolation|loopback-guard|native-program)/,
  "tenants' identity": /^webhook\/src\/identity\/|source-access|check-owner|image-policy|guarded-request/,
  "scrub and replicas": /^registry\/src\/(?:scrub|replicas)\/|fsck/,
  "supervision and recovery":
    /supervis|restart-states|boot-watchdog|full-disk-resumer|store-marker|local-gc|obstacles|disk-space/,
  "machines that are never lost": /seen-deletions|snapshots\/claim|disk-chain|boot-fresh|name-owners/,
  "limits of servers": /http-connections|client-address|body-memory|json-shape|name-index/,
  "parity with the Go stack": /go-flags|go-types|password-hash|deletion-jobs|\/macos\//,
};

function countLines(file: string): number {
  return readFileSync(join(root, "packages", file), "utf8").split("\n").length - 1;
}

const files = globSync("*/src/**/*.{ts,tsx}", { cwd: join(root, "packages") }).filter(
  (file) => !/\.test\.|\/testing\/|^testkit\//.test(file),
);
const counts = new Map<string, number>();
for (const file of files) {
  const feature = Object.keys(features).find((name) => features[name]?.test(file)) ?? "what existed";
  counts.set(feature, (counts.get(feature) ?? 0) + countLines(file));
}
const existed = counts.get("what existed") ?? 0;
const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
for (const [name, count] of [...counts].toSorted(([, one], [, other]) => other - one))
  process.stdout.write(`${String(count).padStart(8)}  ${name}\n`);
process.stdout.write(`${String(total).padStart(8)}  in all\n`);
process.stdout.write(`what existed: ${existed} lines, ${existed - before} against ${before} before\n`);
