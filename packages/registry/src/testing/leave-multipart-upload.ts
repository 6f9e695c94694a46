/** Begins a multipart upload and never ends it, as a server does that dies in the middle. */
import type { S3Options } from "../storage/open-storage.ts";

export async function leaveMultipartUpload(options: S3Options, key: string): Promise<void> {
  // Loaded here: most tests that import this package need no S3.
  const { CreateMultipartUploadCommand, S3Client } = await import("@aws-sdk/client-s3");
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
