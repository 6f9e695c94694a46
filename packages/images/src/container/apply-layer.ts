/** Puts a layer on top of a tree, in the order that the format means: take away, then add, then link. */
import { Fault } from "@cocoon/core";
import { emptyDirectory, type DirectoryNode, type TreeNode } from "../file-tree.ts";
import type { Layer, LayerDirectory } from "./layer.ts";

const maxLinksFollowed = 40;

/** Changes `root`. */
export function applyLayer(root: DirectoryNode, layer: Layer): DirectoryNode {
  const merged = mergeDirectory(root, layer.root, { root, path: [] });
  for (const { path, target } of layer.links) {
    const found = lookup(merged, target);
    if (!found || found.kind === "directory") {
      throw new Fault(
        "invalid",
        `the hard link ${path.join("/")} points to ${target.join("/")}, which is no file`,
      );
    }
    const parent = resolveDirectory(merged, path.slice(0, -1));
    parent.children.set(path.at(-1) ?? "", found);
  }
  return merged;
}

interface Place {
  readonly root: DirectoryNode;
  readonly path: readonly string[];
}

function mergeDirectory(lower: DirectoryNode, layer: LayerDirectory, place: Place): DirectoryNode {
  const directory: DirectoryNode = layer.attributes ? { ...lower, attributes: layer.attributes } : lower;
  if (layer.opaque) directory.children.clear();
  for (const name of layer.removed) directory.children.delete(name);
  for (const [name, child] of layer.children) {
    const here = { root: place.root, path: [...place.path, name] };
    if (child.kind === "directory") mergeChild(directory, child, here);
    else directory.children.set(name, child);
  }
  return directory;
}

function mergeChild(parent: DirectoryNode, child: LayerDirectory, place: Place): void {
  const name = place.path.at(-1) ?? "";
  const lower = parent.children.get(name);
  if (lower?.kind === "symlink" && !child.attributes) {
    // Only named as a parent: the files belong where the link leads.
    mergeDirectory(resolveDirectory(place.root, place.path), child, place);
    return;
  }
  const base = lower?.kind === "directory" ? lower : emptyDirectory();
  parent.children.set(name, mergeDirectory(base, child, place));
}

/** What is at that path, links on the way followed inside the root. The last name is not followed. */
function lookup(root: DirectoryNode, path: readonly string[]): TreeNode | undefined {
  const name = path.at(-1);
  return name === undefined ? root : resolveDirectory(root, path.slice(0, -1)).children.get(name);
}

function resolveDirectory(root: DirectoryNode, path: readonly string[]): DirectoryNode {
  const pending = [...path];
  let walked: DirectoryNode[] = [root];
  let followed = 0;
  for (let name = pending.shift(); name !== undefined; name = pending.shift()) {
    const step = walk(walked.at(-1) ?? root, name);
    if (step === "stay") continue;
    if (step === "up") {
      if (walked.length > 1) walked.pop();
    } else if (step.kind === "directory") {
      walked.push(step);
    } else if (step.kind === "symlink") {
      followed += 1;
      if (followed > maxLinksFollowed) {
        throw new Fault("invalid", `too many links on the way to ${path.join("/")}`);
      }
      if (step.target.startsWith("/")) walked = [root];
      pending.unshift(...step.target.split("/"));
    } else {
      throw new Fault("invalid", `${path.join("/")} leads through a file`);
    }
  }
  return walked.at(-1) ?? root;
}

/** What the name leads to; a directory that is missing is made. */
function walk(directory: DirectoryNode, name: string): TreeNode | "stay" | "up" {
  if (name === "" || name === ".") return "stay";
  if (name === "..") return "up";
  const child = directory.children.get(name);
  if (child) return child;
  const made = emptyDirectory();
  directory.children.set(name, made);
  return made;
}
