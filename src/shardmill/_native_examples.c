/* Records of TFRecord files, and the values of known features in serialized tf.train.Examples, many in one call.

   shardmill/data/spans.py and shardmill/data/example_columns.py say what these functions are for; shardmill/data/tfrecord.py does the
   same in Python where this could not be compiled. */

#include "_native.h"

#include <errno.h>

enum { SOUND, BAD_LENGTH, BAD_PAYLOAD };

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
  return good ? Py_BuildValue("nnni", count, at, missing, fault) : done(0);
}

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

/* The features whose names and tags are given; NULL with an exception where they are not as expected. `next` follows them in memory. */
static struct feature *load_features(PyObject *names, const Py_buffer *tags, Py_ssize_t **next) {
  Py_ssize_t number = PyList_Size(names);
  if (tags->len != 2 * number) return (struct feature *)done(0);
  struct feature *features = PyMem_Calloc(number + 1, sizeof *features + sizeof **next);
  if (!features) return (struct feature *)PyErr_NoMemory();
  *next = (Py_ssize_t *)(features + number + 1);
  for (Py_ssize_t k = 0; k < number; k++) {
    char *name;
    if (PyBytes_AsStringAndSize(PyList_GetItem(names, k), &name, &features[k].size)) {
      PyMem_Free(features);
      return NULL;
    }
    features[k].name = name;
    features[k].tag = ((const uint8_t *)tags->buf)[2 * k], features[k].is_single = ((const uint8_t *)tags->buf)[2 * k + 1];
    (*next)[k] = k + 1 < number ? k + 1 : 0;
  }
  return features;
}

PyObject *scan_examples(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, tags, out, plain;
  PyObject *names;
  if (!PyArg_ParseTuple(args, "y*y*y*O!y*w*w*", &data, &starts, &ends, &PyList_Type, &names, &tags, &out, &plain)) return NULL;
  Py_ssize_t count = starts.len / 8, number = PyList_Size(names);
  const int64_t *from = starts.buf, *to = ends.buf;
  uint8_t *is_plain = plain.buf;
  Py_ssize_t bytes;
  int good = ends.len == starts.len && tags.len == 2 * number && plain.len == count && !__builtin_mul_overflow(count, number, &bytes) &&
             !__builtin_mul_overflow(bytes, sizeof(struct span), &bytes) && out.len == bytes && are_within(from, to, count, data.len);
  Py_ssize_t *next;
  struct feature *features = load_features(names, &tags, &next);
  if (good && features) {
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t n = 0; n < count; n++)
      is_plain[n] = scan_example((const uint8_t *)data.buf + from[n], (const uint8_t *)data.buf + to[n], features, number, next, data.buf,
                                 (struct span *)out.buf + n * number);
    Py_END_ALLOW_THREADS;
  }
  int is_loaded = features != NULL;
  PyMem_Free(features);
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends);
  PyBuffer_Release(&tags), PyBuffer_Release(&out), PyBuffer_Release(&plain);
  if (!is_loaded) return NULL;
  return done(good);
}

/* Reading records at known places, and their values at once: a record is still in the processor's cache when it is checked and taken
   apart, and only its values are copied. */

/* Whether a framed record may be there; then the difference of these numbers, which may be any, is its size. */
static int is_place(int64_t start, int64_t stop) { return 0 <= start && start <= stop && stop - start >= HEADER + FOOTER; }

