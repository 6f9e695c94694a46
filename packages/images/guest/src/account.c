/* Users and groups of the root file system, read as text: a static program has no name service. */
#define _GNU_SOURCE
#include "guest.h"
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ACCOUNT_FILE (4 * 1024 * 1024)
#define FIELDS 7

static bool is_number(const char *text) { return *text && text[strspn(text, "0123456789")] == 0; }

/* Splits the line in place; missing fields are empty. */
static void split(char *line, char *fields[FIELDS]) {
  for (int index = 0; index < FIELDS; index++) {
    char *field = line ? strsep(&line, ":") : NULL;
    fields[index] = field ? field : "";
  }
}

static bool scan_passwd(const char *user, struct account *account) {
  size_t length;
  char *text = read_all("/etc/passwd", MAX_ACCOUNT_FILE, &length);
  if (!text) return false;
  bool found = false;
  for (char *rest = text, *line; !found && (line = strsep(&rest, "\n"));) {
    char *fields[FIELDS];
    split(line, fields);
    if (strcmp(fields[0], user) != 0 && (!is_number(user) || strcmp(fields[2], user) != 0)) continue;
    if (!is_number(fields[2])) continue;
    account->uid = (uid_t)strtoul(fields[2], NULL, 10);
    account->gid = (gid_t)strtoul(fields[3], NULL, 10);
    snprintf(account->name, sizeof account->name, "%s", fields[0]);
    snprintf(account->home, sizeof account->home, "%s", *fields[5] ? fields[5] : "/");
    snprintf(account->shell, sizeof account->shell, "%s", *fields[6] ? fields[6] : "/bin/sh");
    found = true;
  }
  free(text);
  return found;
}

static bool is_member(const char *members, const char *user) {
  size_t length = strlen(user);
  for (const char *at = members; *at;) {
    size_t word = strcspn(at, ",");
    if (word == length && strncmp(at, user, length) == 0) return true;
    at += word + (at[word] == ',');
  }
  return false;
}

/* Finds the group by name when one is asked for; otherwise collects the groups that list the user. */
static bool scan_group(const char *wanted, struct account *account) {
  size_t length;
  char *text = read_all("/etc/group", MAX_ACCOUNT_FILE, &length);
  if (!text) return false;
  bool found = false;
  for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
    char *fields[FIELDS];
    split(line, fields);
    if (!is_number(fields[2])) continue;
    gid_t gid = (gid_t)strtoul(fields[2], NULL, 10);
    if (wanted && strcmp(fields[0], wanted) == 0) {
      account->gid = gid;
      found = true;
    }
    if (!wanted && is_member(fields[3], account->name) && account->group_count < MAX_GROUPS)
      account->groups[account->group_count++] = gid;
  }
  free(text);
  return found;
}

/* spec is "user", "user:group", with names or numbers, as in the config of a container image; empty means root. */
bool find_account(const char *spec, struct account *account) {
  memset(account, 0, sizeof *account);
  snprintf(account->home, sizeof account->home, "/");
  snprintf(account->shell, sizeof account->shell, "/bin/sh");
  char user[128];
  snprintf(user, sizeof user, "%s", spec && *spec ? spec : "0");
  char *group = strchr(user, ':');
  if (group) *group++ = 0;
  if (!scan_passwd(user, account)) {
    if (!is_number(user)) {
      if (strcmp(user, "root") != 0) return false;
    } else {
      account->uid = (uid_t)strtoul(user, NULL, 10);
    }
    if (account->uid == 0) snprintf(account->name, sizeof account->name, "root");
  }
  if (!group || !*group) {
    if (*account->name) scan_group(NULL, account);
    return true;
  }
  if (scan_group(group, account)) return true;
  if (!is_number(group)) return false;
  account->gid = (gid_t)strtoul(group, NULL, 10);
  return true;
}

/* For good: in a child that is about to run a program. */
bool become(const struct account *account) {
  gid_t groups[MAX_GROUPS + 1];
  size_t count = 0;
  groups[count++] = account->gid;
  for (size_t index = 0; index < account->group_count; index++) groups[count++] = account->groups[index];
  return setgroups(count, groups) == 0 && setgid(account->gid) == 0 && setuid(account->uid) == 0;
}
