/** Begins a multipart upload and never ends it, as a server does that dies in the middle. */
import { CreateMultipartUploadCommand, S3Client } from "@aws-sdk/client-s3";
import type { S3Options } from "../storage/s3-options.ts";

export async function leaveMultipartUpload(options: S3Options, key: string): Promise<void> {
  const client = new S3Client({
    endpoint: options.endpoint,
    region: options.region,
    forcePathStyle: true,
    credentials: { accessKeyId: options.accessKey, secretAccessKey: options.secretKey },
  });
  const Key = `${options.prefix}${key}`;
  await client.send(new CreateMultipartUploadCommand({ Bucket: options.bucket, Key }));
  client.destroy();
}
