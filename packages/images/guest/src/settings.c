/* The machine file: records "key=value", each ended by a zero byte, so that a value may hold anything else. */
#include "guest.h"
#include <stdlib.h>
#include <string.h>

#define MAX_SETTINGS_BYTES (1024 * 1024)

struct settings load_settings(const char *path) {
  struct settings settings = {NULL, 0};
  settings.data = read_all(path, MAX_SETTINGS_BYTES, &settings.length);
  return settings;
}

static const char *value_of(const char *record, const char *key) {
  size_t length = strlen(key);
  return strncmp(record, key, length) == 0 && record[length] == '=' ? record + length + 1 : NULL;
}

const char *setting(const struct settings *settings, const char *key) {
  for (size_t at = 0; at < settings->length; at += strlen(settings->data + at) + 1) {
    const char *value = value_of(settings->data + at, key);
    if (value) return value;
  }
  return NULL;
}

size_t each_setting(const struct settings *settings, const char *key, void (*visit)(const char *value, void *context),
                    void *context) {
  size_t count = 0;
  for (size_t at = 0; at < settings->length; at += strlen(settings->data + at) + 1) {
    const char *value = value_of(settings->data + at, key);
    if (!value) continue;
    visit(value, context);
    count++;
  }
  return count;
}
