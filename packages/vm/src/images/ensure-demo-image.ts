/** The demo image in one call, for tests and for whoever wants a machine before anything else is set up. */
import type { Abortable } from "@cocoon/core";
import type { BootableImage } from "../image-store.ts";
import { demoImageName } from "./builtin/demo-image.ts";
import { openImageLibrary } from "./image-library.ts";

export interface DemoImageOptions extends Abortable {
  /** Everything is kept here and found again. */
  readonly cacheDir: string;
  readonly onProgress?: (step: string) => void;
}

/** Builds it once per cache; afterwards it needs neither network nor tools. */
export async function ensureDemoImage(options: DemoImageOptions): Promise<BootableImage> {
  const { cacheDir, signal, onProgress } = options;
  const library = openImageLibrary({ directory: cacheDir, ...(onProgress ? { onStep: onProgress } : {}) });
  await library.pull(demoImageName, { signal });
  return library.resolve(demoImageName, { signal });
}
