/* See json.h. */
#include "guest.h"
#include "json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *skip_blanks(char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\r') at++;
  return at;
}

static int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

static bool hex_unit(const char *at, unsigned *unit) {
  *unit = 0;
  for (int index = 0; index < 4; index++) {
    int digit = hex_digit(at[index]);
    if (digit < 0) return false;
    *unit = *unit << 4 | (unsigned)digit;
  }
  return true;
}

static char *put_utf8(char *out, unsigned code) {
  if (code < 0x80) {
    *out++ = (char)code;
  } else if (code < 0x800) {
    *out++ = (char)(0xc0 | code >> 6);
    *out++ = (char)(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *out++ = (char)(0xe0 | code >> 12);
    *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    *out++ = (char)(0x80 | (code & 0x3f));
  } else {
    *out++ = (char)(0xf0 | code >> 18);
    *out++ = (char)(0x80 | (code >> 12 & 0x3f));
    *out++ = (char)(0x80 | (code >> 6 & 0x3f));
    *out++ = (char)(0x80 | (code & 0x3f));
  }
  return out;
}

/* *in stands after "\u". What it writes is never longer than what it read. */
static bool unescape_unicode(char **in, char **out) {
  unsigned code, low;
  if (!hex_unit(*in, &code)) return false;
  *in += 4;
  if (code >= 0xd800 && code < 0xdc00) {
    if ((*in)[0] != '\\' || (*in)[1] != 'u' || !hex_unit(*in + 2, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *in += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code == 0) return false; /* would end the string for every later reader */
  *out = put_utf8(*out, code);
  return true;
}

/* at stands on the opening quote; returns what follows the closing one, or NULL. */
static char *read_string(char *at, char **value) {
  static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
  if (*at++ != '"') return NULL;
  char *out = at;
  *value = at;
  while (*at != '"') {
    if ((unsigned char)*at < 0x20) return NULL; /* also the line's end */
    if (*at != '\\') {
      *out++ = *at++;
      continue;
    }
    at++;
    if (*at == 'u') {
      at++;
      if (!unescape_unicode(&at, &out)) return NULL;
      continue;
    }
    const char *found = *at ? strchr(names, *at) : NULL;
    if (!found) return NULL;
    *out++ = meanings[found - names];
    at++;
  }
  *out = 0;
  return at + 1;
}

static char *read_list(char *at, struct json_object *object, struct json_member *member) {
  member->kind = JSON_LIST;
  member->first = object->item_count;
  at = skip_blanks(at + 1);
  while (*at != ']') {
    if (object->item_count + 2 > JSON_MAX_ITEMS) return NULL;
    at = read_string(at, &object->items[object->item_count]);
    if (!at) return NULL;
    object->item_count++;
    member->count++;
    at = skip_blanks(at);
    if (*at == ',') at = skip_blanks(at + 1);
    else if (*at != ']') return NULL;
  }
  object->items[object->item_count++] = NULL;
  return at + 1;
}

static char *read_value(char *at, struct json_object *object, struct json_member *member) {
  if (*at == '"') {
    char *text;
    at = read_string(at, &text);
    member->kind = JSON_STRING;
    member->text = text;
    return at;
  }
  if (*at == '[') return read_list(at, object, member);
  if (strncmp(at, "true", 4) == 0 || strncmp(at, "null", 4) == 0) {
    member->kind = *at == 't' ? JSON_BOOLEAN : JSON_NULL;
    member->number = *at == 't';
    return at + 4;
  }
  if (strncmp(at, "false", 5) == 0) {
    member->kind = JSON_BOOLEAN;
    return at + 5;
  }
  if (*at != '-' && (*at < '0' || *at > '9')) return NULL;
  char *end;
  member->kind = JSON_INTEGER;
  member->number = strtoll(at, &end, 10);
  return *end == '.' || *end == 'e' || *end == 'E' ? NULL : end;
}

bool json_read(char *line, struct json_object *object) {
  object->count = 0;
  object->item_count = 0;
  char *at = skip_blanks(line);
  if (*at != '{') return false;
  at = skip_blanks(at + 1);
  while (*at != '}') {
    if (object->count == JSON_MAX_MEMBERS) return false;
    struct json_member *member = &object->members[object->count];
    memset(member, 0, sizeof *member);
    char *key;
    if (!(at = read_string(at, &key))) return false;
    member->key = key;
    at = skip_blanks(at);
    if (*at != ':') return false;
    if (!(at = read_value(skip_blanks(at + 1), object, member))) return false;
    object->count++;
    at = skip_blanks(at);
    if (*at == ',') at = skip_blanks(at + 1);
    else if (*at != '}') return false;
  }
  return *skip_blanks(at + 1) == 0;
}

static const struct json_member *find(const struct json_object *object, const char *key, enum json_kind kind) {
  for (size_t index = 0; index < object->count; index++)
    if (object->members[index].kind == kind && strcmp(object->members[index].key, key) == 0) return &object->members[index];
  return NULL;
}

const char *json_text(const struct json_object *object, const char *key, const char *otherwise) {
  const struct json_member *member = find(object, key, JSON_STRING);
  return member ? member->text : otherwise;
}

int64_t json_number(const struct json_object *object, const char *key, int64_t otherwise) {
  const struct json_member *member = find(object, key, JSON_INTEGER);
  return member ? member->number : otherwise;
}

bool json_truth(const struct json_object *object, const char *key) {
  const struct json_member *member = find(object, key, JSON_BOOLEAN);
  return member && member->number;
}

char **json_list(struct json_object *object, const char *key, size_t *count) {
  const struct json_member *member = find(object, key, JSON_LIST);
  if (count) *count = member ? member->count : 0;
  if (member) return object->items + member->first;
  static char *nothing[] = {NULL};
  return nothing;
}

static void put(struct json_writer *writer, const char *data, size_t length) {
  if (writer->failed) return;
  if (writer->length + length > writer->capacity) {
    size_t capacity = (writer->length + length) * 2 + 128;
    char *grown = realloc(writer->data, capacity);
    if (!grown) {
      writer->failed = true;
      return;
    }
    writer->data = grown;
    writer->capacity = capacity;
  }
  memcpy(writer->data + writer->length, data, length);
  writer->length += length;
}

static void put_string(struct json_writer *writer, const char *text) {
  put(writer, "\"", 1);
  for (; *text; text++) {
    char escaped[8];
    if (*text == '"' || *text == '\\') {
      snprintf(escaped, sizeof escaped, "\\%c", *text);
      put(writer, escaped, 2);
    } else if ((unsigned char)*text < 0x20) {
      put(writer, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *text));
    } else {
      put(writer, text, 1);
    }
  }
  put(writer, "\"", 1);
}

static void put_key(struct json_writer *writer, const char *key) {
  if (writer->comma) put(writer, ",", 1);
  writer->comma = true;
  put_string(writer, key);
  put(writer, ":", 1);
}

void json_open(struct json_writer *writer) {
  memset(writer, 0, sizeof *writer);
  put(writer, "{", 1);
}

void json_put_text(struct json_writer *writer, const char *key, const char *value) {
  put_key(writer, key);
  put_string(writer, value);
}

void json_put_number(struct json_writer *writer, const char *key, int64_t value) {
  char digits[24];
  put_key(writer, key);
  put(writer, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value));
}

void json_put_list(struct json_writer *writer, const char *key, const char *const *values, size_t count) {
  put_key(writer, key);
  put(writer, "[", 1);
  for (size_t index = 0; index < count; index++) {
    if (index > 0) put(writer, ",", 1);
    put_string(writer, values[index]);
  }
  put(writer, "]", 1);
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void json_put_base64(struct json_writer *writer, const char *key, const void *bytes, size_t length) {
  const unsigned char *from = bytes;
  put_key(writer, key);
  put(writer, "\"", 1);
  for (size_t at = 0; at < length; at += 3) {
    unsigned block = (unsigned)from[at] << 16;
    if (at + 1 < length) block |= (unsigned)from[at + 1] << 8;
    if (at + 2 < length) block |= from[at + 2];
    char group[4] = {alphabet[block >> 18], alphabet[block >> 12 & 63], '=', '='};
    if (at + 1 < length) group[2] = alphabet[block >> 6 & 63];
    if (at + 2 < length) group[3] = alphabet[block & 63];
    put(writer, group, 4);
  }
  put(writer, "\"", 1);
}

void json_close(struct json_writer *writer) { put(writer, "}\n", 2); }

static int base64_digit(char digit) {
  if (digit >= 'A' && digit <= 'Z') return digit - 'A';
  if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9') return digit - '0' + 52;
  return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

ssize_t base64_decode(char *text) {
  size_t length = strlen(text);
  while (length > 0 && text[length - 1] == '=') length--;
  if (length % 4 == 1) return -1;
  unsigned bits = 0;
  int held = 0;
  char *out = text;
  for (size_t at = 0; at < length; at++) {
    int digit = base64_digit(text[at]);
    if (digit < 0) return -1;
    bits = bits << 6 | (unsigned)digit;
    held += 6;
    if (held >= 8) {
      held -= 8;
      *out++ = (char)(bits >> held);
    }
  }
  return out - text;
}
