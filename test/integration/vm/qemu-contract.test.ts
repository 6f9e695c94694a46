/** The contract suite over real QEMU guests. */
import { vmRuntimeContract } from "@cocoon/vm/testing";
import { openQemuHarness } from "./qemu-harness.ts";

vmRuntimeContract("QEMU", openQemuHarness);
