/** Words to write structural schemas with. Every field says what it is for. */

export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly [word: string]: unknown;
}

type Fields = Readonly<Record<string, Schema>>;

export const text = (description: string, more: object = {}): Schema => ({
  type: "string",
  description,
  ...more,
});
export const choice = (description: string, values: readonly string[], more: object = {}): Schema =>
  text(description, { enum: values, ...more });
export const integer = (description: string, more: object = {}): Schema => ({
  type: "integer",
  format: "int32",
  description,
  ...more,
});
export const bool = (description: string, more: object = {}): Schema => ({
  type: "boolean",
  description,
  ...more,
});
export const time = (description: string): Schema => text(description, { format: "date-time" });
export const object = (description: string, properties: Fields, more: object = {}): Schema => ({
  type: "object",
  description,
  properties,
  ...more,
});
export const list = (description: string, items: Schema, more: object = {}): Schema => ({
  type: "array",
  description,
  items,
  ...more,
});
export const texts = (description: string): Schema => ({
  type: "object",
  description,
  additionalProperties: { type: "string" },
});
/** Any object; the API server keeps it as it is. */
export const anything = (description: string): Schema => ({
  type: "object",
  description,
  "x-kubernetes-preserve-unknown-fields": true,
});

const quantity: Schema = {
  anyOf: [{ type: "integer" }, { type: "string" }],
  pattern:
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
  "x-kubernetes-int-or-string": true,
};

export const resources = (description: string): Schema => ({
  type: "object",
  description,
  additionalProperties: quantity,
});

export const intOrText = (description: string): Schema => ({
  description,
  anyOf: [{ type: "integer" }, { type: "string" }],
  "x-kubernetes-int-or-string": true,
});

export const labelSelector = (description: string): Schema =>
  object(
    description,
    {
      matchLabels: texts("Labels that must have exactly these values."),
      matchExpressions: list(
        "Requirements that must all hold.",
        object(
          "One requirement.",
          {
            key: text("Label that the requirement is about."),
            operator: choice("How the label's value is compared.", ["In", "NotIn", "Exists", "DoesNotExist"]),
            values: list(
              "Values for In and NotIn.",
              { type: "string" },
              { "x-kubernetes-list-type": "atomic" },
            ),
          },
          { required: ["key", "operator"] },
        ),
        { "x-kubernetes-list-type": "atomic" },
      ),
    },
    { "x-kubernetes-map-type": "atomic" },
  );

export const conditions = (description: string): Schema =>
  list(
    description,
    object("One condition.", {
      type: text("What the condition is about."),
      status: text("True, False or Unknown."),
      reason: text("Why, in one word."),
      message: text("Why, for people."),
      lastProbeTime: time("When it was last looked at."),
      lastTransitionTime: time("When it last changed."),
    }),
  );

export const objectReference = (description: string): Schema =>
  object(description, {
    apiVersion: text("API version of the object."),
    kind: text("Kind of the object."),
    namespace: text("Namespace of the object."),
    name: text("Name of the object."),
    uid: text("Identity of the object."),
    resourceVersion: text("Version of the object that is meant."),
    fieldPath: text("Part of the object that is meant."),
  });
