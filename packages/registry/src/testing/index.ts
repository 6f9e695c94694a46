/** For tests of this package and of those that need a registry. */
export { faultyStorage, type Faults } from "./faulty-storage.ts";
export { leaveMultipartUpload } from "./leave-multipart-upload.ts";
export { openFilesystemStorage } from "../storage/filesystem.ts";
export { openMemoryStorage } from "../storage/memory.ts";
export { openS3Storage } from "../storage/s3.ts";
export { storageContract } from "./storage-contract.ts";
