/**
 * core: what every part stands on and that knows neither Kubernetes nor machines. Faults, waiting that can be
 * stopped, configuration, logs, metrics, HTTP servers with health, child processes, crash-safe files.
 */
export { aborted, orAborted, sleep, withDeadline, type Abortable } from "./abort.ts";
export { AnsweringThread, type Numbered, type Unnumbered } from "./answering-thread.ts";
export { Backoff, backoffMs, type BackoffOptions } from "./backoff.ts";
export {
  defaultText,
  envNamesOf,
  flagOf,
  optionType,
  readConfig,
  type ConfigInput,
  type ConfigOf,
  type ConfigResult,
  type Option,
  type Options,
  type Program,
} from "./config.ts";
export {
  Fault,
  faultCodes,
  isFault,
  messageOf,
  systemCode,
  toFault,
  traitsOf,
  type FaultCode,
  type FaultOptions,
  type FaultTraits,
  type FieldCause,
} from "./fault.ts";
export { syncDirectory, tryReadFile, writeFileAtomically, type WriteFileOptions } from "./files.ts";
export { tryParseBool } from "./go-bool.ts";
export { formatDuration, parseDuration, tryParseDuration } from "./go-duration.ts";
export { startHealthServer, type HealthOptions, type HealthServer, type ReadyCheck } from "./health.ts";
export { nodeHttp } from "./node-http.ts";
export { keepHeapSmall } from "./small-heap.ts";
export { startHttpServer, type ListenOptions, type RunningServer } from "./http-server.ts";
export {
  applyJsonPatch,
  applyMergePatch,
  createMergePatch,
  diffJson,
  escapePointerToken,
  formatPointer,
  jsonEqual,
  maxJsonDepth,
  maxPatchOperations,
  parsePointer,
  removeOperations,
  setOperations,
  testOperation,
  type JsonPatchOperation,
  type PointerTokens,
} from "./json-patch.ts";
export { readListenAddress, type ListenAddress } from "./listen-address.ts";
export {
  createLogger,
  logLevels,
  silentLogger,
  type LogFunction,
  type Logger,
  type LogOptions,
} from "./log.ts";
export { runMain, type MainContext, type MainOptions } from "./main.ts";
export { Counter, createRegistry, Gauge, Histogram, Registry } from "./metrics.ts";
export {
  abortOnSignals,
  exitOrAbort,
  lastLines,
  signalProcess,
  startProgram,
  stopProcess,
  type Exit,
  type ProgramSpec,
  type RunningProgram,
  type StopOptions,
} from "./process.ts";
export { isAlive, processIdentitySchema, tryIdentify, type ProcessIdentity } from "./process-identity.ts";
export { buildInfo, versionText, type BuildInfo } from "./version.ts";
export { lockFile, tryLockFile, type FileLock, type LockOptions } from "./file-lock.ts";
