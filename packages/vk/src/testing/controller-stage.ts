/** One machine with its controller, on a runtime, a registry and an API server in memory. */
import { applyMergePatch, createRegistry, Fault, silentLogger } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startFakeRegistry } from "@cocoon/oci/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import { createVkMetrics } from "../metrics.ts";
import { openNodeSnapshots } from "../node-snapshots.ts";
import { noDns } from "../pod-network.ts";
import { MachineController, type ControllerParts } from "../provider/machine-controller.ts";

export const stageVmName = "vk-lab-demo";

function demoPod(): Pod {
  const annotations = {
    "vm.cocoonstack.io/name": stageVmName,
    "cocoonset.cocoonstack.io/managed": "true",
    "cocoonset.cocoonstack.io/mode": "run",
    "cocoonset.cocoonstack.io/image": "https://images.test/demo.img",
  };
  return {
    metadata: { namespace: "lab", name: "demo", uid: "u1", annotations },
    spec: { containers: [{ name: "agent", image: "demo" }] },
  };
}

interface Stage {
  readonly host: FakeHost;
  readonly server: Awaited<ReturnType<typeof startFakeRegistry>>;
  /** `before`: the step that fails, each time it comes. */
  readonly state: { pod: Pod; before: string };
  /** Hands the pod over with this annotation, or without it. */
  readonly bring: (key: string, value: string | null) => Promise<void>;
}

export async function openStage(stack: AsyncDisposableStack): Promise<Stage> {
  const directory = stack.use(await temporaryDirectory());
  const server = stack.use(await startFakeRegistry());
  const credentials = fixedCredential({ kind: "bearer", token: "t" });
  const registry = stack.use(openRegistry({ address: server.url, credentials }));
  const host = new FakeHost({ directory: `${directory.path}/snapshots` });
  const runtime = stack.use(new FakeRuntime(host));
  const life = new AbortController();
  const { signal } = life;
  const metrics = createVkMetrics(createRegistry("test"));
  const store = { directory: directory.path, chunkStoreBytes: 1024 ** 3, format: "packed" as const };
  const snapshots = stack.use(
    await openNodeSnapshots({ ...store, registry, runtime, node: "here", metrics }),
  );
  const state = { pod: demoPod(), before: "" };
  const patch = (body: unknown) => {
    state.pod = applyMergePatch(state.pod, body) as Pod;
    return Promise.resolve(state.pod);
  };
  const description = await runtime.describe({ signal });
  const controller = new MachineController({
    client: {
      patch: (_type: unknown, { patch: { body } }: { patch: { body: unknown } }) => patch(body),
      get: () => Promise.reject(new Fault("notFound", "not found")),
    },
    runtime,
    snapshots,
    events: { record: () => undefined },
    metrics,
    ping: undefined,
    log: silentLogger,
    signal,
    beforeStep: (_vmName: string, step: string) =>
      step === state.before ? Promise.reject(new Fault("unavailable", "no answer")) : Promise.resolve(),
    settings: {
      node: "here",
      status: { hostIp: "127.0.0.1", hibernatedPhase: "Running" },
      cloneRoots: [],
      login: {},
      cpuClass: "",
      probeTimes: { firstMs: 5, growth: 1.5, maxMs: 50, readyMs: 100, failures: 3 },
      restartPauseMs: 100,
      livenessSecondMs: 1_000,
      restoreMode: "mmap",
      snapshotConfigMap: "legacy",
      description,
      canSavePaused: true,
      dns: noDns,
    },
  } as unknown as ControllerParts);
  controller.onPodStatus((_key, _uid, { annotations }) =>
    patch({ metadata: { annotations } }).then(() => {}),
  );
  stack.defer(() => {
    life.abort();
    controller.stop();
  });
  const bring = (key: string, value: string | null) => {
    state.pod = applyMergePatch(state.pod, { metadata: { annotations: { [key]: value } } }) as Pod;
    return controller.bring(state.pod, { signal });
  };
  return { host, server, state, bring };
}
