/* Records of TFRecord files, and the values of known features in serialized tf.train.Examples, many in one call.

   shardmill/data/spans.py and shardmill/data/example_columns.py say what these functions are for; shardmill/data/tfrecord.py does the
   same in Python where this could not be compiled. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

uint32_t masked_crc32c(const uint8_t *data, size_t size); /* _native.c */

enum { HEADER = 12, FOOTER = 4 };
enum { SOUND, BAD_LENGTH, BAD_PAYLOAD };

static PyObject *out_of_place(void) {
  PyErr_SetString(PyExc_ValueError, "a span lies outside its buffer, or a buffer is not as long as it has to be");
  return NULL;
}

PyObject *split_records(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends;
  Py_ssize_t at;
  if (!PyArg_ParseTuple(args, "y*nw*w*", &data, &at, &starts, &ends)) return NULL;
  const uint8_t *bytes = data.buf;
  int64_t *from = starts.buf, *to = ends.buf;
  Py_ssize_t count = 0, most = starts.len / 8, missing = 0;
  int fault = SOUND, good = 0 <= at && at <= data.len && ends.len == starts.len;
  Py_BEGIN_ALLOW_THREADS;
  while (good && count < most && data.len - at >= HEADER) {
    uint64_t size, left = data.len - at - HEADER;
    uint32_t crc;
    memcpy(&size, bytes + at, 8);
    memcpy(&crc, bytes + at + 8, 4);
    if (masked_crc32c(bytes + at, 8) != crc) {
      fault = BAD_LENGTH;
      break;
    }
    if (left < FOOTER || size > left - FOOTER) {
      missing = size > PY_SSIZE_T_MAX / 2 ? PY_SSIZE_T_MAX / 2 : (Py_ssize_t)(size + FOOTER - left);
      break;
    }
    memcpy(&crc, bytes + at + HEADER + size, 4);
    if (masked_crc32c(bytes + at + HEADER, size) != crc) {
      fault = BAD_PAYLOAD;
      break;
    }
    from[count] = at + HEADER;
    to[count++] = at + HEADER + size;
    at += HEADER + size + FOOTER;
  }
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends);
  return good ? Py_BuildValue("nnni", count, at, missing, fault) : out_of_place();
}

/* Tags of delimited fields: of an entry, its name and a value in a list; of an entry's feature; of the lists in a feature. */
enum { FIRST = 0x0a, FEATURE = 0x12, BYTES = 0x0a, FLOATS = 0x12, INTEGERS = 0x1a };

struct feature {
  const char *name;
  Py_ssize_t size;
  uint8_t tag, is_single; /* of its list; one bytes value */
};

struct span {
  int64_t start, end, count; /* of its values; -1 where there is none */
};

/* Where the field begins whose tag is at `at`, and its end; NULL where it is another one or longer than what is left. */
static const uint8_t *open_field(const uint8_t *at, const uint8_t *end, uint8_t tag, const uint8_t **field_end) {
  if (at == end || *at++ != tag) return NULL;
  uint64_t size = 0;
  for (int shift = 0; at < end && shift < 63; shift += 7) {
    uint8_t byte = *at++;
    size |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      if (size > (uint64_t)(end - at)) return NULL;
      *field_end = at + size;
      return at;
    }
  }
  return NULL;
}

/* Whether bytes are varints of at most ten bytes each, and how many. */
static int count_varints(const uint8_t *at, const uint8_t *end, int64_t *count) {
  int length = 0;
  for (*count = 0; at < end; at++) {
    if (++length > 10) return 0;
    if (*at < 0x80) length = 0, ++*count;
  }
  return !length;
}

/* Where the values of a list are: the packed numbers, the entries of several bytes values, or the one bytes value. */
static int find_values(const uint8_t *at, const uint8_t *end, const struct feature *feature, const uint8_t *base, struct span *out) {
  const uint8_t *start = at, *stop = end, *value = at;
  int64_t count = 0;
  if (feature->tag == BYTES) {
    for (; at < end; at = stop, count++)
      if (!(value = open_field(at, end, BYTES, &stop))) return 0;
    if (feature->is_single && count != 1) return 0;
    if (feature->is_single) start = value;
    stop = end;
  } else if (at < end) {
    if (!(start = open_field(at, end, FIRST, &stop)) || stop != end) return 0;
    if (feature->tag == FLOATS) {
      if ((end - start) % 4) return 0;
      count = (end - start) / 4;
    } else if (!count_varints(start, end, &count)) {
      return 0;
    }
  }
  out->start = start - base, out->end = stop - base, out->count = count;
  return 1;
}

