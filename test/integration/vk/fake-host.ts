/**
 * A VM host in memory that outlives the runtime object, as real VMs outlive the kubelet. A guest is a number that its
 * owner can raise while it runs; snapshots are real files, so that they travel through a real registry.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { PassThrough, type Duplex, type Readable } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";
import type {
  CloneSpec,
  ForkSpec,
  GuestProcess,
  RunSpec,
  Snapshot,
  Vm,
  VmEvent,
  VmImages,
  VmRuntime,
  VmSnapshots,
} from "@cocoon/vm";

interface Guest {
  vm: Vm;
  /** Which machine it is: copies share it. */
  readonly soul: string;
  count: number;
}

interface Kept {
  readonly snapshot: Snapshot;
  readonly directory: string;
}

type Method = Extract<keyof VmRuntime, string> | "save" | "pull";

export class FakeHost {
  readonly guests = new Map<string, Guest>();
  readonly snapshots = new Map<string, Kept>();
  readonly calls: string[] = [];
  readonly directory: string;
  /** Methods that fail, and how. */
  readonly failing = new Map<Method, Error>();
  readonly images = new Set<string>();
  readonly #listeners = new Set<(event: VmEvent) => void>();
  /** Guest ports are served by this port of the test. */
  servedPort = 0;
  readyAtOnce = true;

  constructor(directory: string) {
    this.directory = directory;
  }

  guest(name: string): Guest {
    const found = this.find(name);
    if (!found) throw new Fault("notFound", `VM ${name} not found`);
    return found;
  }

  find(ref: string): Guest | undefined {
    return [...this.guests.values()].find(({ vm }) => vm.id === ref || vm.name === ref);
  }

  running(): readonly Guest[] {
    return [...this.guests.values()].filter(({ vm }) => vm.state === "running");
  }

  called(method: Method, what = ""): void {
    this.calls.push(`${method} ${what}`.trim());
    const failure = this.failing.get(method);
    if (failure) throw failure;
  }