/* Whether `size` bytes of a file from `offset` are all there. */
static int read_fully(int descriptor, int64_t offset, uint8_t *target, size_t size) {
  while (size > 0) {
    ssize_t got = pread(descriptor, target, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return 0;
    target += got, offset += got, size -= got;
  }
  return 1;
}

/* Whether these bytes are one framed record, and both of its checksums are right. */
static int is_sound(const uint8_t *record, size_t size) {
  uint64_t length;
  uint32_t crc;
  memcpy(&length, record, 8);
  memcpy(&crc, record + 8, 4);
  if (length != size - HEADER - FOOTER || masked_crc32c(record, 8) != crc) return 0;
  memcpy(&crc, record + size - FOOTER, 4);
  return masked_crc32c(record + HEADER, length) == crc;
}

static const uint8_t *read_varint(const uint8_t *at, int64_t *value) {
  uint64_t sum = 0;
  for (int shift = 0;; shift += 7) {
    sum |= (uint64_t)(*at & 0x7f) << shift;
    if (*at++ < 0x80) break;
  }
  *value = (int64_t)sum;
  return at;
}

/* The values of the wanted features, each one number or one string; the payload where Python has to look at it; None where the record is
   not as its place says. */
PyObject *read_example(PyObject *self, PyObject *args) {
  int descriptor;
  long long start, stop;
  PyObject *names, *wanted, *found = NULL;
  Py_buffer tags;
  if (!PyArg_ParseTuple(args, "iLLO!y*O!", &descriptor, &start, &stop, &PyList_Type, &names, &tags, &PyList_Type, &wanted)) return NULL;
  Py_ssize_t number = PyList_Size(names), *next, many = PyList_Size(wanted);
  struct feature *features = load_features(names, &tags, &next);
  struct span *values = features ? PyMem_Malloc((number + 1) * sizeof *values) : NULL;
  size_t size = is_place(start, stop) ? stop - start : 0;
  int is_read = 0, is_plain = 0;
  uint8_t *record = values && size ? malloc(size) : NULL;
  if (record) {
    Py_BEGIN_ALLOW_THREADS;
    is_read = read_fully(descriptor, start, record, size) && is_sound(record, size);
    is_plain = is_read && scan_example(record + HEADER, record + size - FOOTER, features, number, next, record, values);
    Py_END_ALLOW_THREADS;
  }
  for (Py_ssize_t n = 0; is_plain && n < many; n++) {
    Py_ssize_t k = PyLong_AsSsize_t(PyList_GetItem(wanted, n));
    is_plain = 0 <= k && k < number && values[k].count == 1 && (features[k].tag != BYTES || features[k].is_single);
  }
  if (is_plain && (found = PyList_New(many))) {
    for (Py_ssize_t n = 0; n < many; n++) {
      Py_ssize_t k = PyLong_AsSsize_t(PyList_GetItem(wanted, n));
      const uint8_t *at = record + values[k].start;
      PyObject *value;
      if (features[k].tag == BYTES) {
        value = PyBytes_FromStringAndSize((const char *)at, values[k].end - values[k].start);
      } else if (features[k].tag == INTEGERS) {
        int64_t integer;
        read_varint(at, &integer);
        value = PyLong_FromLongLong(integer);
      } else {
        float single;
        memcpy(&single, at, 4);
        value = PyFloat_FromDouble(single);
      }
      if (!value) {
        Py_CLEAR(found);
        break;
      }
      PyList_SetItem(found, n, value);
    }
  } else if (is_read && !PyErr_Occurred()) {
    found = PyBytes_FromStringAndSize((const char *)record + HEADER, size - HEADER - FOOTER);
  }
  int is_failed = !features || !values || (is_read && !found) || PyErr_Occurred();
  if (features && !values) PyErr_NoMemory();
  free(record), PyMem_Free(values), PyMem_Free(features);
  PyBuffer_Release(&tags);
  if (is_failed) return NULL;
  return found ? found : Py_NewRef(Py_None);
}

enum { READ_BYTES = 256 << 10, READ_SPANS = 16 << 10 }; /* of records that are read before values are taken out of them, unless one has more */

struct column {
  PyObject *list; /* of bytes; NULL for numbers */
  Py_buffer numbers;
  int64_t each; /* numbers a record */
  int is_wanted;
};

/* Whether all wanted features are there with as many values as expected; their numbers are written to row `n`. */
static int take_numbers(const uint8_t *base, const struct feature *features, const struct span *values, const struct column *columns,
                        Py_ssize_t number, Py_ssize_t n) {
  for (Py_ssize_t k = 0; k < number; k++) {
    if (!columns[k].is_wanted) continue;
    if (values[k].count != columns[k].each) return 0;
    const uint8_t *at = base + values[k].start;
    if (features[k].tag == FLOATS) memcpy((float *)columns[k].numbers.buf + n * columns[k].each, at, 4 * columns[k].each);
    if (features[k].tag == INTEGERS)
      for (int64_t m = 0; m < columns[k].each; m++) at = read_varint(at, (int64_t *)columns[k].numbers.buf + n * columns[k].each + m);
  }
  return 1;
}

/* What is needed to take values out of records. */
struct taking {
  struct feature *features;
  Py_ssize_t *next, number, most; /* features, and records taken at a time */
  struct column *columns;
  struct span *values; /* of `most` records */
  char *is_plain;
};

static void end_taking(struct taking *taking) {
  for (Py_ssize_t k = 0; taking->columns && k < taking->number; k++)
    if (taking->columns[k].numbers.obj) PyBuffer_Release(&taking->columns[k].numbers);
  PyMem_Free(taking->is_plain), PyMem_Free(taking->values), PyMem_Free(taking->columns), PyMem_Free(taking->features);
}

/* False with an exception where columns are not as expected. */
static int begin_taking(struct taking *taking, PyObject *names, const Py_buffer *tags, PyObject *into, PyObject *rest, Py_ssize_t count) {
  memset(taking, 0, sizeof *taking);
  taking->number = PyList_Size(names);
  if (PyList_Size(into) != taking->number || PyList_Size(rest) != count) return done(0) != NULL;
  if (!(taking->features = load_features(names, tags, &taking->next))) return 0;
  taking->most = READ_SPANS / (taking->number + 1) + 1;
  if (taking->most > count) taking->most = count;
  taking->columns = PyMem_Calloc(taking->number + 1, sizeof *taking->columns);
  taking->values = PyMem_Malloc((taking->most * taking->number + 1) * sizeof *taking->values);
  taking->is_plain = PyMem_Malloc(taking->most + 1);
  if (!taking->columns || !taking->values || !taking->is_plain) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t k = 0; k < taking->number; k++) {
    struct column *column = taking->columns + k;
    PyObject *given = PyList_GetItem(into, k);
    if (!(column->is_wanted = given != Py_None)) continue;
    if (taking->features[k].tag == BYTES) {
      column->list = given, column->each = 1;
      if (!taking->features[k].is_single || !PyList_Check(given) || PyList_Size(given) != count) return done(0) != NULL;
    } else {
      Py_ssize_t size = taking->features[k].tag == FLOATS ? 4 : 8;
      if (PyObject_GetBuffer(given, &column->numbers, PyBUF_WRITABLE)) return 0;
      column->each = count ? column->numbers.len / (size * count) : 0;
      if (column->numbers.len != size * count * column->each) return done(0) != NULL;
    }
  }
  return 1;
}

