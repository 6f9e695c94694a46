/** From S3 to a sink, no faster than the sink takes it. */
import { Readable, type Writable } from "node:stream";
import { GetObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { Fault } from "@cocoon/core";
import type { CopyOptions } from "./storage.ts";
import { writeTo } from "./write-to.ts";

export interface S3Object {
  readonly client: S3Client;
  readonly object: { readonly Bucket: string; readonly Key: string };
}

export async function copyObjectTo(
  { client, object }: S3Object,
  sink: Writable,
  options: CopyOptions,
): Promise<void> {
  const { range, signal } = options;
  const Range = range ? { Range: `bytes=${range.start}-${range.end}` } : {};
  const found = await client.send(new GetObjectCommand({ ...object, ...Range }), { abortSignal: signal });
  if (!(found.Body instanceof Readable))
    throw new Fault("unavailable", `${object.Key}: the service sent no content`);
  const expected = range ? range.end - range.start + 1 : found.ContentLength;
  let copied = 0;
  for await (const chunk of found.Body as AsyncIterable<Buffer>) {
    copied += chunk.length;
    await writeTo(sink, chunk, signal);
  }
  if (copied !== expected)
    throw new Fault("unavailable", `${object.Key}: ${copied} of ${expected} bytes came`);
}