  emit(event: VmEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  listen(listener: (event: VmEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  add(spec: RunSpec | CloneSpec | ForkSpec, origin: Vm["origin"], memory: Pick<Guest, "soul" | "count">): Vm {
    if (this.find(spec.name)) throw new Fault("alreadyExists", `VM ${spec.name} already exists`);
    const now = new Date().toISOString();
    const id = randomBytes(16).toString("hex").slice(0, 26).toUpperCase();
    const vm: Vm = {
      id,
      name: spec.name,
      state: "running",
      hypervisor: "qemu",
      config: {
        cpus: 1,
        memoryBytes: 2 ** 28,
        storageBytes: 2 ** 30,
        os: "linux",
        labels: spec.labels ?? {},
        ...("image" in spec ? { image: spec.image } : {}),
      },
      origin,
      nics: [],
      disks: [],
      snapshotIds: [],
      guest: this.readyAtOnce ? "ready" : "booting",
      epoch: randomBytes(4).toString("hex"),
      firstBooted: true,
      createdAt: now,
      updatedAt: now,
      startedAt: now,
    };
    this.guests.set(id, { vm, ...memory });
    this.emit({ kind: "added", vm });
    return vm;
  }

  change(ref: string, changes: Partial<Vm>): Vm {
    const guest = this.guest(ref);
    guest.vm = { ...guest.vm, ...changes };
    return guest.vm;
  }

  /** The guest powers off, or its process dies. */
  crash(ref: string): void {
    const vm = this.change(ref, { state: "stopped" });
    this.emit({ kind: "exited", vm, exit: { reason: "crashed", at: new Date().toISOString() } });
  }
}

export function fakeRuntime(host: FakeHost): VmRuntime {
  const unsupported = (what: string) => () => Promise.reject(new Fault("notSupported", `fake: ${what}`));
  return {
    describe: async () => {
      host.called("describe");
      return {
        hypervisor: "qemu",
        version: "fake",
        networks: [],
        minimumMemoryBytes: 0,
        minimumStorageBytes: 0,
        can: {
          pause: true,
          reset: true,
          exec: true,
          tty: false,
          display: false,
          forward: true,
          restoreStopped: false,
        },
        rootDirectory: host.directory,
      };
    },
    run: async (spec) => {
      host.called("run", spec.name);
      if (!host.images.has(spec.image)) throw new Fault("notFound", `image ${spec.image} not found`);
      return host.add(
        spec,
        { kind: "image", image: spec.image },
        { soul: randomBytes(4).toString("hex"), count: 0 },
      );
    },
    clone: async (spec) => {
      host.called("clone", spec.name);
      const kept = findSnapshot(host, spec.snapshot);
      const memory = JSON.parse(await readFile(join(kept.directory, "memory"), "utf8")) as Guest;
      const origin = {
        kind: "snapshot" as const,
        snapshotId: kept.snapshot.id,
        snapshotName: kept.snapshot.name,
      };
      return host.add(spec, origin, { soul: memory.soul, count: memory.count });
    },
    fork: async (spec) => {
      host.called("fork", `${spec.source} ${spec.name}`);
      const { vm, soul, count } = host.guest(spec.source);
      return host.add(spec, { kind: "fork", sourceVmId: vm.id, snapshotId: "" }, { soul, count });
    },
    start: async (ref) => {
      host.called("start", host.guest(ref).vm.name);
      return host.change(ref, { state: "running", epoch: randomBytes(4).toString("hex") });
    },
    stop: async (ref) => host.change(ref, { state: "stopped" }),
    pause: async (ref) => {
      host.called("pause", host.guest(ref).vm.name);
      return host.change(ref, { state: "paused" });
    },
    resume: async (ref) => {
      host.called("resume", host.guest(ref).vm.name);
      return host.change(ref, { state: "running" });
    },
    reset: unsupported("reset"),
    remove: async (ref) => {
      const { vm } = host.guest(ref);
      host.called("remove", vm.name);
      host.guests.delete(vm.id);
      host.emit({ kind: "removed", vm });
    },
    restore: unsupported("restore"),
    list: async () => {
      host.called("list");
      return [...host.guests.values()].map(({ vm }) => vm);
    },
    inspect: async (ref) => {
      host.called("inspect");
      return host.guest(ref).vm;
    },
    watch: (options) => watchEvents(host, options),
    waitReady: async (ref) => host.guest(ref).vm,
    address: async (ref) => {
      host.guest(ref);
      return { ip: "127.7.7.7", routable: false, forwards: [] };
    },
    dial: async (_ref, _port, { signal }) => dialLocal(host.servedPort, signal),
    stats: async (ref) => {
      host.guest(ref);
      return {
        at: new Date().toISOString(),
        cpu: { usageNanos: 1_000_000_000 },
        memory: { residentBytes: 64 * 2 ** 20 },
        disk: { allocatedBytes: 1_000, apparentBytes: 2_000 },
      };
    },
    exec: async (ref, request) => {
      host.guest(ref);
      return localProcess(request.argv, request.env ?? {});
    },
    openConsole: async (ref) => {
      const { vm } = host.guest(ref);
      const console = new PassThrough();
      console.write(`console of ${vm.name}\n`);
      return console;
    },
    readConsole: async (ref) => Buffer.from(`booted ${host.guest(ref).vm.name}\nlogin:\n`),
    openDisplay: unsupported("display"),
    snapshots: fakeSnapshots(host),
    images: fakeImages(host),
    gc: unsupported("gc"),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

async function* watchEvents(host: FakeHost, { signal }: Abortable): AsyncGenerator<VmEvent> {
  const queue: VmEvent[] = [];
  let wake = Promise.withResolvers<void>();
  const stop = host.listen((event) => {
    queue.push(event);
    wake.resolve();
  });
  signal.addEventListener("abort", () => wake.resolve(), { once: true });
  try {
    for (const { vm } of host.guests.values()) yield { kind: "listed", vm };
    yield { kind: "synced" };
    while (!signal.aborted) {
      for (let event = queue.shift(); event; event = queue.shift()) yield event;
      if (signal.aborted) return;
      await wake.promise;
      wake = Promise.withResolvers<void>();
    }
  } finally {
    stop();
  }
}

function findSnapshot(host: FakeHost, ref: string): Kept {
  const found = [...host.snapshots.values()].find(
    ({ snapshot }) => snapshot.id === ref || snapshot.name === ref,
  );
  if (!found) throw new Fault("notFound", `snapshot ${ref} not found`);
  return found;
}

function fakeSnapshots(host: FakeHost): VmSnapshots {
  const keep = async (
    memory: string,
    facts: { readonly name: string; readonly vmId?: string; readonly description?: string },
  ): Promise<Snapshot> => {
    const id = randomBytes(16).toString("hex").slice(0, 26).toUpperCase();
    const directory = join(host.directory, id);
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "memory"), memory);
    const config = { cpus: 1, memoryBytes: 2 ** 28, storageBytes: 2 ** 30, os: "linux" as const, labels: {} };
    const snapshot: Snapshot = {
      ...facts,
      id,
      hypervisor: "qemu",
      config,
      nics: 1,
      imageBlobIds: [],
      createdAt: new Date().toISOString(),
      sizeBytes: memory.length,
    };
    host.snapshots.set(id, { snapshot, directory });
    return snapshot;
  };
  return {
    save: async (vmRef, { name = "", resume = true }) => {
      const guest = host.guest(vmRef);
      host.called("save", guest.vm.name);
      if ([...host.snapshots.values()].some(({ snapshot }) => snapshot.name === name))
        throw new Fault("alreadyExists", `snapshot ${name} already exists`);
      const memory = JSON.stringify({ soul: guest.soul, count: guest.count });
      const snapshot = await keep(memory, { name, vmId: guest.vm.id });
      host.change(vmRef, { state: resume ? "running" : "paused" });
      return { snapshot, pausedMs: 1, dirtyBytes: 1, tookMs: 1 };
    },
    list: async () => [...host.snapshots.values()].map(({ snapshot }) => snapshot),
    inspect: async (ref) => findSnapshot(host, ref).snapshot,
    remove: async (ref) => {
      const { snapshot, directory } = findSnapshot(host, ref);
      host.snapshots.delete(snapshot.id);
      await rm(directory, { recursive: true, force: true });
    },
    export: () => Promise.reject(new Fault("notSupported", "fake: export")),
    import: () => Promise.reject(new Fault("notSupported", "fake: import")),
    withFiles: async (ref, use) => {
      const { snapshot, directory } = findSnapshot(host, ref);
      const path = join(directory, "memory");
      const { size } = await stat(path);
      const config = { id: snapshot.id, name: snapshot.name, hypervisor: "qemu", cpu: 1 };
      const envelope = { version: 1, config };
      return use({ snapshot, envelope, files: [{ name: "memory", path, sizeBytes: size, mode: 0o600 }] });
    },
    importDirectory: async (directory, { name = "", description = "", consume }) => {
      const memory = await readFile(join(directory, "memory"), "utf8");
      const snapshot = await keep(memory, { name, description });
      if (consume) await rename(directory, `${directory}.used`);
      return snapshot;
    },
  };
}

function fakeImages(host: FakeHost): VmImages {
  const unsupported = () => Promise.reject(new Fault("notSupported", "fake: images"));
  return {
    pull: async (ref) => {
      host.called("pull", ref);
      host.images.add(ref);
      return { name: ref } as never;
    },
    import: unsupported,
    list: async () => [],
    inspect: unsupported,
    remove: unsupported,
  };
}

function dialLocal(port: number, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port, signal, allowHalfOpen: true });
    socket.once("connect", () => resolve(socket));
    socket.once("error", (error) => reject(new Fault("unavailable", error.message)));
  });
}

/** The guest's programs are the test host's. */
function localProcess(argv: readonly string[], env: Readonly<Record<string, string>>): GuestProcess {
  const [program = "false", ...args] = argv;
  const child = spawn(program, args, { env: { PATH: "/usr/bin:/bin", ...env } });
  const exited = new Promise<{ code: number }>((resolve) => {
    child.once("error", () => resolve({ code: 127 }));
    child.once("exit", (code) => resolve({ code: code ?? 129 }));
  });
  return {
    stdin: child.stdin,
    stdout: child.stdout satisfies Readable,
    stderr: child.stderr,
    exited,
    resize: () => undefined,
    signal: () => void child.kill(),
    [Symbol.asyncDispose]: async () => void child.kill(),
  };
}
