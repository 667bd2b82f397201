/* Members of a tar file: the headers of many at once, and files read without what nobody is going to look at, the data of some of them.

   transforms/formats/tar_samples.py says what that is for. Source of the format: POSIX.1-2017, pax, "ustar Interchange Format". */

#define _GNU_SOURCE /* memmem */
#include "_native.h"

enum {
  BLOCK = 512,
  NAME = 100,
  SIZE_AT = 124,
  SIZE_DIGITS = 11,
  SUM_AT = 148,
  SUM_DIGITS = 6,
  SUM_BYTES = 8,
  TYPE_AT = 156,
  MAGIC_AT = 257,
  PREFIX_AT = 345,
  PREFIX = 155,
  AHEAD = 4096 /* read at once: a member's header, and those of the small ones that follow it with their data */
};
static const char MAGIC[] = "ustar";

/* A part of a file in memory: what of it is there already is not read again. */
struct window {
  int descriptor;
  uint8_t *data;
  int64_t base, held, size; /* where it begins in the file; bytes of it */
  int64_t begin, end;       /* of what was read last */
};

/* Whether the bytes of a window from `start` to `stop` are there, read where they were not, with some that follow. */
static int fill(struct window *window, int64_t start, int64_t stop) {
  if (start < window->held) start = window->held;
  if (start >= window->begin && start < window->end) start = window->end;
  if (start >= stop) return 1;
  int64_t most = start + AHEAD < window->size ? start + AHEAD : window->size;
  window->begin = window->end = start;
  while (window->end < stop) {
    ssize_t got = pread(window->descriptor, window->data + window->end, (stop > most ? stop : most) - window->end, window->base + window->end);
    if (got <= 0) return 0;
    window->end += got;
  }
  return 1;
}

/* A number in octal digits, or -1 of anything else. */
static int64_t octal(const uint8_t *digits, int number) {
  int64_t value = 0;
  for (const uint8_t *at = digits; at < digits + number; at++) {
    if (*at < '0' || *at > '7') return -1;
    value = 8 * value + (*at - '0');
  }
  return value;
}

/* The size of a member in octal digits, or -1 of a header in which it is not said so. */
static int64_t size_of(const uint8_t *head) {
  return memcmp(head + MAGIC_AT, MAGIC, 5) ? -1 : octal(head + SIZE_AT, SIZE_DIGITS);
}

/* Whether a header's checksum, which counts its own field as spaces, is right. */
static int is_whole(const uint8_t *head) {
  uint32_t sum = SUM_BYTES * ' ';
  for (int at = 0; at < BLOCK; at++) sum += head[at];
  for (int at = SUM_AT; at < SUM_AT + SUM_BYTES; at++) sum -= head[at];
  return sum == octal(head + SUM_AT, SUM_DIGITS);
}

/* The name in a header, with what POSIX has of its folders apart; its length. */
static size_t name_of(const uint8_t *head, char name[PREFIX + 1 + NAME]) {
  size_t before = head[MAGIC_AT + 5] ? 0 : strnlen((const char *)head + PREFIX_AT, PREFIX);
  size_t length = strnlen((const char *)head, NAME);
  memcpy(name, head + PREFIX_AT, before);
  if (before) name[before++] = '/';
  memcpy(name + before, head, length);
  return before + length;
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

/* Whether an extended header may say where the next member's data ends, or what it is called. */
static int tells_more(const uint8_t *data, int64_t size) {
  return memmem(data, size, "path=", 5) || memmem(data, size, "size=", 5) || memmem(data, size, "GNU.sparse.", 11);
}

/* How far the window is as if all of it had been read, for who looks at no data of members with those suffixes. */
static int64_t read_members(struct window *window, int64_t at, const char *suffixes) {
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
    } else if (!is_named(head, suffixes) && !fill(window, begin, stop)) {
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
  window.data = target.buf, window.base = base, window.held = held, window.begin = window.end = 0;
  int64_t found = -1;
  Py_BEGIN_ALLOW_THREADS;
  if (base >= 0 && base <= INT64_MAX - target.len && held >= 0 && held <= target.len && at >= 0 && !fstat(window.descriptor, &status) && S_ISREG(status.st_mode)) {
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

/* The length of what the members of a sample share of a name: to the first dot of its last part; 0 where it has none. */
static size_t shared_of(const char *name, size_t length) {
  size_t base = length, dot;
  while (base && name[base - 1] != '/') base--;
  for (dot = base; dot < length && name[dot] != '.'; dot++) continue;
  return dot > base && dot + 1 < length ? dot + 1 : 0;
}

/* Members that share the beginning of their names: `members` is the list of them. */
struct group {
  char shared[PREFIX + 1 + NAME];
  size_t length;
  PyObject *members;
};

/* Append a new group to those found. */
static int open_group(PyObject *found, struct group *group, const char *name, size_t shared) {
  PyObject *text = PyUnicode_DecodeUTF8(name, shared, "backslashreplace");
  PyObject *pair = text ? Py_BuildValue("(N[])", text) : NULL;
  int failed = !pair || PyList_Append(found, pair);
  if (!failed) {
    memcpy(group->shared, name, shared);
    group->length = shared;
    group->members = PyTuple_GetItem(pair, 1);
  }
  Py_XDECREF(pair);
  return !failed;
}

/* Append a member to those before it, or to a new group if it is of another. */
static int add_member(PyObject *found, struct group *group, const char *name, size_t length, const long long at[3]) {
  size_t shared = shared_of(name, length);
  int is_next = !group->members || shared != group->length || memcmp(name, group->shared, shared);
  if (is_next && !open_group(found, group, name, shared)) return 0;
  PyObject *suffix = PyUnicode_DecodeUTF8(name + shared, length - shared, "backslashreplace");
  PyObject *member = suffix ? Py_BuildValue("(LNLL)", at[0], suffix, at[1], at[2]) : NULL;
  int failed = !member || PyList_Append(group->members, member);
  Py_XDECREF(member);
  return !failed;
}

/* The members from `at` on whose headers are plain and whose bytes are all in `data`, up to the first that is not so. */
static int add_members(PyObject *found, const uint8_t *data, int64_t size, long long base, int64_t at) {
  char name[PREFIX + 1 + NAME];
  struct group group = {.members = NULL};
  int64_t start = at; /* of the member, which may have an extended header */
  while (at <= size - BLOCK) {
    const uint8_t *head = data + at;
    int64_t begin = at + BLOCK, bytes = size_of(head);
    uint8_t type = head[TYPE_AT];
    if (bytes < 0 || bytes > size - begin || !is_whole(head)) return 1;
    at = begin + (bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (type == 'x') {
      if (head != data + start || tells_more(data + begin, bytes)) return 1;
      continue;
    }
    size_t length = type && type != '0' ? 0 : name_of(head, name);
    if (!length || name[length - 1] == '/') return 1;
    if (!add_member(found, &group, name, length, (long long[]){base + start, bytes, base + begin})) return 0;
    start = at;
  }
  return 1;
}

PyObject *scan_members(PyObject *self, PyObject *args) {
  Py_buffer data;
  Py_ssize_t at;
  long long base;
  if (!PyArg_ParseTuple(args, "y*Ln", &data, &base, &at)) return NULL;
  PyObject *found = PyList_New(0);
  if (found && at >= 0 && base >= 0 && base <= INT64_MAX - data.len && !add_members(found, data.buf, data.len, base, at)) {
    Py_DECREF(found);
    found = NULL;
  }
  PyBuffer_Release(&data);
  return found;
}
