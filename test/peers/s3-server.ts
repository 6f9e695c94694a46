/** A real S3 service, versitygw on a directory, for tests. */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startProgram } from "@cocoon/core";
import { eventually, temporaryDirectory, freePort } from "@cocoon/testkit";
import { buildGoProgram } from "./go-program.ts";

export interface S3Server extends AsyncDisposable {
  readonly endpoint: string;
  readonly accessKey: string;
  readonly secretKey: string;
  readonly bucket: string;
  /** The directory that holds the bucket's objects as files. */
  readonly directory: string;
}

export async function startS3Server(): Promise<S3Server> {
  const binary = await buildGoProgram({
    name: "versitygw",
    directory: join(import.meta.dirname, "versitygw"),
    package: "github.com/versity/versitygw/cmd/versitygw",
  });
  const stack = new AsyncDisposableStack();
  const temporary = stack.use(await temporaryDirectory());
  const [accessKey, secretKey] = ["test", randomBytes(16).toString("hex")];
  const bucket = "registry";
  const directory = join(temporary.path, "data");
  await mkdir(join(directory, bucket), { recursive: true });
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  stack.use(
    await startProgram({
      name: "versitygw",
      command: binary,
      args: ["--port", `127.0.0.1:${port}`, "--quiet", "posix", directory],
      env: { ROOT_ACCESS_KEY: accessKey, ROOT_SECRET_KEY: secretKey },
      logFile: join(temporary.path, "log"),
    }),
  );
  await eventually(() => fetch(endpoint), { timeoutMs: 60_000 });
  return {
    endpoint,
    accessKey,
    secretKey,
    bucket,
    directory: join(directory, bucket),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
