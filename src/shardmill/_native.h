/* What the parts of the extension share: checked spans of buffers, the framing of TFRecords, and the entries of Examples. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !defined(__SIZEOF_INT128__)
#error "only for little-endian 64-bit machines and compilers like GCC and Clang; elsewhere shardmill does without"
#endif

typedef PyObject *method(PyObject *self, PyObject *args);

int are_within(const int64_t *starts, const int64_t *ends, Py_ssize_t count, Py_ssize_t size);
PyObject *done(int good); /* None, or NULL with a ValueError about spans */
PyThreadState *give_way(Py_ssize_t bytes);
void come_back(PyThreadState *state);
int note_status(const struct stat *now, int64_t *status);
void make_crc_tables(uint32_t tables[8][256], uint32_t polynomial);
uint32_t masked_crc32c(const uint8_t *data, size_t size);
void frame_record(uint8_t *record, uint64_t size);
void xxh3_128_long(const uint8_t *data, size_t size, uint8_t *digest);

enum { HEADER = 12, FOOTER = 4 }; /* bytes of a TFRecord before and behind its payload */

/* Tags of delimited fields: of an entry, its name and a value in a list; of an entry's feature; of the lists in a feature. */
enum { FIRST = 0x0a, FEATURE = 0x12, BYTES = 0x0a, FLOATS = 0x12, INTEGERS = 0x1a };

static inline uint32_t read32(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static inline uint64_t read64(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

/* The CRC of eight bytes at a time: tables[n][byte] is what a byte that n more bytes follow adds. */
static inline uint32_t crc_by_tables(uint32_t tables[8][256], const uint8_t *data, size_t size) {
  uint32_t crc = ~0u;
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word = read64(data) ^ crc;
    crc = 0;
    for (int n = 0; n < 8; n++) crc ^= tables[7 - n][(word >> (8 * n)) & 0xff];
  }
  for (; size; data++, size--) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xff];
  return ~crc;
}

static inline int varint_size(uint64_t value) { return ((63 - __builtin_clzll(value | 1)) * 9 + 73) >> 6; }

static inline uint8_t *write_varint(uint8_t *at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
  *at++ = (uint8_t)value;
  return at;
}

/* The entry of a feature with one value, or a packed list of numbers, which is on the wire what a list of one bytes is. */
struct entry {
  const uint8_t *prefix; /* between the sizes of the entry and of its feature */
  Py_ssize_t prefix_size;
  uint8_t kind; /* the tag of its list */
};

/* The sizes of list, feature and entry around a payload. */
static inline void nest(const struct entry *entry, uint64_t payload, uint64_t *list, uint64_t *feature, uint64_t *size) {
  *list = 1 + varint_size(payload) + payload;
  *feature = 1 + varint_size(*list) + *list;
  *size = entry->prefix_size + varint_size(*feature) + *feature;
}

static inline uint64_t entry_size(const struct entry *entry, uint64_t payload) {
  uint64_t list, feature, size;
  nest(entry, payload, &list, &feature, &size);
  return 1 + varint_size(size) + size;
}

/* Write what comes before the payload, and return where the payload goes. */
static inline uint8_t *write_head(const struct entry *entry, uint64_t payload, uint8_t *at) {
  uint64_t list, feature, size;
  nest(entry, payload, &list, &feature, &size);
  *at++ = FIRST;
  at = write_varint(at, size);
  memcpy(at, entry->prefix, entry->prefix_size);
  at = write_varint(at + entry->prefix_size, feature);
  *at++ = entry->kind;
  at = write_varint(at, list);
  *at++ = FIRST;
  return write_varint(at, payload);
}
