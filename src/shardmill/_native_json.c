/* COCO's annotations without a fault, from JSON to columns: of an object with a polygon of forty numbers, eight are kept, and no
   Python object is made of the others.

   transforms/inputs/annotations/coco_file.py says what is kept, does the same in Python where this could not be compiled, and says
   what is wrong wherever this gives up: it takes nothing but what RFC 8259 has, and of that only the usual. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum {
  DEEPEST = 64,     /* values within values */
  MOST_OTHERS = 16, /* different names of what is not kept */
  LEAST_BYTES = 48, /* of an annotation: fewer hold no four names with their values */
  LONGEST = 64      /* characters of a number that is left to Python's parser */
};

struct other {
  const char *name;
  Py_ssize_t size;
  int64_t found; /* annotations in which it holds something */
};

struct columns {
  int64_t *ids, *image_ids, *category_ids;
  double *boxes, *areas;
  int8_t *crowds;
  Py_ssize_t rows;
  struct other others[MOST_OTHERS];
  int number; /* of others */
};

/* What is read; `at` is NULL once there is a fault. */
struct text {
  const char *at, *end;
};

static int fail(struct text *text) {
  text->at = NULL;
  return 0;
}

/* Past spaces, and the character there; 0 at the end. */
static inline char next(struct text *text) {
  while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\t' || *text->at == '\r')) text->at++;
  return text->at < text->end ? *text->at : 0;
}

static inline int take(struct text *text, char wanted) {
  if (next(text) != wanted) return 0;
  text->at++;
  return 1;
}

static inline int is_digit(char byte) { return '0' <= byte && byte <= '9'; }

/* From the quotation mark to behind the other one; escapes of characters by their number are left to Python. */
static int skip_string(struct text *text) {
  const char *at = text->at + 1;
  for (; at < text->end && *at != '"'; at++) {
    if ((uint8_t)*at < 0x20) return fail(text);
    if (*at == '\\' && (++at == text->end || !*at || !strchr("\"\\/bfnrt", *at))) return fail(text);
  }
  if (at >= text->end) return fail(text);
  text->at = at + 1;
  return 1;
}

/* The parts of a number, which RFC 8259 says in section 6. */
struct number {
  const char *start;
  uint64_t digits; /* all of them, the point left out, if there are no more than 18 */
  int is_negative, count, scale, is_whole, has_exponent; /* how many digits, and how many behind the point */
};

static int read_number(struct text *text, struct number *found) {
  const char *at = text->at, *end = text->end;
  memset(found, 0, sizeof *found);
  found->start = at;
  found->is_whole = 1;
  if (at < end && *at == '-') found->is_negative = 1, at++;
  if (at == end || !is_digit(*at)) return fail(text);
  const char *first = at;
  for (; at < end && is_digit(*at); at++, found->count++)
    if (found->count < 18) found->digits = 10 * found->digits + (*at - '0');
  if (*first == '0' && at - first > 1) return fail(text);
  if (at < end && *at == '.') {
    const char *point = at++;
    for (; at < end && is_digit(*at); at++, found->count++)
      if (found->count < 18) found->digits = 10 * found->digits + (*at - '0');
    if (at - point == 1) return fail(text);
    found->scale = (int)(at - point - 1 < 1000 ? at - point - 1 : 1000);
    found->is_whole = 0;
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    found->is_whole = 0, found->has_exponent = 1;
    if (++at < end && (*at == '+' || *at == '-')) at++;
    if (at == end || !is_digit(*at)) return fail(text);
    while (at < end && is_digit(*at)) at++;
  }
  text->at = at;
  return 1;
}

static int read_integer(struct text *text, int64_t *out) {
  struct number found;
  next(text);
  if (!read_number(text, &found) || !found.is_whole || found.count > 18) return fail(text);
  *out = found.is_negative ? -(int64_t)found.digits : (int64_t)found.digits;
  return 1;
}

