/* Members of a tar file read without what nobody is going to look at: the data of some of them.

   transforms/formats/tar/heads.py says what it is for. Source of the format: POSIX.1-2017, pax, "ustar Interchange Format". */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, NAME = 100, SIZE_AT = 124, SIZE_DIGITS = 11, TYPE_AT = 156, MAGIC_AT = 257 };
static const char MAGIC[] = "ustar";

/* A part of a file in memory: what of it is there already is not read again. */
struct window {
  int descriptor;
  uint8_t *data;
  int64_t base, held, size; /* where it begins in the file; bytes of it */
};

/* Whether the bytes of a window from `start` to `stop` are there, read where they were not. */
static int fill(const struct window *window, int64_t start, int64_t stop) {
  if (start < window->held) start = window->held;
  while (start < stop) {
    ssize_t got = pread(window->descriptor, window->data + start, stop - start, window->base + start);
    if (got <= 0) return 0;
    start += got;
  }
  return 1;
}

/* The size of a member in octal digits, or -1 of a header in which it is not said so. */
static int64_t size_of(const uint8_t *head) {
  int64_t size = 0;
  if (memcmp(head + MAGIC_AT, MAGIC, 5)) return -1;
  for (const uint8_t *at = head + SIZE_AT; at < head + SIZE_AT + SIZE_DIGITS; at++) {
    if (*at < '0' || *at > '7') return -1;
    size = 8 * size + (*at - '0');
  }
  return size;
}

/* Whether what follows a name's last dot is among `suffixes`, |jpg|png|, in letters of either case; it is where there are none. */
static int is_named(const uint8_t *head, const char *suffixes) {
  char last[16] = "|";
  size_t length = strnlen((const char *)head, NAME), at = length, to = 1;
  if (!suffixes) return 1;
  while (at && head[at - 1] != '.') at--;
  if (!at || length - at + 3 > sizeof last) return 0;
  for (; at < length; at++) last[to++] = head[at] >= 'A' && head[at] <= 'Z' ? head[at] + 32 : head[at];
  last[to] = '|';
  return to > 1 && strstr(suffixes, last) != NULL;
}

static int holds(const uint8_t *data, int64_t size, const char *word) {
  int64_t length = strlen(word);
  for (int64_t n = 0; n + length <= size; n++)
    if (data[n] == (uint8_t)*word && !memcmp(data + n, word, length)) return 1;
  return 0;
}

/* Whether an extended header may say where the next member's data ends, or what it is called. */
static int tells_more(const uint8_t *data, int64_t size) {
  return holds(data, size, "path=") || holds(data, size, "size=") || holds(data, size, "GNU.sparse.");
}

/* How far the window is as if all of it had been read, for who looks at no data of members with those suffixes. */
static int64_t read_members(const struct window *window, int64_t at, const char *suffixes) {
  while (at < window->size) {
    int64_t begin = at + BLOCK;
    const uint8_t *head = window->data + at;
    int64_t size = begin <= window->size && fill(window, at, begin) ? size_of(head) : -1;
    if (size < 0) break; /* nothing that is known: the rest is read */
    int64_t end = begin + (size + BLOCK - 1) / BLOCK * BLOCK, stop = end < window->size ? end : window->size;
    uint8_t type = head[TYPE_AT];
    if (type == 'x') {
      if (!fill(window, begin, stop)) return -1;
      if (end > stop || tells_more(window->data + begin, size)) break;
    } else if (type && type != '0') {
      break;
    } else if (is_named(head, suffixes)) {
      /* What was there before must not be taken for headers */
      for (int64_t block = begin; block + BLOCK <= stop; block += BLOCK)
        if (block + MAGIC_AT >= window->held) memset(window->data + block + MAGIC_AT, 0, 4);
    } else if (!fill(window, begin, stop)) {
      return -1;
    }
    at = end;
  }
  return at >= window->size || fill(window, at, window->size) ? window->size : -1;
}

PyObject *read_heads(PyObject *self, PyObject *args) {
  struct window window;
  Py_buffer target;
  Py_ssize_t held, at;
  long long base;
  const char *suffixes;
  struct stat status;
  if (!PyArg_ParseTuple(args, "iLw*nnz", &window.descriptor, &base, &target, &held, &at, &suffixes)) return NULL;
  window.data = target.buf, window.base = base, window.held = held;
  int64_t found = -1;
  Py_BEGIN_ALLOW_THREADS;
  if (base >= 0 && held >= 0 && held <= target.len && at >= 0 && !fstat(window.descriptor, &status) && S_ISREG(status.st_mode)) {
    int64_t left = status.st_size - base;
    window.size = left < target.len ? left : target.len;
    if (window.size < held) window.size = held;
#ifdef POSIX_FADV_WILLNEED
    posix_fadvise(window.descriptor, base + held, window.size - held, POSIX_FADV_WILLNEED);
#endif
    found = read_members(&window, at, suffixes);
  }
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&target);
  return PyLong_FromLongLong(found);
}
