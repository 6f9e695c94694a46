import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { findSubresources, findVerb } from "./access.ts";
import { ExpiringMap } from "./access.ts";
import { readLogQuery } from "./logs.ts";
import { resourceMetricsText } from "./resource-metrics.ts";
import { findRoute } from "./routes.ts";
import { readCommandQuery } from "../stream/remote-command.ts";

const { signal } = new AbortController();

test("paths of a kubelet, with and without slash and uid; everything else is no route", () => {
  const target = { pod: { namespace: "ns", name: "p" }, container: "c" };
  assert.deepEqual(findRoute("/containerLogs/ns/p/c"), { kind: "logs", target });
  assert.deepEqual(findRoute("/exec/ns/p/c"), { kind: "exec", target });
  assert.deepEqual(findRoute("/exec/ns/p/some-uid/c"), { kind: "exec", target });
  assert.deepEqual(findRoute("/attach/ns/p/c"), { kind: "attach", target });
  assert.deepEqual(findRoute("/portForward/ns/p/uid"), { kind: "portForward", pod: target.pod });
  assert.deepEqual(findRoute("/runningpods/"), { kind: "runningPods" });
  for (const path of [
    "/",
    "/exec",
    "/exec/ns",
    "/exec/ns//c",
    "/exec/%/p/c",
    "/containerLogs/a/b/c/d",
    "/constructor",
    "/portForward/a/b/c/d",
  ]) {
    assert.equal(findRoute(path), undefined, path);
  }
});

test("who may do what: fine subresources first, and a stream is never just reading", () => {
  assert.deepEqual(findSubresources("/stats/summary"), ["stats", "proxy"]);
  assert.deepEqual(findSubresources("/metrics/resource"), ["metrics", "proxy"]);
  assert.deepEqual(findSubresources("/pods"), ["pods", "proxy"]);
  assert.deepEqual(findSubresources("/exec/a/b/c"), ["proxy"]);
  assert.equal(findVerb({ method: "GET", path: "/pods" }), "get");
  assert.equal(findVerb({ method: "GET", path: "/exec/a/b/c" }), "create");
  assert.equal(findVerb({ method: "GET", path: "/portForward/a/b" }), "create");
  assert.equal(findVerb({ method: "DELETE", path: "/containerLogs/a/b/c" }), "delete");
});

test("log queries: 0 is not absent, since and sinceTime exclude each other, nonsense is refused by name", () => {
  const read = (query: string) => readLogQuery(new URLSearchParams(query), signal, () => 100_000);
  assert.equal(read("").tailLines, undefined);
  assert.equal(read("tailLines=0").tailLines, 0);
  assert.equal(read("follow=true&timestamps=1").follow, true);
  assert.deepEqual(read("sinceSeconds=10").since, new Date(90_000));
  assert.deepEqual(read("sinceTime=1970-01-01T00:00:01Z").since, new Date(1_000));
  for (const query of [
    "tailLines=-1",
    "tailLines=x",
    "limitBytes=0",
    "follow=maybe",
    "sinceTime=soon",
    "sinceSeconds=1&sinceTime=1970-01-01T00:00:01Z",
  ]) {
    assert.throws(
      () => read(query),
      (error) => isFault(error, "badRequest"),
      query,
    );
  }
});

test("command queries: a stream must be requested, and a terminal has one output", () => {
  const read = (query: string) => readCommandQuery(new URLSearchParams(query));
  assert.deepEqual(read("command=a&command=b+c&input=1&output=1&tty=1"), {
    command: ["a", "b c"],
    stdin: true,
    stdout: true,
    stderr: false,
    tty: true,
  });
  assert.throws(() => read("command=a"), /at least 1 of stdin, stdout, stderr/);
  assert.throws(() => read("output=1&error=1&tty=1"), /tty and stderr/);
});

test("metrics carry labels safely and leave out what was not measured", () => {
  const time = "1970-01-01T00:00:02Z";
  const text = resourceMetricsText({
    node: { nodeName: "n", startTime: time, memory: { time, workingSetBytes: 5 } },
    pods: [
      {
        podRef: { name: 'a"b\\', namespace: "ns", uid: "u" },
        startTime: time,
        containers: [{ name: "c", startTime: time, cpu: { time, usageCoreNanoSeconds: 1_500_000_000 } }],
        cpu: { time, usageCoreNanoSeconds: 2e9 },
      },
    ],
  });
  assert.match(text, /^node_memory_working_set_bytes 5 2000$/m);
  assert.match(text, /^pod_cpu_usage_seconds_total\{namespace="ns",pod="a\\"b\\\\"\} 2 2000$/m);
  assert.match(text, /^container_cpu_usage_seconds_total\{container="c",.*\} 1\.5 2000$/m);
  assert.match(text, /^container_start_time_seconds\{.*\} 2 2000$/m);
  assert.ok(!text.includes("node_cpu_usage_seconds_total"));
});

test("what is remembered is forgotten in time and in number", () => {
  let now = 0;
  const map = new ExpiringMap<number>(2, () => now);
  map.set("a", 1, 10);
  map.set("b", 2, 20);
  assert.equal(map.get("a"), 1);
  now = 10;
  assert.equal(map.get("a"), undefined);
  map.set("c", 3, 20);
  map.set("d", 4, 20);
  assert.equal(map.get("b"), undefined);
  assert.equal(map.get("d"), 4);
});
