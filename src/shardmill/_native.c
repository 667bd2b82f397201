/* Checksums, hashes and copies of many spans of a buffer in one call, without the interpreter's lock.

   shardmill/data/spans.py says what each function is for; shardmill/data/tfrecord.py does the same in Python where this
   could not be compiled. */

#include "_native.h"

#include <sys/uio.h>

/* crc32c, the CRC of RFC 3720, appendix B.4: reflected polynomial 0x82f63b78, start and end inverted. */

static uint32_t crc_tables[8][256];

void make_crc_tables(uint32_t tables[8][256], uint32_t polynomial) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (int n = 1; n < 8; n++)
    for (int byte = 0; byte < 256; byte++) tables[n][byte] = (tables[n - 1][byte] >> 8) ^ tables[0][tables[n - 1][byte] & 0xff];
}

static uint32_t crc32c_tables(const uint8_t *data, size_t size) { return crc_by_tables(crc_tables, data, size); }

static uint32_t (*crc32c)(const uint8_t *, size_t) = crc32c_tables;

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_STEP8(crc, word) __builtin_ia32_crc32di(crc, word)
#define CRC_STEP1(crc, byte) __builtin_ia32_crc32qi(crc, byte)
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define CRC_TARGET
#define CRC_STEP8(crc, word) __crc32cd((uint32_t)(crc), word)
#define CRC_STEP1(crc, byte) __crc32cb(crc, byte)
#endif

#if defined(CRC_TARGET)
/* The instruction takes three cycles, and another one can begin in each: three parts of the data are read at once. */
enum { PART = 512 };
static uint32_t after_part[4][256]; /* [n][byte]: what byte n of a register becomes after PART zero bytes */

static void make_part_tables(void) {
  for (int n = 0; n < 4; n++)
    for (int byte = 1; byte < 256; byte++) {
      uint32_t crc = 0;
      if (byte & (byte - 1)) { /* the sum of its lowest bit and of the others, as the function is linear */
        crc = after_part[n][byte & (byte - 1)] ^ after_part[n][byte & -byte];
      } else {
        crc = (uint32_t)byte << (8 * n);
        for (int k = 0; k < PART; k++) crc = (crc >> 8) ^ crc_tables[0][crc & 0xff];
      }
      after_part[n][byte] = crc;
    }
}

static inline uint32_t skip_part(uint64_t crc) {
  return after_part[0][crc & 0xff] ^ after_part[1][(crc >> 8) & 0xff] ^ after_part[2][(crc >> 16) & 0xff] ^ after_part[3][(crc >> 24) & 0xff];
}

