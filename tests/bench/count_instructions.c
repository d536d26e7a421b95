// SPDX-License-Identifier: Apache-2.0
// A QEMU plugin that counts the instructions of a program and prints the count when the program
// ends. Debian packages no header for plugins, so this file declares the parts of version 1 of the
// plugin interface that it uses.
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
enum { kInlineAdd = 0 };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb*));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int operation, void* to,
                                              uint64_t number);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void*),
                                    void* data);

int qemu_plugin_version = 1;
static uint64_t instructions;

static void of_block(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, kInlineAdd, &instructions,
                                           qemu_plugin_tb_n_insns(block));
}

static void at_end(qemu_plugin_id_t id, void* data) {
  (void)id;
  (void)data;
  fprintf(stderr, "instructions %" PRIu64 "\n", instructions);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void* info, int count, char** arguments) {
  (void)info;
  (void)count;
  (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, of_block);
  qemu_plugin_register_atexit_cb(id, at_end, NULL);
  return 0;
}
