/** The outermost frame of every executable: configuration, logger, one signal, exit code. */
import { readConfig, type ConfigOf, type Options, type Program } from "./config.ts";
import { isFault, getErrorMessage } from "./fault.ts";
import { createLogger, type Logger } from "./log.ts";
import { abortOnSignals } from "./process.ts";
import { buildInfo } from "./version.ts";
import { keepHeapSmall } from "./small-heap.ts";

export interface MainContext<O extends Options> {
  readonly config: ConfigOf<O>;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface MainOptions<O extends Options> {
  readonly program: Program<O>;
  readonly logLevel?: (config: ConfigOf<O>) => string;
  readonly run: (context: MainContext<O>) => Promise<void>;
  readonly argv?: readonly string[];
  /** For programs whose work comes in bursts that need several times the memory of their rest. */
  readonly givesMemoryBack?: boolean;
}

/** Exit codes: 0 done, 1 failed, 2 bad configuration, 130/143 the user insisted. */
export async function runMain<O extends Options>(options: MainOptions<O>): Promise<void> {
  const { program } = options;
  try {
    const result = readConfig(program, { argv: options.argv ?? process.argv.slice(2), env: process.env });
    if (result.kind === "print") {
      process.stdout.write(result.text);
      return;
    }
    keepHeapSmall({ giveBack: options.givesMemoryBack ?? false });
    const log = createLogger({ name: program.name, level: options.logLevel?.(result.config) ?? "info" });
    log.info({ ...buildInfo(), node: process.version, pid: process.pid }, "starting");
    const signal = abortOnSignals();
    await options.run({ config: result.config, log, signal });
    log.info("stopped");
    process.exit(0); // a leftover timer or socket must not keep a stopped program alive
  } catch (error) {
    process.stderr.write(`${program.name}: ${getErrorMessage(error)}\n`);
    process.exit(isFault(error, "invalid") ? 2 : 1);
  }
}