CRC_TARGET static uint32_t crc32c_hardware(const uint8_t *data, size_t size) {
  uint64_t crc = ~0u;
  for (; size >= 3 * PART; data += 3 * PART, size -= 3 * PART) {
    uint64_t second = 0, third = 0;
    for (int n = 0; n < PART; n += 8) {
      crc = CRC_STEP8(crc, read64(data + n));
      second = CRC_STEP8(second, read64(data + PART + n));
      third = CRC_STEP8(third, read64(data + 2 * PART + n));
    }
    crc = skip_part(skip_part(crc) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) crc = CRC_STEP8(crc, read64(data));
  uint32_t rest = (uint32_t)crc;
  for (; size; data++, size--) rest = CRC_STEP1(rest, *data);
  return ~rest;
}

static void choose_crc(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2")) return;
#endif
  make_part_tables();
  crc32c = crc32c_hardware;
}
#else
static void choose_crc(void) {}
#endif

/* XXH3 of 64 bits with a seed, as doc/xxhash_spec.md of https://github.com/Cyan4973/xxHash specifies it. */

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87u
#define PRIME64_2 0xC2B2AE3D27D4EB4Fu
#define PRIME64_3 0x165667B19E3779F9u
#define PRIME64_4 0x85EBCA77C2B2AE63u
#define PRIME64_5 0x27D4EB2F165667C5u
#define PRIME_MX1 0x165667919E3779F9u
#define PRIME_MX2 0x9FB21C651E98DF25u

enum { SECRET_SIZE = 192, STRIPE = 64, LANES = 8, STRIPES_A_BLOCK = (SECRET_SIZE - STRIPE) / 8 };

static const uint8_t SECRET[SECRET_SIZE] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9,
    0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78,
    0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
    0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f,
    0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
    0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff,
    0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

static inline uint64_t rotate(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

static inline uint64_t folded_product(uint64_t left, uint64_t right) {
  unsigned __int128 product = (unsigned __int128)left * right;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t avalanche(uint64_t hash) {
  hash = (hash ^ (hash >> 37)) * PRIME_MX1;
  return hash ^ (hash >> 32);
}

static inline uint64_t avalanche_xxh64(uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * PRIME64_2;
  hash = (hash ^ (hash >> 29)) * PRIME64_3;
  return hash ^ (hash >> 32);
}

static inline uint64_t mix16(const uint8_t *data, const uint8_t *secret, uint64_t seed) {
  return folded_product(read64(data) ^ (read64(secret) + seed), read64(data + 8) ^ (read64(secret + 8) - seed));
}

static uint64_t xxh3_to_16(const uint8_t *data, size_t size, uint64_t seed) {
  if (size > 8) {
    uint64_t low = read64(data) ^ ((read64(SECRET + 24) ^ read64(SECRET + 32)) + seed);
    uint64_t high = read64(data + size - 8) ^ ((read64(SECRET + 40) ^ read64(SECRET + 48)) - seed);
    return avalanche(size + __builtin_bswap64(low) + high + folded_product(low, high));
  }
  if (size > 3) {
    seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
    uint64_t word = read32(data + size - 4) + ((uint64_t)read32(data) << 32);
    uint64_t hash = word ^ ((read64(SECRET + 8) ^ read64(SECRET + 16)) - seed);
    hash = (hash ^ rotate(hash, 49) ^ rotate(hash, 24)) * PRIME_MX2;
    hash = (hash ^ ((hash >> 35) + size)) * PRIME_MX2;
    return hash ^ (hash >> 28);
  }
  if (size) {
    uint32_t word = ((uint32_t)data[0] << 16) | ((uint32_t)data[size >> 1] << 24) | data[size - 1] | ((uint32_t)size << 8);
    return avalanche_xxh64(word ^ ((uint64_t)(read32(SECRET) ^ read32(SECRET + 4)) + seed));
  }
  return avalanche_xxh64(seed ^ read64(SECRET + 56) ^ read64(SECRET + 64));
}

static uint64_t xxh3_to_128(const uint8_t *data, size_t size, uint64_t seed) {
  uint64_t sum = size * PRIME64_1;
  for (int pair = ((int)size - 1) / 32; pair >= 0; pair--) {
    sum += mix16(data + 16 * pair, SECRET + 32 * pair, seed);
    sum += mix16(data + size - 16 * (pair + 1), SECRET + 32 * pair + 16, seed);
  }
  return avalanche(sum);
}

static uint64_t xxh3_to_240(const uint8_t *data, size_t size, uint64_t seed) {
  uint64_t sum = size * PRIME64_1;
  for (size_t n = 0; n < 8; n++) sum += mix16(data + 16 * n, SECRET + 16 * n, seed);
  uint64_t rest = mix16(data + size - 16, SECRET + 136 - 17, seed);
  for (size_t n = 8; n < size / 16; n++) rest += mix16(data + 16 * n, SECRET + 16 * (n - 8) + 3, seed);
  return avalanche(avalanche(sum) + rest);
}

static inline void accumulate(uint64_t *lanes, const uint8_t *stripe, const uint8_t *secret) {
  for (int lane = 0; lane < LANES; lane++) {
    uint64_t word = read64(stripe + 8 * lane), keyed = word ^ read64(secret + 8 * lane);
    lanes[lane ^ 1] += word;
    lanes[lane] += (keyed & 0xffffffffu) * (keyed >> 32);
  }
}

/* The lanes after all of more than 240 bytes. */
static void accumulate_all(uint64_t *lanes, const uint8_t *data, size_t size, const uint8_t *secret) {
  const uint64_t begin[LANES] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
  const uint8_t *last_secret = secret + SECRET_SIZE - STRIPE;
  size_t stripes = (size - 1) / STRIPE;
  memcpy(lanes, begin, sizeof begin);
  for (size_t n = 0; n < stripes; n++) {
    accumulate(lanes, data + STRIPE * n, secret + 8 * (n % STRIPES_A_BLOCK));
    if (n % STRIPES_A_BLOCK == STRIPES_A_BLOCK - 1)
      for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = (lanes[lane] ^ (lanes[lane] >> 47) ^ read64(last_secret + 8 * lane)) * PRIME32_1;
  }
  accumulate(lanes, data + size - STRIPE, last_secret - 7);
}

static uint64_t merge_lanes(const uint64_t *lanes, const uint8_t *secret, uint64_t sum) {
  for (int n = 0; n < 4; n++) sum += folded_product(lanes[2 * n] ^ read64(secret + 16 * n), lanes[2 * n + 1] ^ read64(secret + 16 * n + 8));
  return avalanche(sum);
}

static uint64_t xxh3_long(const uint8_t *data, size_t size, uint64_t seed) {
  uint8_t secret[SECRET_SIZE];
  for (int n = 0; n < SECRET_SIZE; n += 16) {
    uint64_t low = read64(SECRET + n) + seed, high = read64(SECRET + n + 8) - seed;
    memcpy(secret + n, &low, 8);
    memcpy(secret + n + 8, &high, 8);
  }
  uint64_t lanes[LANES];
  accumulate_all(lanes, data, size, secret);
  return merge_lanes(lanes, secret + 11, size * PRIME64_1);
}

/* XXH3 of 128 bits without a seed, of more than 240 bytes; as bytes, the highest first. */
void xxh3_128_long(const uint8_t *data, size_t size, uint8_t *digest) {
  uint64_t lanes[LANES];
  accumulate_all(lanes, data, size, SECRET);
  uint64_t low = __builtin_bswap64(merge_lanes(lanes, SECRET + 11, size * PRIME64_1));
  uint64_t high = __builtin_bswap64(merge_lanes(lanes, SECRET + SECRET_SIZE - STRIPE - 11, ~(size * PRIME64_2)));
  memcpy(digest, &high, 8);
  memcpy(digest + 8, &low, 8);
}

static inline uint64_t xxh3(const uint8_t *data, size_t size, uint64_t seed) {
  if (size <= 16) return xxh3_to_16(data, size, seed);
  if (size <= 128) return xxh3_to_128(data, size, seed);
  if (size <= 240) return xxh3_to_240(data, size, seed);
  return xxh3_long(data, size, seed);
}

/* The functions of the module. Arguments are contiguous buffers: int64 for places, uint32 and uint64 for results. */

int are_within(const int64_t *starts, const int64_t *ends, Py_ssize_t count, Py_ssize_t size) {
  int good = 1;
  for (Py_ssize_t n = 0; n < count; n++) good &= 0 <= starts[n] && starts[n] <= ends[n] && ends[n] <= size;
  return good;
}

PyObject *done(int good) {
  if (!good) {
    PyErr_SetString(PyExc_ValueError, "a span lies outside its buffer, or a buffer is not as long as it has to be");
    return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject *checksums(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, out;
  if (!PyArg_ParseTuple(args, "y*y*y*w*", &data, &starts, &ends, &out)) return NULL;
  Py_ssize_t count = starts.len / 8;
  const int64_t *from = starts.buf, *to = ends.buf;
  uint32_t *crcs = out.buf;
  int good = ends.len == starts.len && out.len == 4 * count;
  Py_BEGIN_ALLOW_THREADS;
  if ((good = good && are_within(from, to, count, data.len)))
    for (Py_ssize_t n = 0; n < count; n++) crcs[n] = crc32c((const uint8_t *)data.buf + from[n], to[n] - from[n]);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends), PyBuffer_Release(&out);
  return done(good);
}

/* For each seed the hashes of all spans, one seed after the other; a span is read once. */
static PyObject *hashes_by_seed(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, seeds, out;
  if (!PyArg_ParseTuple(args, "y*y*y*y*w*", &data, &starts, &ends, &seeds, &out)) return NULL;
  Py_ssize_t count = starts.len / 8, number = seeds.len / 8;
  const int64_t *from = starts.buf, *to = ends.buf;
  const uint64_t *seed = seeds.buf;
  uint64_t *found = out.buf;
  int good = ends.len == starts.len && (number ? out.len / number == 8 * count && out.len % number == 0 : !out.len);
  Py_BEGIN_ALLOW_THREADS;
  if ((good = good && are_within(from, to, count, data.len)))
    for (Py_ssize_t n = 0; n < count; n++)
      for (Py_ssize_t k = 0; k < number; k++) found[k * count + n] = xxh3((const uint8_t *)data.buf + from[n], to[n] - from[n], seed[k]);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends), PyBuffer_Release(&seeds), PyBuffer_Release(&out);
  return done(good);
}

/* The framing of TFRecord: the length, masked crc32c of it, the payload, masked crc32c of that; see shardmill/data/tfrecord.py. */

uint32_t masked_crc32c(const uint8_t *data, size_t size) {
  uint32_t crc = crc32c(data, size);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* Write length and checksums around a payload of `size` bytes that is in its place. */
void frame_record(uint8_t *record, uint64_t size) {
  memcpy(record, &size, 8);
  uint32_t length_crc = masked_crc32c(record, 8), crc = masked_crc32c(record + HEADER, size);
  memcpy(record + 8, &length_crc, 4);
  memcpy(record + HEADER + size, &crc, 4);
}

static PyObject *frame(PyObject *self, PyObject *args) {
  Py_buffer data, offsets;
  if (!PyArg_ParseTuple(args, "w*y*", &data, &offsets)) return NULL;
  Py_ssize_t count = offsets.len / 8 - 1;
  const int64_t *at = offsets.buf;
  int good;
  Py_BEGIN_ALLOW_THREADS;
  good = are_within(at, at + 1, count, data.len);
  for (Py_ssize_t n = 0; good && n < count; n++) {
    uint8_t *record = (uint8_t *)data.buf + at[n];
    if (!(good = at[n + 1] - at[n] >= HEADER + FOOTER)) break;
    frame_record(record, at[n + 1] - at[n] - HEADER - FOOTER);
  }
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&offsets);
  return done(good);
}

enum { AHEAD = 16 }; /* spans whose first bytes are fetched before they are copied: they may lie in any order */

static PyObject *copy(PyObject *self, PyObject *args) {
  Py_buffer data, starts, sizes, target, places;
  if (!PyArg_ParseTuple(args, "y*y*y*w*y*", &data, &starts, &sizes, &target, &places)) return NULL;
  Py_ssize_t count = starts.len / 8;
  const int64_t *from = starts.buf, *size = sizes.buf, *to = places.buf;
  int good = sizes.len == starts.len && places.len == starts.len;
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t n = 0; good && n < count; n++) {
    good = size[n] >= 0 && 0 <= from[n] && from[n] <= data.len - size[n] && 0 <= to[n] && to[n] <= target.len - size[n];
    if (n + AHEAD < count) { /* harmless wherever it points, once it is no sum of pointers */
      uintptr_t ahead = (uintptr_t)data.buf + (uintptr_t)from[n + AHEAD];
      __builtin_prefetch((const void *)ahead), __builtin_prefetch((const void *)(ahead + 64));
    }
    if (good) memcpy((uint8_t *)target.buf + to[n], (const uint8_t *)data.buf + from[n], size[n]);
  }
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&sizes), PyBuffer_Release(&target), PyBuffer_Release(&places);
  return done(good);
}

enum { LANES_OF_BYTES = 32 };

/* Bytes from which a search lets other threads have the interpreter. The search of an image of 25 KB takes two
   microseconds; a thread that gives the interpreter away waits far longer to have it back where others are busy. */
enum { WORTH_GIVING_WAY = 1 << 20 };

PyThreadState *give_way(Py_ssize_t bytes) { return bytes < WORTH_GIVING_WAY ? NULL : PyEval_SaveThread(); }

void come_back(PyThreadState *state) {
  if (state) PyEval_RestoreThread(state);
}

static PyObject *count(PyObject *self, PyObject *args) {
  Py_buffer data;
  unsigned char byte;
  if (!PyArg_ParseTuple(args, "y*b", &data, &byte)) return NULL;
  const uint8_t *bytes = data.buf;
  Py_ssize_t found = 0;
  PyThreadState *state = give_way(data.len);
  for (Py_ssize_t start = 0; start < data.len; start += 255 * LANES_OF_BYTES) {
    uint8_t lanes[LANES_OF_BYTES] = {0}; /* counted in bytes, which hold 255, a compiler does many at a time */
    Py_ssize_t end = data.len - start < 255 * LANES_OF_BYTES ? data.len : start + 255 * LANES_OF_BYTES, n = start;
    for (; n + LANES_OF_BYTES <= end; n += LANES_OF_BYTES)
      for (int lane = 0; lane < LANES_OF_BYTES; lane++) lanes[lane] += bytes[n + lane] == byte;
    for (int lane = 0; lane < LANES_OF_BYTES; lane++) found += lanes[lane];
    for (; n < end; n++) found += bytes[n] == byte;
  }
  come_back(state);
  PyBuffer_Release(&data);
  return PyLong_FromSsize_t(found);
}

static PyObject *find(PyObject *self, PyObject *args) {
  Py_buffer data, out;
  unsigned char byte;
  if (!PyArg_ParseTuple(args, "y*bw*", &data, &byte, &out)) return NULL;
  const uint8_t *start = data.buf, *end = start + data.len, *at = start;
  int64_t *places = out.buf, *last = places + out.len / 8;
  int good;
  PyThreadState *state = give_way(data.len);
  while (places < last && (at = memchr(at, byte, end - at))) *places++ = at++ - start;
  good = places == last && (at == end || (at && !memchr(at, byte, end - at)));
  come_back(state);
  PyBuffer_Release(&data), PyBuffer_Release(&out);
  return done(good);
}

static PyObject *chain(PyObject *self, PyObject *args) {
  Py_buffer data, out;
  Py_ssize_t head, at;
  if (!PyArg_ParseTuple(args, "y*nnw*", &data, &head, &at, &out)) return NULL;
  int64_t *places = out.buf;
  Py_ssize_t count = 0, most = out.len / 8, place = 0;
  int good = 0 <= at && 4 <= head && at <= head - 4;
  PyThreadState *state = give_way(data.len);
  while (good && head <= data.len - place) {
    if ((good = count < most)) {
      places[count++] = place;
      place += head + read32((const uint8_t *)data.buf + place + at);
    }
  }
  good &= place == data.len;
  come_back(state);
  PyBuffer_Release(&data), PyBuffer_Release(&out);
  return good ? PyLong_FromSsize_t(count) : done(0);
}

/* Where in data[first:last] `byte` stands before one for which the table `after` has not 0: a list, for there are few.
   The last byte of all stands before itself. The interpreter is kept, see WORTH_GIVING_WAY. */
static PyObject *find_before(PyObject *self, PyObject *args) {
  Py_buffer data, after;
  unsigned char byte;
  Py_ssize_t first, last;
  if (!PyArg_ParseTuple(args, "y*nnby*", &data, &first, &last, &byte, &after)) return NULL;
  const uint8_t *start = data.buf, *wanted = after.buf, *at = start, *end = start;
  PyObject *places = NULL;
  if (after.len == 256 && 0 <= first && first <= last && last <= data.len) {
    places = PyList_New(0);
    at += first, end += last;
  } else
    done(0);
  while (places && at < end && (at = memchr(at, byte, end - at))) {
    if (wanted[at + 1 < start + data.len ? at[1] : byte]) {
      PyObject *place = PyLong_FromSsize_t(at - start);
      if (!place || PyList_Append(places, place)) Py_CLEAR(places);
      Py_XDECREF(place);
    }
    at++;
  }
  PyBuffer_Release(&data), PyBuffer_Release(&after);
  return places;
}

/* Many small files in one call, as transforms/stores/local.py reads one: each system call gives the interpreter away, and a
   thread waits longer to have it back than for a small file that is in memory. */

struct file {
  PyObject *path, *data; /* bytes; NULL where it is left to Python, which says what is wrong */
  const char *name;
  char *place;
  Py_ssize_t size;
  int descriptor;
};

static void open_file(struct file *file, Py_ssize_t most) {
  struct stat status;
  file->descriptor = file->name ? open(file->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  if (file->descriptor < 0) return;
  if (!fstat(file->descriptor, &status) && S_ISREG(status.st_mode) && status.st_size <= most) {
    file->size = status.st_size;
    return;
  }
  close(file->descriptor);
  file->descriptor = -1;
}

/* Write size, time of change in ns and inode of a file; 0 of a time that is no int64. */
int note_status(const struct stat *now, int64_t *status) {
  int64_t time;
  if (__builtin_mul_overflow(now->st_mtim.tv_sec, INT64_C(1000000000), &time) || __builtin_add_overflow(time, now->st_mtim.tv_nsec, &time)) return 0;
  status[0] = now->st_size, status[1] = time, status[2] = now->st_ino;
  return 1;
}

/* Whether the file is read, and no longer than it was; `status` is what it is then. */
static int read_file(const struct file *file, int64_t *status) {
  char more;
  struct stat now;
  struct iovec parts[2] = {{file->place, file->size}, {&more, 1}};
  return readv(file->descriptor, parts, 2) == file->size && !fstat(file->descriptor, &now) && note_status(&now, status);
}

static void name_file(struct file *file, PyObject *path) {
  memset(file, 0, sizeof *file);
  file->descriptor = -1;
  if (PyUnicode_FSConverter(path, &file->path)) file->name = PyBytes_AsString(file->path);
  else PyErr_Clear(); /* no path: Python says so */
}

static PyObject *read_whole_files(PyObject *self, PyObject *args) {
  PyObject *paths;
  Py_buffer statuses;
  Py_ssize_t most;
  if (!PyArg_ParseTuple(args, "O!nw*", &PyList_Type, &paths, &most, &statuses)) return NULL;
  Py_ssize_t count = PyList_Size(paths);
  if (statuses.len != 24 * count) {
    PyBuffer_Release(&statuses);
    PyErr_SetString(PyExc_ValueError, "three integers of 64 bits for each path");
    return NULL;
  }
  PyObject *found = PyList_New(count);
  struct file *files = PyMem_Calloc(count ? count : 1, sizeof *files);
  if (!found || !files) {
    Py_XDECREF(found), PyMem_Free(files), PyBuffer_Release(&statuses);
    return PyErr_NoMemory();
  }
  for (Py_ssize_t n = 0; n < count; n++) name_file(files + n, PyList_GetItem(paths, n));
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t n = 0; n < count; n++) open_file(files + n, most);
  Py_END_ALLOW_THREADS;
  for (Py_ssize_t n = 0; n < count; n++)
    if (files[n].descriptor >= 0) {
      if ((files[n].data = PyBytes_FromStringAndSize(NULL, files[n].size))) files[n].place = PyBytes_AsString(files[n].data);
      else PyErr_Clear();
    }
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t n = 0; n < count; n++)
    if (files[n].descriptor >= 0) {
      if (!files[n].place || !read_file(files + n, (int64_t *)statuses.buf + 3 * n)) files[n].place = NULL;
      close(files[n].descriptor);
    }
  Py_END_ALLOW_THREADS;
  for (Py_ssize_t n = 0; n < count; n++) {
    int is_read = files[n].place != NULL;
    PyList_SetItem(found, n, Py_NewRef(is_read ? files[n].data : Py_None));
    Py_XDECREF(files[n].data), Py_XDECREF(files[n].path);
  }
  PyMem_Free(files), PyBuffer_Release(&statuses);
  return found;
}

