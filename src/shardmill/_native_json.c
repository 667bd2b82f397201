/* The annotations of COCO files, from JSON to columns: of an object with a polygon of forty numbers, eight are kept, and no Python
   object is made of the others.

   shardmill/addons/annotations/coco.py does the same in Python, and names every fault. This takes what RFC 8259 allows, and of that
   only what is usual; None stands for everything else. */

#include "_native.h"

#include <float.h>
#include <math.h>

enum {
  DEEPEST = 64,     /* values within values */
  MOST_OTHERS = 16, /* different names of what is not kept */
  LEAST_BYTES = 48, /* of an annotation: fewer hold no four names with their values */
  MOST_DIGITS = 18, /* of an integer of 64 bits, whatever they are */
  LONGEST = 64      /* bytes of a number that is kept */
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
  size_t rows;
  struct other others[MOST_OTHERS];
  int number; /* of others */
};

/* What follows is given a place in a text that ends with NUL, which no JSON holds: so nothing is read behind it. It returns the
   place behind what was read, or NULL. */

static inline const char *skip_space(const char *at) {
  while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') at++;
  return at;
}

static inline int is_digit(char byte) { return (uint8_t)(byte - '0') < 10; }

/* From a quotation mark to behind the other one; characters escaped by number are left to Python. */
static const char *skip_string(const char *at) {
  for (at++; *at != '"'; at++) {
    if ((uint8_t)*at < ' ') return NULL;
    if (*at == '\\' && (!*++at || !strchr("\"\\/bfnrt", *at))) return NULL;
  }
  return at + 1;
}

static inline const char *skip_digits(const char *at) {
  while (is_digit(*at)) at++;
  return at;
}

/* Past a number: RFC 8259, section 6. */
static inline const char *skip_number(const char *at) {
  const char *first = at += *at == '-';
  at = skip_digits(at);
  if (at == first || (*first == '0' && at - first > 1)) return NULL;
  if (*at == '.') {
    if (!is_digit(*++at)) return NULL;
    at = skip_digits(at);
  }
  if (*at == 'e' || *at == 'E') {
    at++;
    at += *at == '+' || *at == '-';
    if (!is_digit(*at)) return NULL;
    at = skip_digits(at);
  }
  return at;
}

/* Read an integer of at most MOST_DIGITS. */
static const char *read_integer(const char *at, int64_t *out) {
  int is_negative = *at == '-';
  const char *end = skip_number(at), *first = at + is_negative;
  if (!end || end - first > MOST_DIGITS) return NULL;
  for (*out = 0, at = first; at < end; at++) {
    if (!is_digit(*at)) return NULL;
    *out = 10 * *out + (*at - '0');
  }
  if (is_negative) *out = -*out;
  return end;
}

static const char *read_double(const char *at, double *out) {
  /* Powers of ten that are doubles: the quotient of two exact numbers is rounded once, and so right */
  static const double POWERS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17};
  const char *end = skip_number(at), *point = end;
  int is_negative = *at == '-';
  int64_t digits = 0;
  if (!end || end - at > LONGEST) return NULL;
  if (FLT_EVAL_METHOD == 0 && end - at <= MOST_DIGITS) {
    const char *digit = at + is_negative;
    for (; digit < end && *digit != 'e' && *digit != 'E'; digit++) {
      if (*digit == '.') point = digit + 1;
      else digits = 10 * digits + (*digit - '0');
    }
    if (is_negative && !digits && point == end) return NULL; /* the integer -0 is 0 */
    if (digit == end && digits <= (int64_t)1 << 53) {
      *out = (is_negative ? -1.0 : 1.0) * ((double)digits / POWERS[end - point]);
      return end;
    }
  }
  char copy[LONGEST + 1] = {0};
  memcpy(copy, at, end - at);
  *out = PyOS_string_to_double(copy, NULL, NULL);
  if (PyErr_Occurred()) PyErr_Clear(), end = NULL;
  return end && isfinite(*out) ? end : NULL;
}

static const char *skip_word(const char *at, const char *word) {
  size_t size = strlen(word);
  return strncmp(at, word, size) ? NULL : at + size;
}

/* Past a value, and whether Python takes it for true. */
static const char *skip_value(const char *at, int depth, int *is_true) {
  *is_true = 1;
  if (*at == '"') {
    *is_true = at[1] != '"';
    return skip_string(at);
  }
  if (*at == '[' || *at == '{') {
    int inner, is_object = *at == '{';
    char last = is_object ? '}' : ']';
    at = skip_space(at + 1);
    if (*at == last) *is_true = 0;
    if (*at == last || depth == DEEPEST) return *at == last ? at + 1 : NULL;
    for (;; at = skip_space(at + 1)) {
      if (is_object) {
        if (*at != '"' || !(at = skip_string(at)) || *(at = skip_space(at)) != ':') return NULL;
        at = skip_space(at + 1);
      }
      if (!(at = skip_value(at, depth + 1, &inner))) return NULL;
      at = skip_space(at);
      if (*at != ',') return *at == last ? at + 1 : NULL;
    }
  }
  if (*at == 't') return skip_word(at, "true");
  *is_true = 0;
  if (*at == 'f') return skip_word(at, "false");
  if (*at == 'n') return skip_word(at, "null");
  if (depth) return skip_number(at);
  const char *end = skip_number(at);
  if (!end || end - at > LONGEST) return NULL;
  for (*is_true = 0; at < end; at++) {
    if (*at == 'e' || *at == 'E') return NULL; /* is 1e-999 true? Python says so */
    *is_true |= *at >= '1' && *at <= '9';
  }
  return end;
}