/* The spans of a record, which is `row` of those that are taken together and `n` of all, and its numbers. */
static void take_record(struct taking *taking, const uint8_t *base, const uint8_t *at, const uint8_t *end, Py_ssize_t row, Py_ssize_t n) {
  struct span *own = taking->values + row * taking->number;
  taking->is_plain[row] = scan_example(at, end, taking->features, taking->number, taking->next, base, own) &&
                          take_numbers(base, taking->features, own, taking->columns, taking->number, n);
}

/* The strings of such a record, or its payload; false with an exception. */
static int put_record(const struct taking *taking, const uint8_t *base, const uint8_t *at, const uint8_t *end, Py_ssize_t row, Py_ssize_t n,
                      PyObject *rest) {
  if (!taking->is_plain[row]) {
    PyObject *payload = PyBytes_FromStringAndSize((const char *)at, end - at);
    return payload && !PyList_SetItem(rest, n, payload);
  }
  for (Py_ssize_t k = 0; k < taking->number; k++) {
    if (!taking->columns[k].list) continue;
    const struct span *own = taking->values + row * taking->number + k;
    PyObject *value = PyBytes_FromStringAndSize((const char *)base + own->start, own->end - own->start);
    if (!value || PyList_SetItem(taking->columns[k].list, n, value)) return 0;
  }
  return 1;
}