/* Parts of many files in one call, for the same reason. Those of one file that follow each other open it once, and the disk is asked for
   what follows before it is waited for. */

enum { OPEN_AT_ONCE = 32 };

struct span_request {
  const char **names; /* of the files; NULL of what is no path */
  const int64_t *files, *offsets, *sizes, *places;
  uint8_t *target;
};

/* Read the requests from `first` to before `stop`, of at most OPEN_AT_ONCE files; how many before the first that fails. */
static Py_ssize_t read_some_spans(const struct span_request *all, Py_ssize_t first, Py_ssize_t stop) {
  int descriptors[OPEN_AT_ONCE], opened = 0;
  for (Py_ssize_t n = first; n < stop; n++) {
    if (n == first || all->files[n] != all->files[n - 1]) {
      const char *name = all->names[all->files[n]];
      descriptors[opened++] = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    }
#ifdef POSIX_FADV_WILLNEED
    if (descriptors[opened - 1] >= 0) posix_fadvise(descriptors[opened - 1], all->offsets[n], all->sizes[n], POSIX_FADV_WILLNEED);
#endif
  }
  Py_ssize_t whole = 0, n = first;
  for (int file = 0, good = 1; good && n < stop; n++) {
    if (n > first && all->files[n] != all->files[n - 1]) file++;
    int64_t done = 0;
    while (descriptors[file] >= 0 && done < all->sizes[n]) {
      ssize_t got = pread(descriptors[file], all->target + all->places[n] + done, all->sizes[n] - done, all->offsets[n] + done);
      if (got <= 0) break;
      done += got;
    }
    good = descriptors[file] >= 0 && done == all->sizes[n];
    whole += good;
  }
  for (int file = 0; file < opened; file++)
    if (descriptors[file] >= 0) close(descriptors[file]);
  return whole;
}

