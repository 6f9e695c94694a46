/** For tests of this package and of those that need a registry. */
export { storageContract } from "./storage-contract.ts";
