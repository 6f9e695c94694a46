// Loaded into the parts by NODE_OPTIONS: a part whose name has a file in COCOON_CHAOS_CLOCKS sees the wall clock with
// that many milliseconds added. Only the wall clock moves, as after an NTP step.
import { readFileSync, watch } from "node:fs";
import { basename, join } from "node:path";

const directory = process.env["COCOON_CHAOS_CLOCKS"];
const part = process.env["COCOON_COMPONENT"];
if (directory && part) {
  const file = join(directory, basename(part));
  let offsetMs = 0;
  const read = () => {
    try {
      offsetMs = Number(readFileSync(file, "utf8")) || 0;
    } catch {
      offsetMs = 0;
    }
  };
  read();
  watch(directory, read).unref();
  const RealDate = Date;
  const now = () => RealDate.now() + offsetMs;
  globalThis.Date = class extends RealDate {
    constructor(...args) {
      if (args.length === 0) super(now());
      else super(...args);
    }
    static now() {
      return now();
    }
  };
}