static PyObject *read_spans(PyObject *self, PyObject *args) {
  PyObject *paths;
  Py_buffer files, offsets, sizes, target, places;
  if (!PyArg_ParseTuple(args, "O!y*y*y*w*y*", &PyList_Type, &paths, &files, &offsets, &sizes, &target, &places)) return NULL;
  Py_ssize_t known = PyList_Size(paths), count = files.len / 8, done_with = 0;
  struct span_request all = {NULL, files.buf, offsets.buf, sizes.buf, places.buf, target.buf};
  int good = files.len % 8 == 0 && offsets.len == files.len && sizes.len == files.len && places.len == files.len;
  for (Py_ssize_t n = 0; good && n < count; n++) {
    good = all.files[n] >= (n ? all.files[n - 1] : 0) && all.files[n] < known && all.offsets[n] >= 0 && all.sizes[n] >= 0;
    good = good && all.places[n] >= 0 && all.places[n] <= target.len && all.sizes[n] <= target.len - all.places[n];
  }
  PyObject **encoded = PyMem_Calloc(known ? known : 1, sizeof *encoded);
  all.names = PyMem_Calloc(known ? known : 1, sizeof *all.names);
  int has_memory = encoded && all.names;
  if (good && has_memory) {
    for (Py_ssize_t n = 0; n < known; n++) {
      if (PyUnicode_FSConverter(PyList_GetItem(paths, n), encoded + n)) all.names[n] = PyBytes_AsString(encoded[n]);
      else PyErr_Clear(); /* no path: Python says so */
    }
    Py_BEGIN_ALLOW_THREADS;
    while (done_with < count) {
      Py_ssize_t stop = done_with;
      for (int opened = 0; stop < count; stop++) {
        opened += stop == done_with || all.files[stop] != all.files[stop - 1];
        if (opened > OPEN_AT_ONCE) break;
      }
      Py_ssize_t whole = read_some_spans(&all, done_with, stop), wanted = stop - done_with;
      done_with += whole;
      if (whole < wanted) break;
    }
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t n = 0; n < known; n++) Py_XDECREF(encoded[n]);
  }
  PyMem_Free(encoded), PyMem_Free(all.names);
  PyBuffer_Release(&files), PyBuffer_Release(&offsets), PyBuffer_Release(&sizes), PyBuffer_Release(&target), PyBuffer_Release(&places);
  if (!has_memory) return PyErr_NoMemory();
  return good ? PyLong_FromSsize_t(done_with) : done(0);
}

