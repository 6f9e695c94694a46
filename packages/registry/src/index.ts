/**
 * registry: an OCI Distribution 1.1 server that also speaks epoch's API, for VM snapshots and any other artefact.
 *
 *   startRegistry()   a running registry, in this process; `await using`
 *   storage/          where content is kept: filesystem or S3, behind one port
 *   content/          blobs, manifests, tags and referrers on top of it
 *   uploads/          blobs on their way in
 *   auth/             tokens, scopes, who may do what
 *   routes/, http/    the wire
 *
 * It does not push or pull by itself: that is the client's business, in `oci`.
 */
export { startRegistry, type RegistryOptions, type RunningRegistry } from "./server.ts";
