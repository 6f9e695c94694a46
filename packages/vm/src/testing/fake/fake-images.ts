/** The images of a fake host: names. */
import { Fault } from "@cocoon/core";
import type { Image } from "../../image-store.ts";
import type { VmImages } from "../../runtime.ts";
import type { RunSpec } from "../../requests.ts";
import type { VmConfig } from "../../vm.ts";
import type { FakeHost } from "./fake-host.ts";

const mebibyte = 1024 * 1024;
export const minimumBytes = 64 * mebibyte;
const maxCpus = 64;

/** The requested machine, after the checks that a real backend makes. */
export function checkedConfig(spec: RunSpec, image: Image): VmConfig {
  const [cpus, memoryBytes, storageBytes] = [
    spec.cpus ?? 1,
    spec.memoryBytes ?? 1024 * mebibyte,
    spec.storageBytes ?? 10_240 * mebibyte,
  ];
  if (cpus < 1) throw new Fault("invalid", "--cpu must be at least 1");
  if (cpus > maxCpus) throw new Fault("invalid", `requested ${cpus} vCPUs exceeds host cores (${maxCpus})`);
  if (memoryBytes < minimumBytes) throw new Fault("invalid", "--memory must be at least 64M");
  if (storageBytes < minimumBytes) throw new Fault("invalid", "--storage must be at least 64M");
  return {
    cpus,
    memoryBytes,
    storageBytes,
    os: spec.os ?? "linux",
    image: image.name,
    imageDigest: image.id,
    imageType: image.type,
    labels: spec.labels ?? {},
  };
}

export function fakeImages(host: FakeHost): VmImages {
  const find = (ref: string): Image => {
    const image = host.images.get(ref) ?? [...host.images.values()].find(({ id }) => id === ref);
    if (!image) throw new Fault("notFound", `image "${ref}": not found in any backend`);
    return image;
  };
  return {
    pull: async (ref, { signal }) => {
      await host.enter("images.pull", signal);
      return host.images.get(ref) ?? host.addImage(ref);
    },
    import: async (name, sources, { signal }) => {
      await host.enter("images.import", signal);
      for (const source of sources) source.resume();
      return host.addImage(name);
    },
    list: async ({ signal }) => {
      await host.enter("images.list", signal);
      return [...host.images.values()];
    },
    inspect: async (ref, { signal }) => {
      await host.enter("images.inspect", signal);
      return find(ref);
    },
    remove: async (ref, { signal }) => {
      await host.enter("images.remove", signal);
      host.images.delete(find(ref).name);
    },
  };
}
