/* Rows of columns with one value each as serialized tf.train.Examples, in one call without the interpreter's lock.

   shardmill/transforms/columns/example_encoding.py says what this is for, and does the same with NumPy where this could not be compiled,
   and for lists. The bytes are protobuf's: https://protobuf.dev/programming-guides/encoding. */

#include "_native.h"

enum { HEAD = 48, HEADS = 128 };                         /* bytes of a head that is kept, and payloads that have one */
enum { LONG_HEAD = 4 * 10 + 3 };                         /* bytes of a head without its prefix, at most */
enum { SLACK = 64 };                                     /* bytes that may be written behind a value, which others overwrite */

struct column {
  struct entry entry;
  const uint8_t *values;
  Py_ssize_t values_size;
  const int64_t *offsets; /* of strings */
  const uint8_t *present; /* which rows have a value; NULL of all */
  uint8_t (*heads)[HEAD]; /* what precedes a payload of so many bytes, its size last; NULL if none are kept */
};

struct columns {
  struct column *each;
  Py_buffer *buffers; /* four of each column */
  Py_ssize_t count;
};

/* What precedes each short payload, for names of usual length: it is copied as a whole. */
static int keep_heads(struct column *column) {
  if (column->entry.prefix_size + LONG_HEAD > HEAD + 32) return 1; /* short payloads have sizes of two bytes at most */
  if (!(column->heads = malloc(HEADS * sizeof *column->heads))) return 0;
  uint8_t head[HEAD + 32];
  for (int payload = 0; payload < HEADS; payload++) {
    Py_ssize_t size = write_head(&column->entry, payload, head) - head;
    if (size >= HEAD) {
      free(column->heads);
      column->heads = NULL;
      return 1;
    }
    memcpy(column->heads[payload], head, size);
    column->heads[payload][HEAD - 1] = (uint8_t)size;
  }
  return 1;
}

static void release(struct columns *columns) {
  for (Py_ssize_t n = 0; n < 4 * columns->count; n++)
    if (columns->buffers[n].obj) PyBuffer_Release(&columns->buffers[n]);
  for (Py_ssize_t n = 0; columns->each && n < columns->count; n++) free(columns->each[n].heads);
  free(columns->each), free(columns->buffers);
}

/* Take (prefix, kind, values, offsets or None, present or None) of each column, and check sizes and offsets. */
static int open_columns(PyObject *list, Py_ssize_t rows, struct columns *columns) {
  columns->count = PyList_Size(list);
  if (columns->count < 0) return columns->count = 0, 0;
  columns->each = calloc(columns->count + 1, sizeof *columns->each);
  columns->buffers = calloc(4 * columns->count + 1, sizeof *columns->buffers);
  if (!columns->each || !columns->buffers) return columns->count = 0, PyErr_NoMemory(), 0;
  for (Py_ssize_t n = 0; n < columns->count; n++) {
    struct column *column = &columns->each[n];
    Py_buffer *prefix = &columns->buffers[4 * n], *values = prefix + 1, *offsets = prefix + 2, *present = prefix + 3;
    int kind;
    if (!PyArg_ParseTuple(PyList_GetItem(list, n), "y*iy*z*z*", prefix, &kind, values, offsets, present)) {
      memset(prefix, 0, 4 * sizeof *prefix); /* which are released */
      return 0;
    }
    int good = (kind == BYTES) == (offsets->buf != NULL) && (!present->buf || present->len == rows);
    if (kind == BYTES)
      good = good && offsets->len == 8 * (rows + 1);
    else
      good = good && (kind == FLOATS || kind == INTEGERS) && values->len == (kind == FLOATS ? 4 : 8) * rows;
    const int64_t *at = offsets->buf;
    for (Py_ssize_t row = 0; good && at && row < rows; row++) good = 0 <= at[row] && at[row] <= at[row + 1] && at[row + 1] <= values->len;
    if (!good) {
      PyErr_SetString(PyExc_ValueError, "a column does not have as many values as there are rows, or an offset lies outside its buffer");
      return 0;
    }
    *column = (struct column){{prefix->buf, prefix->len, (uint8_t)kind}, values->buf, values->len, at, present->buf, NULL};
  }
  return 1;
}

static inline uint64_t integer_at(const struct column *column, Py_ssize_t row) {
  uint64_t value;
  memcpy(&value, column->values + 8 * row, 8);
  return value;
}

static inline uint64_t payload_size(const struct column *column, Py_ssize_t row) {
  if (column->entry.kind == BYTES) return column->offsets[row + 1] - column->offsets[row];
  return column->entry.kind == FLOATS ? 4 : varint_size(integer_at(column, row));
}