method parse_annotations, read_heads, scan_members;                                             /* _native_json.c, _native_tar.c */
method split_records, scan_examples, read_example, read_examples, take_examples;                /* _native_examples.c */
method size_entries, encode_rows, plain_jpeg, plain_jpegs, read_images, encode_images;           /* _native_encoding.c, _native_images.c */
extern uint32_t png_crcs[8][256];

static PyMethodDef methods[] = {
    {"checksums", checksums, METH_VARARGS, "checksums(data, starts, ends, out): crc32c of each data[start:end]."},
    {"hashes_by_seed", hashes_by_seed, METH_VARARGS, "hashes_by_seed(data, starts, ends, seeds, out): xxh3_64 of each data[start:end], for each seed."},
    {"frame", frame, METH_VARARGS, "frame(data, offsets): lengths and checksums around the payloads of TFRecords."},
    {"copy", copy, METH_VARARGS, "copy(data, starts, sizes, target, places): each data[start:start + size] to its place."},
    {"count", count, METH_VARARGS, "count(data, byte): how many bytes of `data` are `byte`."},
    {"find", find, METH_VARARGS, "find(data, byte, out): where in `data` `byte` stands; `out` holds as many places."},
    {"chain", chain, METH_VARARGS, "chain(data, head, at, out): where heads begin, whose uint32 at `at` says what follows each; how many."},
    {"find_before", find_before, METH_VARARGS, "find_before(data, first, last, byte, after): where `byte` stands before one in `after`."},
    {"split_records", split_records, METH_VARARGS, "split_records(data, at, starts, ends): the payloads of sound records from `at` on: (count, end, missing, fault)."},
    {"scan_examples", scan_examples, METH_VARARGS, "scan_examples(data, starts, ends, names, tags, out, plain): where each record has the values of each feature."},
    {"read_example", read_example, METH_VARARGS, "read_example(file, start, stop, names, tags, wanted): values of a record; its payload; or None."},
    {"read_examples", read_examples, METH_VARARGS, "read_examples(files, starts, stops, names, tags, columns, rest): values of records; how many are sound."},
    {"take_examples", take_examples, METH_VARARGS, "take_examples(data, starts, ends, names, tags, columns, rest): values of records in memory."},
    {"size_entries", size_entries, METH_VARARGS, "size_entries(columns, out): the bytes of each row's entries in an Example."},
    {"encode_rows", encode_rows, METH_VARARGS, "encode_rows(columns, entries, offsets, out, headed, framed): each row as an Example, from its offset on."},
    {"plain_jpeg", plain_jpeg, METH_VARARGS, "plain_jpeg(data): width, height, and from where to where its EXIF is, of a whole JPEG; else None."},
    {"plain_jpegs", plain_jpegs, METH_VARARGS, "plain_jpegs(data, starts, ends, out): width and height of each data[start:end] that is such, without EXIF; else 0."},
    {"read_images", read_images, METH_VARARGS, "read_images(root, paths, places, ranges, max_pixels, target, rows): the plain JPEGs and PNGs among files, or parts of files; their bytes."},
    {"encode_images", encode_images, METH_VARARGS, "encode_images(data, rows, prefixes, labels, files, file_places, entries, entry_places, target, places, values, digests): framed Examples of images."},
    {"parse_annotations", parse_annotations, METH_VARARGS, "parse_annotations(text): the columns of COCO's annotations without a fault; else None."},
    {"read_heads", read_heads, METH_VARARGS, "read_heads(file, base, target, held, at, suffixes): a part of a tar file without some members' data; its end, or -1."},
    {"scan_members", scan_members, METH_VARARGS, "scan_members(data, base, at): the plain members of a tar file from `at` on: [(shared, [(start, suffix, size, data)])]."},
    {"read_whole_files", read_whole_files, METH_VARARGS, "read_whole_files(paths, most, statuses): the bytes of files of at most `most`; None of any other; statuses[3 * n:] size, mtime and inode."},
    {"read_spans", read_spans, METH_VARARGS, "read_spans(paths, files, offsets, sizes, target, places): parts of path files[n] to places[n]; how many before one that is not there."},
    {NULL, NULL, 0, NULL}};

static int prepare(PyObject *module) {
  make_crc_tables(crc_tables, 0x82f63b78u);
  make_crc_tables(png_crcs, 0xedb88320u);
  choose_crc();
  return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "shardmill._native", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
