/**
 * images: what can be booted, where it comes from, and how it becomes a disk. `openImageLibrary` opens the images of a host
 * (the port `ImageStore` of `@cocoon/vm`): built-in ones, cloud images by URL or file, container images from a registry or
 * an OCI layout. It runs nothing.
 */
export { debianImageName } from "./builtin/debian-image.ts";
export { baseImageName } from "./builtin/base-image.ts";
export { demoImageName } from "./builtin/demo-image.ts";
export { builtInImageNames, openImageLibrary } from "./image-library.ts";
export type { ImagePolicy } from "./image-policy.ts";
export type { ImageSource, SourceBlob, SourceImage } from "./image-source.ts";
export { RegistrySource } from "./container/registry-source.ts";
