/** The custom resources as the API server serves them. Fields that commands read have types; the rest is kept. */
import {
  apiGroup,
  type CocoonHibernationSpec,
  type CocoonHibernationStatus,
  type CocoonSetSpecInput,
  type CocoonSetStatus,
} from "@cocoon/contract";
import { resourceType, type KubeObject } from "@cocoon/kube";

export interface SetObject extends KubeObject {
  readonly spec?: CocoonSetSpecInput;
  readonly status?: CocoonSetStatus;
}

export interface HibernationObject extends KubeObject {
  readonly spec: CocoonHibernationSpec;
  readonly status?: CocoonHibernationStatus;
}

const group = { group: apiGroup, version: "v1" };

export const cocoonSets = resourceType<SetObject>({ ...group, kind: "CocoonSet" });
export const cocoonHibernations = resourceType<HibernationObject>({ ...group, kind: "CocoonHibernation" });
