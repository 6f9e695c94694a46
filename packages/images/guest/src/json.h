/*
 * The JSON that host and guest exchange: one flat object on a line, whose values are strings, integers, booleans or
 * lists of strings. The reader works in place: strings are unescaped inside the line and end with a zero byte.
 */
#ifndef COCOON_JSON_H
#define COCOON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_MEMBERS 24
#define JSON_MAX_ITEMS 2048

enum json_kind { JSON_STRING, JSON_INTEGER, JSON_BOOLEAN, JSON_LIST, JSON_NULL };

struct json_member {
  const char *key;
  enum json_kind kind;
  const char *text;
  int64_t number; /* integer; 0 or 1 for a boolean */
  size_t first;   /* of a list: index of its first item */
  size_t count;
};

struct json_object {
  struct json_member members[JSON_MAX_MEMBERS];
  size_t count;
  char *items[JSON_MAX_ITEMS + 1];
  size_t item_count;
};

/* line ends with a zero byte and is changed. False when it is not such an object. */
bool json_read(char *line, struct json_object *object);
const char *json_text(const struct json_object *object, const char *key, const char *otherwise);
int64_t json_number(const struct json_object *object, const char *key, int64_t otherwise);
bool json_truth(const struct json_object *object, const char *key);
/* The items of a list, ended by NULL; count may be NULL. */
char **json_list(struct json_object *object, const char *key, size_t *count);

/* A growing line of JSON; the caller frees data. */
struct json_writer {
  char *data;
  size_t length;
  size_t capacity;
  bool failed;
  bool comma;
};
void json_open(struct json_writer *writer);
void json_put_text(struct json_writer *writer, const char *key, const char *value);
void json_put_number(struct json_writer *writer, const char *key, int64_t value);
void json_put_list(struct json_writer *writer, const char *key, const char *const *values, size_t count);
void json_put_base64(struct json_writer *writer, const char *key, const void *bytes, size_t length);
/* Adds the closing brace and the line's end. */
void json_close(struct json_writer *writer);

/* Decodes in place; returns the length, or -1 when the text is not base64. */
ssize_t base64_decode(char *text);

#endif
