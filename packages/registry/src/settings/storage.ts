/** Which storage, and for S3 the words to get in, some of which may lie in a file. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { Fault, getErrorMessage, tryParseBool } from "@cocoon/core";
import type { ServeConfig } from "../config.ts";
import type { StorageOptions } from "../storage/open-storage.ts";

export function readStorage(config: ServeConfig): StorageOptions {
  const s3 = withEnvFile(config);
  const hasS3 = s3.endpoint !== undefined && s3.bucket !== undefined;
  const kind = config.storage === "auto" ? (hasS3 ? "s3" : "filesystem") : config.storage;
  if (kind === "filesystem") return { kind, root: config.root };
  if (!s3.endpoint || !s3.accessKey || !s3.bucket)
    throw new Fault("invalid", "s3 storage needs EPOCH_S3_ENDPOINT, EPOCH_S3_ACCESS_KEY and EPOCH_S3_BUCKET");
  return {
    kind,
    endpoint: readEndpoint(s3.endpoint, s3.secure),
    bucket: s3.bucket,
    region: config.s3Region,
    prefix: config.s3Prefix,
    accessKey: s3.accessKey,
    secretKey: s3.secretKey ?? "",
  };
}

/** Missing words come from a file of KEY=VALUE lines, if there is one. */
function withEnvFile(config: ServeConfig) {
  const { s3Endpoint, s3AccessKey, s3SecretKey, s3Bucket, s3Secure } = config;
  const complete = s3Endpoint !== undefined && s3AccessKey !== undefined && s3Bucket !== undefined;
  const file = complete ? {} : readEnvFile(config.s3EnvFile);
  return {
    endpoint: s3Endpoint ?? file["EPOCH_S3_ENDPOINT"],
    accessKey: s3AccessKey ?? file["EPOCH_S3_ACCESS_KEY"],
    secretKey: s3SecretKey ?? file["EPOCH_S3_SECRET_KEY"],
    bucket: s3Bucket ?? file["EPOCH_S3_BUCKET"],
    secure: s3Secure ?? file["EPOCH_S3_SECURE"],
  };
}

function readEnvFile(named: string | undefined): NodeJS.Dict<string> {
  const path = named ?? join(homedir(), ".config", "epoch", "s3.env");
  if (named === undefined && !existsSync(path)) return {};
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch (error) {
    throw new Fault("invalid", `--s3-env-file ${path}: ${getErrorMessage(error)}`, { cause: error });
  }
}

function readEndpoint(text: string, secureText: string | undefined): string {
  const secure = secureText === undefined ? undefined : tryParseBool(secureText);
  if (secureText !== undefined && secure === undefined)
    throw new Fault("invalid", `EPOCH_S3_SECURE is "${secureText}"; use true or false`);
  const scheme = /^(https?):\/\//.exec(text)?.[1];
  const wanted = secure === undefined ? (scheme ?? "https") : secure ? "https" : "http";
  const url = URL.parse(`${wanted}://${text.replace(/^https?:\/\//, "")}`);
  if (!url) throw new Fault("invalid", `EPOCH_S3_ENDPOINT "${text}" is not an address`);
  return url.origin;
}