PyObject *size_entries(PyObject *self, PyObject *args) {
  PyObject *list;
  Py_buffer out;
  if (!PyArg_ParseTuple(args, "O!w*", &PyList_Type, &list, &out)) return NULL;
  Py_ssize_t rows = out.len / 8;
  int64_t *sizes = out.buf;
  struct columns columns = {0};
  int good = open_columns(list, rows, &columns);
  if (good) {
    Py_BEGIN_ALLOW_THREADS;
    memset(sizes, 0, 8 * rows);
    for (Py_ssize_t n = 0; n < columns.count; n++) {
      const struct column *column = &columns.each[n];
      for (Py_ssize_t row = 0; row < rows; row++)
        if (!column->present || column->present[row])
          good &= !__builtin_add_overflow(sizes[row], entry_size(&column->entry, payload_size(column, row)), sizes + row);
    }
    Py_END_ALLOW_THREADS;
    if (!good) PyErr_SetString(PyExc_ValueError, "a row has too many bytes");
  }
  release(&columns), PyBuffer_Release(&out);
  if (!good) return NULL;
  Py_RETURN_NONE;
}

/* A number as a varint of so many bytes, of which eight are written at once. */
static inline void write_wide_varint(uint8_t *at, uint64_t value, int size) {
  if (size > 8) {
    write_varint(at, value);
    return;
  }
  uint64_t spread = 0;
  for (int n = 0; n < 8; n++) spread |= (value << n) & ((uint64_t)0x7f << (8 * n));
  spread |= 0x8080808080808080u & (((uint64_t)1 << (8 * (size - 1))) - 1);
  memcpy(at, &spread, 8);
}

/* Write an entry; the place behind it, or NULL if it does not end at `end` or before. `slack` bytes behind are free to be written. */
static inline uint8_t *write_entry(const struct column *column, Py_ssize_t row, uint8_t *at, const uint8_t *end, const uint8_t *limit) {
  uint64_t payload = payload_size(column, row);
  int is_roomy = limit - at >= HEAD + HEADS + SLACK;
  if (column->heads && payload < HEADS && is_roomy) {
    const uint8_t *head = column->heads[payload];
    memcpy(at, head, HEAD);
    at += head[HEAD - 1];
  } else {
    uint64_t size = entry_size(&column->entry, payload);
    if (size > (uint64_t)(end - at)) return NULL;
    at = write_head(&column->entry, payload, at);
    is_roomy = limit - at >= HEADS + SLACK;
  }
  if (at > end || payload > (uint64_t)(end - at)) return NULL;
  if (column->entry.kind == BYTES) {
    const uint8_t *from = column->values + column->offsets[row];
    if (payload <= 32 && is_roomy && column->values_size - column->offsets[row] >= 32)
      memcpy(at, from, 32);
    else if (payload)
      memcpy(at, from, payload);
  } else if (column->entry.kind == FLOATS) {
    memcpy(at, column->values + 4 * row, 4);
  } else if (is_roomy) {
    write_wide_varint(at, integer_at(column, row), (int)payload);
  } else {
    write_varint(at, integer_at(column, row));
  }
  return at + payload;
}

PyObject *encode_rows(PyObject *self, PyObject *args) {
  PyObject *list;
  Py_buffer entries, offsets, out;
  int is_headed, is_framed;
  if (!PyArg_ParseTuple(args, "O!y*y*w*pp", &PyList_Type, &list, &entries, &offsets, &out, &is_headed, &is_framed)) return NULL;
  Py_ssize_t rows = entries.len / 8;
  const int64_t *sizes = entries.buf, *starts = offsets.buf;
  uint8_t *data = out.buf;
  const uint8_t *limit = data + out.len;
  int before = is_framed ? HEADER : 0, after = is_framed ? FOOTER : 0;
  struct columns columns = {0};
  int good = open_columns(list, rows, &columns), is_placed = offsets.len == 8 * (rows + 1);
  for (Py_ssize_t n = 0; good && is_placed && rows > HEADS && columns.count <= 256 && n < columns.count; n++)
    if (!(good = keep_heads(&columns.each[n]))) PyErr_NoMemory();
  if (good && is_placed) {
    Py_BEGIN_ALLOW_THREADS;
    for (Py_ssize_t row = 0; is_placed && row < rows; row++) {
      int64_t start = starts[row], stop = starts[row + 1], room = 0;
      if ((is_placed = 0 <= start && start <= stop && stop <= out.len)) room = stop - start - before - after;
      is_placed = is_placed && 0 <= sizes[row] && sizes[row] <= room;
      if (!is_placed || !(is_placed = room == sizes[row] + (is_headed ? 1 + varint_size(sizes[row]) : 0))) break;
      uint8_t *at = data + start + before;
      const uint8_t *end = at + room;
      if (is_headed) {
        *at++ = FIRST;
        at = write_varint(at, sizes[row]);
      }
      for (Py_ssize_t n = 0; at && n < columns.count; n++)
        if (!columns.each[n].present || columns.each[n].present[row]) at = write_entry(&columns.each[n], row, at, end, limit);
      if (!(is_placed = at == end)) break;
      if (is_framed) frame_record(data + start, room);
    }
    Py_END_ALLOW_THREADS;
  }
  release(&columns), PyBuffer_Release(&entries), PyBuffer_Release(&offsets), PyBuffer_Release(&out);
  if (!good) return NULL;
  if (!is_placed) {
    PyErr_SetString(PyExc_ValueError, "the sizes of the records are not those of their values, or lie outside the buffer");
    return NULL;
  }
  Py_RETURN_NONE;
}
