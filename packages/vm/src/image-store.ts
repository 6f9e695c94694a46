/**
 * The port to the images of a host: a content-addressed cache of what can be booted. A backend asks it for files; it
 * never knows about VMs. `images/` implements it.
 */
import type { Abortable } from "@cocoon/core";
import type { VmImages } from "./runtime.ts";
import type { GuestLogin } from "./requests.ts";
import type { GuestOs, ImageType } from "./vm.ts";

export interface Image {
  /** `sha256:…` of the manifest (OCI) or of the downloaded bytes (cloud image). */
  readonly id: string;
  /** The reference or URL it was pulled by, or the name it was imported under. */
  readonly name: string;
  readonly type: ImageType;
  readonly sizeBytes: number;
  readonly createdAt: string;
}

/**
 * Everything a backend needs to boot the image. Files are immutable and never change in place. A backend makes hard
 * links to them (copies when it cannot), so that removing the image affects no VM.
 */
export interface BootableImage {
  readonly image: Image;
  readonly disk: { readonly path: string; readonly format: "qcow2" | "raw"; readonly virtualBytes: number };
  /** Hex digests of the blobs that the disk consists of. */
  readonly blobIds: readonly string[];
  readonly firmware: "bios" | "uefi";
  /** Direct kernel boot. The backend adds `console=ttyS0` and its own words in front of `commandLine`. */
  readonly kernel?: { readonly path: string; readonly initrdPath?: string; readonly commandLine: string };
  /** Whether a seed disk from `writeSeed` is attached, read-only, as the second disk. */
  readonly seed: boolean;
  readonly os: GuestOs;
  /** The guest runs our agent (`agent-protocol.ts`). */
  readonly agent: boolean;
}

/** What a guest is told about itself at first boot; the same facts that the agent refreshes after a restore. */
export interface SeedFacts {
  readonly instanceId: string;
  readonly hostname: string;
  readonly login: GuestLogin;
  readonly nics: readonly GuestNic[];
  readonly dataDisks: readonly {
    readonly serial: string;
    readonly fsType: "ext4" | "none";
    readonly mountPoint?: string;
  }[];
}

/** One network interface as the guest should see it. */
export interface GuestNic {
  readonly mac: string;
  /** Absent = DHCP. */
  readonly address?: { readonly ip: string; readonly prefix: number; readonly gateway?: string };
  readonly dns: readonly string[];
  /** Domains that short names are looked up in. */
  readonly searches?: readonly string[];
  /** Absent = what the driver has. */
  readonly mtu?: number;
}

/** What clients of the runtime see of it, and what an engine needs. Names may also be normalised references. */
export interface ImageStore extends VmImages {
  /** Makes what has to be made for booting (at most once per image) and says where it lies. Repeatable. */
  resolve(ref: string, options: Abortable): Promise<BootableImage>;
  /** Writes the seed disk of one VM to `path`, mode 0600: it may hold a password. */
  writeSeed(
    image: BootableImage,
    facts: SeedFacts,
    options: Abortable & { readonly path: string },
  ): Promise<void>;
  /** Removes blobs that no image names, and leftovers of interrupted pulls. Safe beside other processes. */
  gc(options: Abortable): Promise<ImageGcReport>;
}

export interface ImageGcReport {
  readonly removed: readonly string[];
  readonly freedBytes: number;
}
