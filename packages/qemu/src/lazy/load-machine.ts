/**
 * Fills a machine's local files from the registry: what QEMU reads at its start, then the recorded working set, then the
 * rest. The same code serves a running machine (page server) and completes one that was stopped in the middle.
 */
import {
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
} from "node:fs";
import { join } from "node:path";
import { Fault, syncDirectory, tryReadFile, type Abortable } from "@cocoon/core";
import {
  ChunkStore,
  LazyFiles,
  openConfiguredRegistry,
  openLazySnapshot,
  tryReadWorkingSet,
  type LazySnapshot,
} from "@cocoon/oci";
import { machineFile } from "../store/layout.ts";
import type { LazyRegistry, PageServerConfig } from "./page-server-config.ts";

export type LoadConfig = Pick<
  PageServerConfig,
  "registry" | "repository" | "digest" | "store" | "directory" | "lazy" | "resumed"
>;

interface OpenedFile {
  readonly name: string;
  readonly fd: number;
  readonly size: number;
}

export interface LoadingMachine extends Disposable {
  readonly files: readonly OpenedFile[];
  readonly content: LazyFiles;
  readonly chunkBytes: number;
  /** What QEMU reads at its start: whole small files, heads of disks. */
  loadFirst(): Promise<void>;
  loadWorkingSet(): Promise<void>;
  /** Everything, checked and on disk. */
  finish(): Promise<void>;
}

export async function openLazySource(
  config: { readonly registry: LazyRegistry; readonly repository: string; readonly digest: string },
  { store, signal }: Abortable & { readonly store: ChunkStore },
): Promise<LazySnapshot> {
  const registry = await openConfiguredRegistry(config.registry);
  const repository = registry.repository(config.repository);
  return openLazySnapshot({ repository, reference: config.digest, store, signal });
}

export async function openLoading(config: LoadConfig, { signal }: Abortable): Promise<LoadingMachine> {
  const stack = new DisposableStack();
  try {
    const store = stack.use(await ChunkStore.open(config.store));
    const snapshot = await openLazySource(config, { store, signal });
    const { index } = snapshot;
    stack.use(store.hold(index.packs.map((pack) => pack.digest)));
    const files = index.files.map(({ name, size }) => {
      const fd = openFile(join(config.directory, name), size);
      stack.defer(() => closeSync(fd));
      return { name, fd, size };
    });
    const fds = files.map(({ fd }) => fd);
    const content = new LazyFiles({ ...snapshot, files: fds, store, resumed: config.resumed, signal });
    return {
      ...describeSteps(config, { files, content }),
      chunkBytes: index.chunkBytes,
      ...disposing(stack),
    };
  } catch (error) {
    stack.dispose();
    throw error;
  }
}

function disposing(stack: DisposableStack): Disposable {
  return { [Symbol.dispose]: () => stack.dispose() };
}

function describeSteps(
  { directory, lazy }: LoadConfig,
  { files, content }: Pick<LoadingMachine, "files" | "content">,
): Pick<LoadingMachine, "files" | "content" | "loadFirst" | "loadWorkingSet" | "finish"> {
  const isLazy = ({ name }: OpenedFile) => lazy.includes(name);
  return {
    files,
    content,
    loadFirst: async () => {
      const numbers = files.flatMap((file, number) => (isLazy(file) ? [] : [number]));
      const heads = files.flatMap((file, number) =>
        isLazy(file) && file.name !== machineFile.memory ? [number] : [],
      );
      await Promise.all([content.loadFiles(numbers), ...heads.map((each) => content.ensure(each, 0, 1))]);
    },
    loadWorkingSet: async () => {
      const set = tryReadWorkingSet((await tryReadFile(join(directory, machineFile.workingSet))) ?? "");
      if (set) await content.loadWorkingSet(set);
    },
    finish: async () => {
      await content.loadRest();
      const { doneBytes, totalBytes } = content.counts;
      if (doneBytes !== totalBytes)
        throw new Fault(
          "internal",
          `${doneBytes} of ${totalBytes} bytes are here after everything was loaded`,
        );
      for (const { fd } of files) fdatasyncSync(fd);
      await syncDirectory(directory);
    },
  };
}

/** As in a snapshot that was pulled: QEMU's user reads them, in a directory that no other user can enter. */
const fileMode = 0o644;

function openFile(path: string, size: number): number {
  const isNew = !existsSync(path);
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, fileMode);
  if (isNew) fchmodSync(fd, fileMode); // whatever the umask is
  if (fstatSync(fd).size !== size) ftruncateSync(fd, size);
  return fd;
}
