/**
 * The kubelet: how fast a guest is reached through the API server compared with directly, and what 500 pods cost.
 *
 * - guest access: a real guest under QEMU; exec over WebSocket, `kubectl port-forward` over SPDY and WebSocket, against
 *   SSH and TCP to the same guest in the same run, in alternating order
 * - many pods: a fake runtime, a real API server, the kubelet in a process of its own. The API server, etcd and the
 *   load share the machine, so pods per second are a lower bound of what the kubelet can do. Scheduler and controllers
 *   are stopped: the pods are made on the node, and no other component processes them
 * - waiting pods: the same in two halves, to tell the kubelet's share: the load alone, for a node that is away; then the
 *   node comes up and finds its pods
 *
 *   --pods N       500 unless said otherwise
 *   --rounds N     of each way into the guest (7)
 *   --bursts N     of pods that are created while the kubelet runs (5)
 *   --megabytes N  that pass each time (20)
 *   --idle N       seconds of looking at idle pods (30)
 */
import { parseArgs } from "node:util";
import { ownControlPlane } from "@cocoon/testkit";
import { measureGuestAccess } from "./kubelet/guest-access.ts";
import { measureManyPods, measureWaitingPods } from "./kubelet/many-pods.ts";
import { printReport } from "./report.ts";

const { values } = parseArgs({
  options: {
    pods: { type: "string", default: "500" },
    rounds: { type: "string", default: "7" },
    bursts: { type: "string", default: "5" },
    megabytes: { type: "string", default: "20" },
    idle: { type: "string", default: "30" },
  },
});

await using cluster = await ownControlPlane({ controllers: true });
const access = await measureGuestAccess(cluster, {
  rounds: Number(values.rounds),
  megabytes: Number(values.megabytes),
  execs: 100,
});
console.log(JSON.stringify(access));
for (const component of ["kube-scheduler", "kube-controller-manager"] as const) await cluster.stop(component);
const many = await measureManyPods(cluster, {
  pods: Number(values.pods),
  bursts: Number(values.bursts),
  restarts: Math.min(100, Number(values.pods)),
  idleMs: Number(values.idle) * 1_000,
});
console.log(JSON.stringify(many));
const waiting = await measureWaitingPods(cluster, Number(values.pods));
console.log(JSON.stringify(waiting));

const share = (through: number, direct: number) => (100 * through) / direct;
const writes = Object.values(many.writesPerPod).reduce((sum, each) => sum + each, 0);
const idlePodCalls = Object.entries(many.idleCallsPerMinute)
  .filter(([what]) => / pods/.test(what))
  .reduce((sum, [, count]) => sum + count, 0);
printReport({
  bench: "kubelet",
  figures: { access, many, waiting },
  targets: [
    {
      name: "exec stdout, % of direct SSH",
      value: share(access.stdoutMBps.median, access.sshStdoutMBps.median),
      want: ">= 70",
    },
    {
      name: "port-forward (SPDY), % of direct TCP",
      value: share(access.forwardMBps.median, access.tcpMBps.median),
      want: ">= 70",
    },
    {
      name: "port-forward (WebSocket), % of direct TCP",
      value: share(access.forwardWebSocketMBps.median, access.tcpMBps.median),
      want: ">= 70",
    },
    {
      name: "pods/s, created to Ready, load on the same cores",
      value: many.podsPerSecond.median,
      want: ">= 200",
    },
    { name: "pods/s, there when their node came up, to Ready", value: waiting.podsPerSecond, want: ">= 200" },
    { name: "writes per pod, created to Ready", value: writes, want: "<= 4" },
    { name: "status p99, ms", value: many.statusMs.p99, want: "< 100" },
    { name: "API calls for idle pods, per minute", value: idlePodCalls, want: "<= 0" },
    { name: "memory with the pods, MiB", value: many.fullMiB, want: "< 150" },
  ],
});