static int read_double(struct text *text, double *out) {
  /* Powers of ten that are doubles: the quotient of two exact numbers is rounded once, and so right */
  static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  struct number found;
  next(text);
  if (!read_number(text, &found)) return 0;
  if (found.count <= 18 && found.digits <= (uint64_t)1 << 53 && found.scale <= 22 && !found.has_exponent) {
    double value = (double)found.digits / POWERS[found.scale];
    *out = found.is_negative && !(found.is_whole && !found.digits) ? -value : value; /* the integer -0 is 0 */
    return 1;
  }
  char copy[LONGEST + 1];
  Py_ssize_t size = text->at - found.start;
  if (size > LONGEST) return fail(text);
  memcpy(copy, found.start, size);
  copy[size] = 0;
  *out = PyOS_string_to_double(copy, NULL, PyExc_OverflowError);
  if (*out == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return fail(text);
  }
  return 1;
}

static int skip_word(struct text *text, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(text->end - text->at) < size || memcmp(text->at, word, size)) return fail(text);
  text->at += size;
  return 1;
}

/* Past a value; 1 if Python takes it for true, 0 if not, -1 if it is no good. */
static int skip_value(struct text *text, int depth) {
  char first = next(text);
  if (first == '"') {
    const char *start = text->at;
    return skip_string(text) ? text->at - start > 2 : -1;
  }
  if (first == '[' || first == '{') {
    char last = first == '[' ? ']' : '}';
    text->at++;
    if (take(text, last)) return 0;
    if (depth == DEEPEST) return fail(text) - 1;
    do {
      if (first == '{' && (next(text) != '"' || !skip_string(text) || !take(text, ':'))) return fail(text) - 1;
      if (skip_value(text, depth + 1) < 0) return -1;
    } while (take(text, ','));
    return take(text, last) ? 1 : fail(text) - 1;
  }
  if (first == 't') return skip_word(text, "true") ? 1 : -1;
  if (first == 'f') return skip_word(text, "false") ? 0 : -1;
  if (first == 'n') return skip_word(text, "null") ? 0 : -1;
  struct number found;
  if (!read_number(text, &found)) return -1;
  if (found.digits) return found.has_exponent && !depth ? fail(text) - 1 : 1; /* is 1e-999 true? Python says so */
  return found.count > 18 ? fail(text) - 1 : 0;
}

static int read_box(struct text *text, double *box) {
  if (!take(text, '[')) return fail(text);
  for (int edge = 0; edge < 4; edge++)
    if ((edge && !take(text, ',')) || !read_double(text, box + edge)) return fail(text);
  return take(text, ']') || fail(text);
}

/* The place of a name among those of what is not kept; -1 if there are too many. */
static int other_of(struct columns *found, const char *name, Py_ssize_t size) {
  for (int n = 0; n < found->number; n++)
    if (found->others[n].size == size && !memcmp(found->others[n].name, name, size)) return n;
  if (found->number == MOST_OTHERS) return -1;
  found->others[found->number] = (struct other){name, size, 0};
  return found->number++;
}

enum { ID = 1, IMAGE_ID = 2, CATEGORY_ID = 4, BBOX = 8, AREA = 16, ISCROWD = 32, NEEDED = ID | IMAGE_ID | CATEGORY_ID | BBOX };

static int which(const char *name, Py_ssize_t size) {
  static const struct {
    const char *name;
    Py_ssize_t size;
    int member;
  } KEPT[] = {{"id", 2, ID},     {"image_id", 8, IMAGE_ID}, {"category_id", 11, CATEGORY_ID},
              {"bbox", 4, BBOX}, {"area", 4, AREA},         {"iscrowd", 7, ISCROWD}};
  for (size_t n = 0; n < sizeof KEPT / sizeof *KEPT; n++)
    if (KEPT[n].size == size && !memcmp(KEPT[n].name, name, size)) return KEPT[n].member;
  return 0;
}

