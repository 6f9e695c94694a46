/** A thread that parses large manifests. */
import { parentPort } from "node:worker_threads";
import { getErrorMessage } from "@cocoon/core/fault";
import { readManifest } from "./manifest.ts";
import type { ReadAnswer, ReadOrder } from "./manifest-reader.ts";

function read({ number, bytes, pushedType }: ReadOrder): ReadAnswer {
  try {
    return { number, manifest: readManifest(bytes, pushedType), problem: undefined };
  } catch (error) {
    return { number, manifest: undefined, problem: getErrorMessage(error) };
  }
}

parentPort?.on("message", (order: ReadOrder) => parentPort?.postMessage(read(order), []));
