/** Command lines as Go's flag package takes them: `-flag` is `--flag`, a bare boolean is true, klog's flags are ignored. */
const klogBooleans: ReadonlySet<string> = new Set([
  "logtostderr",
  "alsologtostderr",
  "skip-headers",
  "skip-log-headers",
  "add-dir-header",
  "one-output",
  "legacy-stderr-threshold-behavior",
]);

const klogValues: ReadonlySet<string> = new Set([
  "v",
  "vmodule",
  "stderrthreshold",
  "log-dir",
  "log-file",
  "log-file-max-size",
  "log-backtrace-at",
  "log-flush-frequency",
]);

export interface KnownFlags {
  isKnown(name: string): boolean;
  isBoolean(name: string): boolean;
}

/** The arguments in the one form that `parseArgs` takes, without klog's. */
export function normalizeGoFlags(argv: readonly string[], known: KnownFlags): string[] {
  const args: string[] = [];
  for (let index = 0; index < argv.length; index += 1) {
    const arg = argv[index] ?? "";
    if (arg === "--") return [...args, ...argv.slice(index)];
    const { name, hasValue } = readFlag(arg);
    if (name === "" || (isShort(arg, name) && !klogValues.has(name))) args.push(arg);
    else if (known.isKnown(name)) {
      const long = arg.replace(/^--?/, "--");
      args.push(!hasValue && known.isBoolean(name) ? `${long}=true` : long);
    } else if (klogValues.has(name.replaceAll("_", "-"))) {
      if (!hasValue) index += 1;
    } else if (!klogBooleans.has(name.replaceAll("_", "-"))) args.push(arg);
  }
  return args;
}

function readFlag(arg: string): { readonly name: string; readonly hasValue: boolean } {
  const match = /^--?([A-Za-z][\w-]*)(=.*)?$/s.exec(arg);
  return { name: match?.[1] ?? "", hasValue: match?.[2] !== undefined };
}

function isShort(arg: string, name: string): boolean {
  return !arg.startsWith("--") && name.length === 1;
}
