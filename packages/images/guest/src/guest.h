/*
 * cocoon-guest: what runs of ours inside a Linux guest, one small static program.
 *
 *   boot    /init of the initramfs: finds the disks, mounts the root, changes into it
 *   init    process 1 of guests that have no init of their own (demo image, container images)
 *   agent   answers the host over a virtio-serial port; also copied into guests that run their own init
 *   serve   processes and files over TCP, for the gateway; started through the agent, which gives it its token
 *   dhcp    called by udhcpc when a lease changes
 *
 * It uses no name service, no locale and no shared library, so it runs on any root file system, also an empty one.
 */
#ifndef COCOON_GUEST_H
#define COCOON_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TOOLKIT "/run/cocoon"          /* bind mount of the initramfs part that guests keep */
#define MACHINE_FILE TOOLKIT "/machine" /* settings of this machine, read from the seed disk */
#define SSH_HOST_KEY "/etc/dropbear/dropbear_ed25519_host_key"
#define SEED_FILE_NAME "cocoon.cfg"
#define SEED_LABEL "CIDATA     "        /* FAT volume label, padded to 11 bytes */

int boot_main(void);
int init_main(void);
int agent_main(int argc, char **argv);
int serve_main(void);
int dhcp_main(int argc, char **argv);

/* text.c: files, messages and the clock */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool write_text(const char *path, const char *text, mode_t mode);
bool replace_text(const char *path, const char *text, mode_t mode);
ssize_t read_text(const char *path, char *buffer, size_t capacity);
char *read_all(const char *path, size_t limit, size_t *length);
bool make_directories(const char *path, mode_t mode);
int64_t monotonic_ms(void);
bool full_write(int fd, const void *data, size_t length);

/* settings.c: the machine file, records "key=value" ended by a zero byte each */
struct settings {
  char *data;
  size_t length;
};
struct settings load_settings(const char *path);
const char *setting(const struct settings *settings, const char *key);
/* Calls for each value of a repeated key, in order. Returns how many there were. */
size_t each_setting(const struct settings *settings, const char *key, void (*visit)(const char *value, void *context),
                    void *context);

/* network.c: IPv4 on one interface, by ioctl */
bool link_up(const char *interface);
bool link_down(const char *interface);
bool link_set_mac(const char *interface, const char *mac);
bool address_set(const char *interface, const char *address, int prefix);
bool gateway_set(const char *interface, const char *gateway);
bool link_set_mtu(const char *interface, int mtu);
void resolver_set(const char *servers, const char *search);
bool link_find_by_mac(const char *mac, char *interface, size_t capacity);
bool link_first(char *interface, size_t capacity);
bool link_has_mac(const char *interface, const char *mac);
/* wanted may carry a prefix length. */
bool link_has_address(const char *interface, const char *wanted);
void link_announce(const char *interface);
/* connections.c: ends TCP connections from the interface's address, which it is about to lose. */
void connections_reset(const char *interface);
bool link_address(const char *interface, unsigned *address);
void dhcp_start(const char *interface);
void dhcp_stop(const char *pid_file);

/* account.c: users and groups of the root file system */
#define MAX_GROUPS 64
struct account {
  uid_t uid;
  gid_t gid;
  gid_t groups[MAX_GROUPS];
  size_t group_count;
  char name[64];
  char home[256];
  char shell[256];
};
bool find_account(const char *spec, struct account *account);
bool become(const struct account *account);

/* identity.c: what must differ between two machines that came from one snapshot */
void identity_hostname(const char *name);
/* Writes the machine id; what is derived from the old one is renewed with it. */
bool identity_machine_id(const char *id);
bool identity_entropy(const void *bytes, size_t length);
bool identity_clock(int64_t unix_nanoseconds);

#endif
