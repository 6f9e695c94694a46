/** JSON of the `cocoon` command: what we write is what others read, and the other way round. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Snapshot } from "../snapshot.ts";
import type { Vm } from "../vm.ts";
import {
  writeEnvelope,
  writeSnapshotJson,
  readEnvelope,
  snapshotJsonSchema,
  readSnapshotJson,
} from "./snapshot-json.ts";
import { writeVmJson, keptLabels, parseStateText, vmJsonSchema, readVmJson } from "./vm-json.ts";

const vm: Vm = {
  id: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
  name: "vm1",
  state: "running",
  hypervisor: "qemu",
  config: {
    cpus: 2,
    memoryBytes: 2 ** 30,
    storageBytes: 10 * 2 ** 30,
    os: "windows",
    image: "ghcr.io/x/y:24.04",
    imageDigest: "sha256:aa",
    imageType: "oci",
    network: "cocoon-dhcp",
    labels: { [keptLabels.queueSize]: "256", [keptLabels.noDirectIo]: "true" },
  },
  origin: { kind: "image", image: "ghcr.io/x/y:24.04" },
  pid: 1234,
  socketPath: "/run/api.sock",
  nics: [
    {
      mac: "02:00:00:00:00:01",
      backend: "bridge",
      tap: "btABCDEFGH-0",
      bridge: "cni0",
      queues: 4,
      queueSize: 512,
      forwards: [],
    },
  ],
  disks: [{ path: "/x/root.qcow2", role: "cow", serial: "cocoon-cow", readOnly: false }],
  snapshotIds: ["S"],
  guest: "unknown",
  epoch: "2026-01-02T03:04:05.006Z",
  firstBooted: true,
  createdAt: "2026-01-01T00:00:00.000Z",
  updatedAt: "2026-01-02T00:00:00.000Z",
  startedAt: "2026-01-02T03:04:05.006Z",
};

test("a VM as the command prints it", () => {
  assert.deepEqual(writeVmJson(vm), {
    id: vm.id,
    hypervisor: "qemu",
    state: "running",
    config: {
      cpu: 2,
      memory: 1073741824,
      storage: 10737418240,
      queue_size: 256,
      image: "ghcr.io/x/y:24.04",
      image_digest: "sha256:aa",
      image_type: "oci",
      network: "cocoon-dhcp",
      no_direct_io: true,
      windows: true,
      name: "vm1",
    },
    pid: 1234,
    socket_path: "/run/api.sock",
    network_configs: [
      {
        tap: "btABCDEFGH-0",
        mac: "02:00:00:00:00:01",
        num_queues: 4,
        queue_size: 512,
        backend: "bridge",
        bridge_dev: "cni0",
      },
    ],
    storage_configs: [{ path: "/x/root.qcow2", ro: false, serial: "cocoon-cow", role: "cow" }],
    first_booted: true,
    snapshot_ids: { S: {} },
    created_at: "2026-01-01T00:00:00.000Z",
    updated_at: "2026-01-02T00:00:00.000Z",
    started_at: "2026-01-02T03:04:05.006Z",
    guest: "unknown",
    epoch: "2026-01-02T03:04:05.006Z",
  });
});

test("what we print we read again", () => {
  assert.deepEqual(readVmJson(vmJsonSchema.parse(writeVmJson(vm)), "qemu"), vm);
});

test("ports of the user network are printed with where they are reachable", () => {
  const forward = { protocol: "tcp", guestPort: 22, hostAddress: "127.88.0.2", hostPort: 2022 } as const;
  const [nic] = vm.nics;
  assert.ok(nic);
  const forwarded: Vm = { ...vm, nics: [{ ...nic, backend: "user", forwards: [forward] }] };
  assert.deepEqual(writeVmJson(forwarded).network_configs?.[0]?.forwards, [
    { protocol: "tcp", guest_port: 22, host_address: "127.88.0.2", host_port: 2022 },
  ]);
  assert.deepEqual(readVmJson(vmJsonSchema.parse(writeVmJson(forwarded)), "qemu"), forwarded);
});

test("what the Go command prints is read: null lists, missing fields, addresses", () => {
  const parsed = vmJsonSchema.parse({
    id: "X",
    hypervisor: "cloud-hypervisor",
    state: "stopped (stale)",
    config: { cpu: 2, name: "old", unknown_field: true },
    pid: 0,
    network_configs: [
      {
        tap: "tapX-0",
        mac: "02:aa",
        num_queues: 4,
        queue_size: 512,
        network: { ip: "10.88.0.5", gateway: "10.88.0.1", prefix: 16 },
      },
    ],
    storage_configs: null,
    first_booted: false,
    created_at: "2026-01-01T00:00:00.123456789Z",
    updated_at: "2026-01-01T00:00:00.123456789Z",
    transition_generation: 4,
  });
  const read = readVmJson(parsed, "cloud-hypervisor");
  assert.deepEqual(
    [read.state, read.pid, read.disks, read.nics[0]?.address],
    ["stopped", undefined, [], { ip: "10.88.0.5", prefix: 16, gateway: "10.88.0.1" }],
  );
});

test("words for states that we do not know count as error", () => {
  assert.deepEqual(["running", "stopped (stale)", "hibernating"].map(parseStateText), [
    "running",
    "stopped",
    "error",
  ]);
});

test("a snapshot survives its envelope, whatever it is called", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.nat(7), (name, description, nics) => {
      const snapshot: Snapshot = {
        id: vm.id,
        name,
        ...(description ? { description } : {}),
        hypervisor: "qemu",
        config: vm.config,
        nics,
        imageBlobIds: ["aa", "bb"],
        createdAt: "2026-01-01T00:00:00.000Z",
        sizeBytes: 0,
      };
      const read = readEnvelope(JSON.stringify(writeEnvelope(snapshot)));
      assert.deepEqual({ ...read, createdAt: snapshot.createdAt }, snapshot);
      assert.deepEqual(readSnapshotJson(snapshotJsonSchema.parse(writeSnapshotJson(snapshot))), snapshot);
    }),
  );
});

test("an envelope of another version or shape is refused in the words that clients know", () => {
  assert.throws(
    () => readEnvelope('{"config":{"id":"x"},"version":2}'),
    /unsupported snapshot archive version 2/,
  );
  assert.throws(() => readEnvelope("[]"), /invalid snapshot archive/);
  assert.throws(() => readEnvelope('{"config":{},"version":1}'), /invalid snapshot archive/);
});
