/** For tests of this package and of those that need a registry. */
export { leaveMultipartUpload } from "./leave-multipart-upload.ts";
export { openS3Storage } from "../storage/s3.ts";
export { storageContract } from "./storage-contract.ts";