static int read_annotation(struct text *text, struct columns *found) {
  Py_ssize_t row = found->rows;
  int seen = 0, seen_others = 0, has_area = 0;
  double *box = found->boxes + 4 * row;
  found->crowds[row] = 0;
  if (!take(text, '{')) return fail(text);
  do {
    if (next(text) != '"') return fail(text);
    const char *name = text->at + 1;
    if (!skip_string(text)) return 0;
    Py_ssize_t size = text->at - name - 1;
    if (memchr(name, '\\', size) || !take(text, ':')) return fail(text);
    int member = which(name, size);
    if (seen & member) return fail(text);
    seen |= member;
    int64_t crowd;
    switch (member) {
      case ID:
        if (!read_integer(text, found->ids + row)) return 0;
        break;
      case IMAGE_ID:
        if (!read_integer(text, found->image_ids + row)) return 0;
        break;
      case CATEGORY_ID:
        if (!read_integer(text, found->category_ids + row)) return 0;
        break;
      case BBOX:
        if (!read_box(text, box)) return 0;
        break;
      case AREA:
        if (next(text) == 'n') {
          if (!skip_word(text, "null")) return 0;
        } else if (!(has_area = read_double(text, found->areas + row))) return 0;
        break;
      case ISCROWD:
        if (!read_integer(text, &crowd) || crowd < 0 || crowd > 1) return fail(text);
        found->crowds[row] = (int8_t)crowd;
        break;
      default: {
        int place = other_of(found, name, size), holds = skip_value(text, 0);
        if (place < 0 || holds < 0 || seen_others & 1 << place) return fail(text);
        seen_others |= 1 << place;
        found->others[place].found += holds;
      }
    }
  } while (take(text, ','));
  if (!take(text, '}') || (seen & NEEDED) != NEEDED) return fail(text);
  if (!has_area) found->areas[row] = box[2] * box[3] + 0.0; /* not -0 */
  found->rows++;
  return 1;
}

static PyObject *counts_of(const struct columns *found) {
  PyObject *counts = PyDict_New();
  for (int n = 0; counts && n < found->number; n++) {
    if (!found->others[n].found) continue;
    PyObject *name = PyUnicode_FromStringAndSize(found->others[n].name, found->others[n].size);
    PyObject *count = PyLong_FromLongLong(found->others[n].found);
    if (!name || !count || PyDict_SetItem(counts, name, count)) Py_CLEAR(counts);
    Py_XDECREF(name), Py_XDECREF(count);
  }
  return counts;
}

PyObject *plain_annotations(PyObject *self, PyObject *args) {
  struct text text;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "s#", &text.at, &size)) return NULL;
  text.end = text.at + size;
  size_t room = size / LEAST_BYTES + 1;
  char *memory = PyMem_Malloc(room * 9 * 8);
  if (!memory) return PyErr_NoMemory();
  struct columns found = {.rows = 0, .number = 0};
  found.boxes = (double *)memory;
  found.areas = found.boxes + 4 * room;
  found.ids = (int64_t *)(found.areas + room);
  found.image_ids = found.ids + room;
  found.category_ids = found.image_ids + room;
  found.crowds = (int8_t *)(found.category_ids + room);
  do {
    if ((size_t)found.rows == room || !read_annotation(&text, &found)) fail(&text);
  } while (text.at && take(&text, ','));
  int good = text.at && !next(&text) && text.at == text.end;
  PyObject *made = NULL;
  if (good) {
    Py_ssize_t words = 8 * found.rows;
    PyObject *counts = counts_of(&found);
    if (counts)
      made = Py_BuildValue("y#y#y#y#y#y#N", found.ids, words, found.image_ids, words, found.category_ids, words, found.boxes, 4 * words,
                           found.areas, words, found.crowds, found.rows, counts);
  } else
    made = Py_NewRef(Py_None);
  PyMem_Free(memory);
  return made;
}
