/** For tests of this package and of those that need a registry. */
export { faultyStorage, type Faults } from "./faulty-storage.ts";
export { leaveMultipartUpload } from "./leave-multipart-upload.ts";
export { openStorage } from "../storage/open-storage.ts";
export { openFakeStorage } from "./fake-storage.ts";
export { storageContract } from "./storage-contract.ts";