static Py_ssize_t find_feature(const struct feature *features, Py_ssize_t number, const uint8_t *name, Py_ssize_t size, Py_ssize_t guess) {
  for (Py_ssize_t n = 0; n < number; n++) {
    Py_ssize_t k = guess + n < number ? guess + n : guess + n - number;
    if (features[k].size == size && !memcmp(features[k].name, name, size)) return k;
  }
  return -1;
}

/* Whether a record is an Example of these features alone, each at most once and of its kind, and where their values are. `next` is what
   follows each feature, and [number] comes first, as in the record before. */
static int scan_example(const uint8_t *at, const uint8_t *end, const struct feature *features, Py_ssize_t number, Py_ssize_t *next,
                        const uint8_t *base, struct span *out) {
  for (Py_ssize_t k = 0; k < number; k++) out[k] = (struct span){-1, -1, -1};
  const uint8_t *stop;
  if (at < end && (!(at = open_field(at, end, FIRST, &stop)) || stop != end)) return 0;
  for (Py_ssize_t last = number; at < end;) {
    const uint8_t *entry_end, *name_end, *feature_end, *name, *feature, *list;
    if (!(at = open_field(at, end, FIRST, &entry_end)) || !(name = open_field(at, entry_end, FIRST, &name_end))) return 0;
    if (!(feature = open_field(name_end, entry_end, FEATURE, &feature_end)) || feature_end != entry_end) return 0;
    Py_ssize_t k = find_feature(features, number, name, name_end - name, next[last]);
    if (k < 0 || out[k].start >= 0) return 0;
    if (!(list = open_field(feature, entry_end, features[k].tag, &stop)) || stop != entry_end) return 0;
    if (!find_values(list, entry_end, features + k, base, out + k)) return 0;
    next[last] = k;
    last = k;
    at = entry_end;
  }
  return 1;
}

PyObject *scan_examples(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, tags, out, plain;
  PyObject *names;
  if (!PyArg_ParseTuple(args, "y*y*y*O!y*w*w*", &data, &starts, &ends, &PyList_Type, &names, &tags, &out, &plain)) return NULL;
  Py_ssize_t count = starts.len / 8, number = PyList_Size(names);
  const int64_t *from = starts.buf, *to = ends.buf;
  uint8_t *is_plain = plain.buf;
  int good = ends.len == starts.len && tags.len == 2 * number && plain.len == count &&
             out.len == count * number * (Py_ssize_t)sizeof(struct span);
  for (Py_ssize_t n = 0; good && n < count; n++) good = 0 <= from[n] && from[n] <= to[n] && to[n] <= data.len;
  struct feature *features = PyMem_Calloc(number + 1, sizeof *features);
  Py_ssize_t *next = PyMem_Calloc(number + 1, sizeof *next);
  for (Py_ssize_t k = 0; good && features && k < number; k++) {
    char *name;
    good = !PyBytes_AsStringAndSize(PyList_GetItem(names, k), &name, &features[k].size);
    features[k].name = name;
    features[k].tag = ((const uint8_t *)tags.buf)[2 * k], features[k].is_single = ((const uint8_t *)tags.buf)[2 * k + 1];
    next[k] = k + 1 < number ? k + 1 : 0;
  }
  if (good && features && next) {
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t n = 0; n < count; n++)
      is_plain[n] = scan_example((const uint8_t *)data.buf + from[n], (const uint8_t *)data.buf + to[n], features, number, next, data.buf,
                                 (struct span *)out.buf + n * number);
    Py_END_ALLOW_THREADS;
  }
  int has_memory = features && next;
  PyMem_Free(features), PyMem_Free(next);
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends);
  PyBuffer_Release(&tags), PyBuffer_Release(&out), PyBuffer_Release(&plain);
  if (!has_memory) return PyErr_NoMemory();
  if (!good) return PyErr_Occurred() ? NULL : out_of_place();
  Py_RETURN_NONE;
}