PyObject *take_examples(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, tags;
  PyObject *names, *into, *rest;
  if (!PyArg_ParseTuple(args, "y*y*y*O!y*O!O!", &data, &starts, &ends, &PyList_Type, &names, &tags, &PyList_Type, &into, &PyList_Type, &rest))
    return NULL;
  Py_ssize_t count = starts.len / 8;
  const int64_t *from = starts.buf, *to = ends.buf;
  const uint8_t *base = data.buf;
  struct taking taking;
  int good = begin_taking(&taking, names, &tags, into, rest, count), is_within = ends.len == starts.len;
  is_within = is_within && are_within(from, to, count, data.len);
  for (Py_ssize_t done = 0; good && is_within && done < count; done += taking.most) {
    Py_ssize_t end = count - done < taking.most ? count : done + taking.most;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t n = done; n < end; n++) take_record(&taking, base, base + from[n], base + to[n], n - done, n);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t n = done; good && n < end; n++) good = put_record(&taking, base, base + from[n], base + to[n], n - done, n, rest);
  }
  end_taking(&taking);
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends), PyBuffer_Release(&tags);
  if (!good) return NULL;
  return done(is_within);
}

PyObject *read_examples(PyObject *self, PyObject *args) {
  Py_buffer descriptors, starts, stops, tags;
  PyObject *names, *into, *rest;
  if (!PyArg_ParseTuple(args, "y*y*y*O!y*O!O!", &descriptors, &starts, &stops, &PyList_Type, &names, &tags, &PyList_Type, &into, &PyList_Type,
                        &rest))
    return NULL;
  Py_ssize_t count = starts.len / 8, next = 0, capacity = 0;
  const int64_t *files = descriptors.buf, *from = starts.buf, *to = stops.buf;
  struct taking taking;
  int good = begin_taking(&taking, names, &tags, into, rest, count), is_whole = descriptors.len == starts.len && stops.len == starts.len;
  uint8_t *data = NULL;
  while (good && is_whole && next < count) {
    Py_ssize_t end = next, sound = next;
    int64_t bytes = 0; /* at most READ_BYTES, or those of one record: no sum of it overflows */
    for (; end < count && end - next < taking.most && is_place(from[end], to[end]) && files[end] == (int)files[end]; end++) {
      if (end > next && to[end] - from[end] > READ_BYTES - bytes) break;
      bytes += to[end] - from[end];
    }
    if (end == next) break;
    if (bytes > capacity) {
      free(data);
      data = malloc(capacity = bytes);
      if (!data) {
        good = PyErr_NoMemory() != NULL;
        break;
      }
    }
    const uint8_t *at = data;
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t n = next, last; n < end && sound == n; n = last) {
      for (last = n + 1; last < end && files[last] == files[n] && from[last] == to[last - 1];) last++; /* neighbours, at once */
      if (!read_fully((int)files[n], from[n], data + (at - data), to[last - 1] - from[n])) break;
      for (; sound < last && is_sound(at, to[sound] - from[sound]); at += to[sound] - from[sound], sound++)
        take_record(&taking, data, at + HEADER, at + (to[sound] - from[sound]) - FOOTER, sound - next, sound);
    }
    Py_END_ALLOW_THREADS;
    at = data;
    for (Py_ssize_t n = next; good && n < sound; at += to[n] - from[n], n++)
      good = put_record(&taking, data, at + HEADER, at + (to[n] - from[n]) - FOOTER, n - next, n, rest);
    next = sound;
    if (sound < end) break;
  }
  free(data);
  end_taking(&taking);
  PyBuffer_Release(&descriptors), PyBuffer_Release(&starts), PyBuffer_Release(&stops), PyBuffer_Release(&tags);
  if (!good) return NULL;
  return is_whole ? PyLong_FromSsize_t(next) : done(0);
}