static const char *read_box(const char *at, double *box) {
  if (*at != '[') return NULL;
  for (int edge = 0; edge < 4; edge++) {
    if (!(at = read_double(skip_space(at + 1), box + edge))) return NULL;
    at = skip_space(at);
    if (*at != (edge < 3 ? ',' : ']')) return NULL;
  }
  return at + 1;
}

/* The place of a name among those of what is not kept; -1 if there are too many. */
static int find_other(struct columns *columns, const char *name, Py_ssize_t size) {
  for (int n = 0; n < columns->number; n++)
    if (columns->others[n].size == size && !memcmp(columns->others[n].name, name, size)) return n;
  if (columns->number == MOST_OTHERS) return -1;
  columns->others[columns->number] = (struct other){name, size, 0};
  return columns->number++;
}

enum { ID = 1, IMAGE_ID = 2, CATEGORY_ID = 4, BBOX = 8, AREA = 16, ISCROWD = 32, NEEDED = ID | IMAGE_ID | CATEGORY_ID | BBOX };

static int find_member(const char *name, size_t size) {
  static const char *const KEPT[] = {"id", "image_id", "category_id", "bbox", "area", "iscrowd"};
  for (int n = 0; n < 6; n++)
    if (strlen(KEPT[n]) == size && !memcmp(KEPT[n], name, size)) return 1 << n;
  return 0;
}

static const char *read_annotation(const char *at, struct columns *columns) {
  size_t row = columns->rows;
  int seen = 0, seen_others = 0, has_area = 0;
  double *box = columns->boxes + 4 * row;
  columns->crowds[row] = 0;
  if (*at != '{') return NULL;
  do {
    at = skip_space(at + 1);
    const char *name = at + 1;
    if (*at != '"' || !(at = skip_string(at))) return NULL;
    Py_ssize_t size = at - name - 1;
    if (memchr(name, '\\', size) || *(at = skip_space(at)) != ':') return NULL;
    at = skip_space(at + 1);
    int member = find_member(name, size);
    if (seen & member) return NULL;
    seen |= member;
    int64_t crowd;
    switch (member) {
      case ID: at = read_integer(at, columns->ids + row); break;
      case IMAGE_ID: at = read_integer(at, columns->image_ids + row); break;
      case CATEGORY_ID: at = read_integer(at, columns->category_ids + row); break;
      case BBOX: at = read_box(at, box); break;
      case AREA:
        has_area = *at != 'n';
        at = has_area ? read_double(at, columns->areas + row) : skip_word(at, "null");
        break;
      case ISCROWD:
        at = read_integer(at, &crowd);
        if (!at || crowd < 0 || crowd > 1) return NULL;
        columns->crowds[row] = (int8_t)crowd;
        break;
      default: {
        int is_true, place = find_other(columns, name, size);
        if (place < 0 || seen_others & 1 << place) return NULL;
        at = skip_value(at, 0, &is_true);
        seen_others |= 1 << place;
        columns->others[place].found += is_true;
      }
    }
    if (!at) return NULL;
    at = skip_space(at);
  } while (*at == ',');
  if (*at != '}' || (seen & NEEDED) != NEEDED) return NULL;
  if (!has_area) columns->areas[row] = box[2] * box[3] + 0.0; /* not -0 */
  columns->rows++;
  return at + 1;
}

static PyObject *count_others(const struct columns *columns) {
  PyObject *counts = PyDict_New();
  for (int n = 0; counts && n < columns->number; n++) {
    if (!columns->others[n].found) continue;
    PyObject *name = PyUnicode_FromStringAndSize(columns->others[n].name, columns->others[n].size);
    PyObject *count = PyLong_FromLongLong(columns->others[n].found);
    if (!name || !count || PyDict_SetItem(counts, name, count)) Py_CLEAR(counts);
    Py_XDECREF(name), Py_XDECREF(count);
  }
  return counts;
}

PyObject *parse_annotations(PyObject *self, PyObject *args) {
  const char *at, *end;
  Py_ssize_t size;
  if (!PyArg_ParseTuple(args, "s#", &at, &size)) return NULL;
  end = at + size;
  size_t room = size / LEAST_BYTES + 1;
  char *memory = PyMem_Malloc(room * 9 * 8);
  if (!memory) return PyErr_NoMemory();
  struct columns columns = {.rows = 0, .number = 0};
  columns.boxes = (double *)memory;
  columns.areas = columns.boxes + 4 * room;
  columns.ids = (int64_t *)(columns.areas + room);
  columns.image_ids = columns.ids + room;
  columns.category_ids = columns.image_ids + room;
  columns.crowds = (int8_t *)(columns.category_ids + room);
  for (at = skip_space(at); at; at = skip_space(at + 1)) {
    at = columns.rows < room ? read_annotation(at, &columns) : NULL;
    if (!at || *(at = skip_space(at)) != ',') break;
  }
  PyObject *found = NULL;
  if (at == end) {
    Py_ssize_t words = 8 * columns.rows;
    PyObject *counts = count_others(&columns);
    if (counts)
      found = Py_BuildValue("y#y#y#y#y#y#N", columns.ids, words, columns.image_ids, words, columns.category_ids, words, columns.boxes, 4 * words,
                            columns.areas, words, columns.crowds, (Py_ssize_t)columns.rows, counts);
  } else
    found = Py_NewRef(Py_None);
  PyMem_Free(memory);
  return found;
}
