/** A runtime that does not know the VMs of this node's pods is another one: the start is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, isFault } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import type { VmRuntime } from "@cocoon/vm";
import { assertKnownVms } from "./known-vms.ts";

interface Host {
  /** `containerRuntimeVersion` of the Node object; undefined: there is no Node. */
  readonly last?: string;
  readonly pods: readonly object[];
  /** Ids that the runtime lists. */
  readonly vms: readonly string[];
  readonly engine?: string;
}

function pod(vmId: string, more: Readonly<Record<string, string>> = {}, phase = "Running"): object {
  const annotations = {
    "vm.cocoonstack.io/name": `vk-lab-${vmId}`,
    "vm.cocoonstack.io/id": vmId,
    "cocoonset.cocoonstack.io/managed": "true",
    ...more,
  };
  return { metadata: { namespace: "lab", name: vmId, annotations }, status: { phase } };
}

function start({ last, pods, vms, engine = "cocoon-node" }: Host): Promise<void> {
  const client = {
    get: () =>
      last === undefined
        ? Promise.reject(new Fault("notFound", "no node"))
        : Promise.resolve({ status: { nodeInfo: { containerRuntimeVersion: last } } }),
    pages: () => [{ items: pods }],
  } as unknown as KubeClient;
  const runtime = {
    describe: () => Promise.resolve({ engine, version: "1.0" }),
    list: () => Promise.resolve(vms.map((id) => ({ id }))),
  } as unknown as VmRuntime;
  return assertKnownVms({ client, runtime, node: "n1", signal: new AbortController().signal });
}

const refused = (error: unknown) => isFault(error, "unavailable") && /VK_COCOON_BIN/.test(error.message);

test("another cocoon in the place of the one that runs the machines is refused", async () => {
  await assert.rejects(start({ last: "", pods: [pod("A"), pod("B")], vms: [] }), refused);
  await assert.rejects(start({ pods: [pod("A")], vms: ["X"] }), refused);
  await assert.rejects(start({ last: "cocoon://v0.5.7", pods: [pod("A")], vms: [] }), refused);
});

test("a list that fails is no empty list", async () => {
  const client = {
    get: () => Promise.reject(new Fault("unavailable", "API server away")),
  } as unknown as KubeClient;
  const runtime = { describe: () => Promise.resolve({ engine: "qemu" }) } as unknown as VmRuntime;
  const started = assertKnownVms({ client, runtime, node: "n1", signal: new AbortController().signal });
  await assert.rejects(started, /API server away/);
});

test("the runtime that knows one of them is theirs, and the engine that registered the node is trusted", async () => {
  await start({ last: "", pods: [pod("A"), pod("B")], vms: ["B"] });
  await start({ last: "cocoon-node://0.9", pods: [pod("A")], vms: [] });
});

test("machines that are asleep, failed or of another system prove nothing", async () => {
  const others = [
    pod("A", { "vm.cocoonstack.io/hibernate": "true" }),
    pod("B", {}, "Failed"),
    pod("C", { "cocoonset.cocoonstack.io/managed": "false" }),
    pod(""),
  ];
  await start({ last: "", pods: others, vms: [] });
});
