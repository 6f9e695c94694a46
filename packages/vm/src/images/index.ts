/** images: what can be booted, where it comes from, and how it becomes a disk. */
export { debianImageName } from "./builtin/debian-image.ts";
export { demoImageName } from "./builtin/demo-image.ts";
export { openImageLibrary, type ImageLibrary, type ImageLibraryOptions } from "./image-library.ts";
export type { ImageSource, SourceBlob, SourceImage } from "./image-source.ts";
export { ensureDemoImage, type DemoImageOptions } from "./ensure-demo-image.ts";
