/** Where an S3 service is and how to get in. */
export interface S3Options {
  /** Scheme, host and port. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** Put before every key; empty or ending with "/". */
  readonly prefix: string;
  readonly accessKey: string;
  readonly secretKey: string;
}
