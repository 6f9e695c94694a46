/** core: faults, abort, configuration, logs, metrics, HTTP servers with health, child processes, crash-safe files. */
export { clockSleep, systemClock, type Clock } from "./clock.ts";
export { aborted, orAborted, sleep, withDeadline, type Abortable } from "./abort.ts";
export { AnsweringThread, type Numbered, type Unnumbered } from "./answering-thread.ts";
export { Backoff, backoffMs } from "./backoff.ts";
export {
  defaultText,
  getEnvNames,
  getFlagName,
  optionType,
  readConfig,
  type ConfigOf,
  type Option,
  type Options,
  type Program,
} from "./config.ts";
export {
  Fault,
  faultCodes,
  ignoreFault,
  isFault,
  getErrorMessage,
  systemCode,
  toFault,
  getTraits,
  type FaultCode,
  type FaultOptions,
  type FieldCause,
} from "./fault.ts";
export {
  ignoreMissing,
  isAccessible,
  pathExists,
  syncDirectory,
  tryParseJson,
  tryReadFile,
  tryReadJson,
  writeFileAtomically,
} from "./files.ts";
export { Coalesced } from "./coalesced.ts";
export { stateDefaults } from "./option-defaults.ts";
export { tryParseBool } from "./go-bool.ts";
export { parseDuration, tryParseDuration } from "./go-duration.ts";
export { startHealthServer, type HealthServer, type ReadyCheck } from "./health.ts";
export { findNodeIp } from "./node-ip.ts";
export { nodeHttp } from "./node-http.ts";
export { keepHeapSmall } from "./small-heap.ts";
export { alignColumns } from "./table.ts";
export { startHttpServer, type RunningServer } from "./http-server.ts";
export {
  applyJsonPatch,
  applyMergePatch,
  createMergePatch,
  jsonEqual,
  testOperation,
  type JsonPatchOperation,
} from "./json-patch.ts";
export { readListenAddress, type ListenAddress } from "./listen-address.ts";
export { createLogger, silentLogger, type Logger } from "./log.ts";
export { runMain, type MainContext } from "./main.ts";
export { Counter, createRegistry, Gauge, Histogram, MetricFactory, openMetric, Registry } from "./metrics.ts";
export {
  abortOnSignals,
  lastLines,
  signalProcess,
  startProgram,
  stopProcess,
  type Exit,
  type RunningProgram,
} from "./process.ts";
export { isAlive, processIdentitySchema, tryIdentify, type ProcessIdentity } from "./process-identity.ts";
export { buildInfo, versionText } from "./version.ts";
export { findLockHolder, lockFile, tryLockFile, type FileLock } from "./file-lock.ts";
