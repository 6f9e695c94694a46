/** Tables: columns two spaces apart, times local. */
import { alignColumns } from "@cocoon/core";
import type { Image, Snapshot, Vm } from "@cocoon/vm";
import { formatSize } from "./sizes.ts";

export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  return `${alignColumns([header, ...rows]).join("\n")}\n`;
}

/** `2026-01-02 03:04:05`, local time. */
function localTime(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return "-";
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

/** The state in words: a VM whose process was found dead is `stopped (stale)`. */
export function stateText(vm: Vm): string {
  const unexpected = vm.lastExit && ["killed", "crashed", "lost"].includes(vm.lastExit.reason);
  return vm.state === "stopped" && unexpected ? "stopped (stale)" : vm.state;
}

export function vmRow(vm: Vm, ip: string): readonly string[] {
  const { config } = vm;
  return [
    vm.id,
    vm.name,
    stateText(vm),
    String(config.cpus),
    formatSize(config.memoryBytes),
    formatSize(config.storageBytes),
    ip || "-",
    config.image ?? "-",
    localTime(vm.createdAt),
  ];
}

export const vmHeader = ["ID", "NAME", "STATE", "CPU", "MEMORY", "STORAGE", "IP", "IMAGE", "CREATED"];
export const snapshotHeader = ["ID", "NAME", "CPU", "MEMORY", "DESCRIPTION", "CREATED"];
export const imageHeader = ["TYPE", "NAME", "DIGEST", "SIZE", "CREATED"];

export function snapshotRow(snapshot: Snapshot): readonly string[] {
  const { config } = snapshot;
  return [
    snapshot.id,
    snapshot.name || "-",
    String(config.cpus),
    formatSize(config.memoryBytes),
    snapshot.description || "-",
    localTime(snapshot.createdAt),
  ];
}

export function imageRow(image: Image): readonly string[] {
  return [
    image.type,
    image.name,
    image.id.slice(0, 19),
    formatSize(image.sizeBytes),
    localTime(image.createdAt),
  ];
}

export function writeImageJson(image: Image): Record<string, unknown> {
  return {
    id: image.id,
    name: image.name,
    type: image.type,
    size: image.sizeBytes,
    created_at: image.createdAt,
  };
}
