/** `--watch`: the same view again every second, in place on a terminal, until Ctrl-C. */
import { sleep, type Abortable } from "@cocoon/core";

export async function watchLoop(
  { watch, signal }: Abortable & { readonly watch: boolean },
  view: () => Promise<string>,
): Promise<void> {
  let last = "";
  for (;;) {
    const text = await view();
    if (watch && process.stdout.isTTY) process.stdout.write(`\x1b[2J\x1b[H${text}`);
    else if (text !== last) process.stdout.write(text);
    last = text;
    if (!watch || !(await sleep(1_000, { signal }))) return;
  }
}
