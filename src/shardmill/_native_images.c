/* Images that are stored as they are: many files in one call, read, checked and framed without the interpreter's lock.

   transforms/files/image_headers.py says what is wrong with a file; what is not certain to pass there is left to it. Files are read as
   transforms/stores/local.py reads one, and Examples encoded as shardmill/data/example.py does. */

#include "_native.h"

#include <limits.h>

/* The structure of a JPEG without a fault, ITU-T T.81, annex B. transforms/files/image_headers.py walks over the same markers by the same
   rules, and says of all other files what is wrong with them. */

struct jpeg {
  uint32_t width, height;
  uint8_t components, adobe; /* of a pixel, and whether Adobe's marker says their colour space */
  Py_ssize_t exif, exif_end; /* the TIFF structure of the last EXIF before the first scan */
};

enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DHT = 0xc4, JPG = 0xc8, DQT = 0xdb, DNL = 0xdc, DAC = 0xcc, DRI = 0xdd, APP1 = 0xe1, APP14 = 0xee, COM = 0xfe };

static inline uint32_t read_big16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static inline int is_restart(uint8_t marker) { return (marker & 0xf8) == 0xd0; }

static inline int is_frame(uint8_t marker) {
  return (marker & 0xf0) == 0xc0 && marker != DHT && marker != JPG && marker != DAC;
}

static inline int is_decoded(uint8_t frame) { /* sequential and progressive, Huffman and arithmetic */
  return frame == 0xc0 || frame == 0xc1 || frame == 0xc2 || frame == 0xc9 || frame == 0xca;
}

static inline int follows_scan(uint8_t marker) {
  return marker == SOS || marker == DHT || marker == DAC || marker == DQT || marker == DNL || marker == DRI || marker == COM ||
         (marker & 0xf0) == 0xe0;
}

/* Where the segment ends whose marker is at data[at]; 0 where it is not whole. */
static inline size_t segment_end(const uint8_t *data, size_t size, size_t at) {
  if (size - at < 4) return 0;
  size_t length = read_big16(data + at + 2);
  return length < 2 || length + 2 > size - at ? 0 : at + 2 + length;
}

/* Where the first scan begins; 0 where anything before it is not as it should be. */
static size_t walk_to_scan(const uint8_t *data, size_t size, struct jpeg *found) {
  if (size < 4 || data[0] != 0xff || data[1] != SOI) return 0;
  for (size_t at = 2; size - at >= 4 && data[at] == 0xff;) {
    uint8_t marker = data[at + 1];
    if (marker == 0xff || marker == 0x01 || is_restart(marker)) {
      at += marker == 0xff ? 1 : 2;
      continue;
    }
    size_t end = segment_end(data, size, at);
    if (!end || marker == EOI) return 0;
    if (marker == SOS) return found->width && found->height && (found->components != 4 || found->adobe) ? at : 0;
    if (is_frame(marker)) {
      if (!is_decoded(marker) || end - at < 9 || data[at + 4] != 8 || found->width) return 0;
      found->height = read_big16(data + at + 5), found->width = read_big16(data + at + 7);
      found->components = end - at > 9 ? data[at + 9] : 0;
    } else if (marker == APP14 && end - at >= 16 && !memcmp(data + at + 4, "Adobe", 5)) {
      found->adobe = 1;
    } else if (marker == APP1 && end - at >= 10 && !memcmp(data + at + 4, "Exif\0", 6)) {
      found->exif = at + 10, found->exif_end = end;
    }
    at = end;
  }
  return 0;
}

static int is_fill(const uint8_t *data, size_t size) {
  for (size_t n = 0; n < size; n++)
    if (data[n] != 0xff) return 0;
  return 1;
}

/* Whether all from the first scan, at data[scan], is as it should be up to the end marker. */
static int walk_to_end(const uint8_t *data, size_t size, size_t scan) {
  int in_scan = 1;
  size_t segment = segment_end(data, size, scan);
  const uint8_t *found;
  for (size_t at = segment; at < size && (found = memchr(data + at, 0xff, size - at));) {
    at = found - data;
    uint8_t marker = at + 1 < size ? data[at + 1] : 0xff;
    if (marker == 0 || marker == 0xff || is_restart(marker)) { /* of compressed pixels: stuffing, fill, restarts */
      at++;
      continue;
    }
    if (!in_scan && !is_fill(data + segment, at - segment)) return 0;
    if (marker == EOI) return 1;
    if (!follows_scan(marker) || !(segment = segment_end(data, size, at))) return 0;
    in_scan = marker == SOS;
    at = segment;
  }
  return 0;
}

static int is_plain(const uint8_t *data, size_t size, struct jpeg *found) {
  size_t scan = walk_to_scan(data, size, found);
  return scan && walk_to_end(data, size, scan);
}

PyObject *plain_jpegs(PyObject *self, PyObject *args) {
  Py_buffer data, starts, ends, out;
  if (!PyArg_ParseTuple(args, "y*y*y*w*", &data, &starts, &ends, &out)) return NULL;
  Py_ssize_t count = starts.len / 8;
  const int64_t *from = starts.buf, *to = ends.buf;
  int64_t *sizes = out.buf;
  int good = ends.len == starts.len && out.len == 16 * count;
  Py_BEGIN_ALLOW_THREADS;
  if ((good = good && are_within(from, to, count, data.len)))
    for (Py_ssize_t n = 0; n < count; n++) {
      struct jpeg found = {0};
      int taken = is_plain((const uint8_t *)data.buf + from[n], to[n] - from[n], &found) && !found.exif;
      sizes[2 * n] = taken ? found.width : 0, sizes[2 * n + 1] = taken ? found.height : 0;
    }
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data), PyBuffer_Release(&starts), PyBuffer_Release(&ends), PyBuffer_Release(&out);
  return done(good);
}

PyObject *plain_jpeg(PyObject *self, PyObject *args) {
  Py_buffer data;
  if (!PyArg_ParseTuple(args, "y*", &data)) return NULL;
  struct jpeg found = {0};
  PyThreadState *state = give_way(data.len);
  int good = is_plain(data.buf, data.len, &found);
  come_back(state);
  PyBuffer_Release(&data);
  if (!good) Py_RETURN_NONE;
  return Py_BuildValue("IInn", found.width, found.height, found.exif, found.exif_end);
}

static inline uint32_t read_big32(const uint8_t *at) { return read_big16(at) << 16 | read_big16(at + 2); }

/* A PNG without a fault: PNG (W3C), sections 5 and 11. */

uint32_t png_crcs[8][256]; /* the CRC of zlib */

enum { GREY, RGB = 2, PALETTE, GREY_ALPHA, RGBA = 6 }; /* colour types */
enum { MOST_PNG_SIDE = 1000000, MOST_COLOURS = 256 };

/* Bits by which a depth, itself a power of 2, may be had with a colour type. */
static inline int depths_of(uint8_t colour) {
  return colour == GREY ? 1 | 2 | 4 | 8 | 16 : colour == PALETTE ? 1 | 2 | 4 | 8 : colour == RGB || colour == GREY_ALPHA || colour == RGBA ? 8 | 16 : 0;
}

static inline int is_power_of_two(uint8_t byte) { return byte && !(byte & (byte - 1)); }

static inline int is_letter(uint8_t byte) { return (uint8_t)((byte | 0x20) - 'a') < 26; }

struct png {
  uint32_t width, height;
  int is_deep;
  size_t exif, exif_end;
};

static int is_plain_png(const uint8_t *data, size_t size, struct png *found) {
  static const uint8_t START[16] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  if (size < 33 || memcmp(data, START, sizeof START)) return 0;
  uint8_t depth = data[24], colour = data[25];
  found->width = read_big32(data + 16), found->height = read_big32(data + 20), found->is_deep = depth == 16;
  if (!is_power_of_two(depth) || !(depths_of(colour) & depth) || data[26] || data[27] || data[28] > 1) return 0;
  if (!found->width || !found->height || found->width > MOST_PNG_SIDE || found->height > MOST_PNG_SIDE) return 0;
  int has_palette = 0, has_pixels = 0, was_pixels = 0;
  for (size_t at = 8; size - at >= 12;) {
    size_t length = read_big32(data + at);
    const uint8_t *kind = data + at + 4;
    if (length > size - at - 12 || crc_by_tables(png_crcs, kind, length + 4) != read_big32(data + at + 8 + length)) return 0;
    int is_pixels = !memcmp(kind, "IDAT", 4);
    if (is_pixels) {
      if ((colour == PALETTE && !has_palette) || (has_pixels && !was_pixels)) return 0;
      has_pixels = 1;
    } else if (!memcmp(kind, "IEND", 4)) {
      return has_pixels && !length;
    } else if (!memcmp(kind, "PLTE", 4)) {
      if (has_palette || has_pixels || !length || length > 3 * MOST_COLOURS || length % 3 || colour == GREY || colour == GREY_ALPHA) return 0;
      has_palette = 1;
    } else if (!memcmp(kind, "IHDR", 4)) {
      if (at != 8) return 0;
    } else {
      if (!is_letter(kind[0]) || !is_letter(kind[1]) || !is_letter(kind[2]) || !is_letter(kind[3]) || !(kind[0] & 0x20)) return 0;
      if (!memcmp(kind, "eXIf", 4)) found->exif = at + 8, found->exif_end = at + 8 + length;
    }
    was_pixels = is_pixels;
    at += 12 + length;
  }
  return 0;
}

/* EXIF: the structure of a TIFF (CIPA DC-008, section 4.6). */

static inline uint32_t read_either16(const uint8_t *at, int is_big) { return is_big ? read_big16(at) : (uint32_t)at[1] << 8 | at[0]; }

enum { UPRIGHT = 1, ORIENTATION = 0x112, SHORT = 3 };

/* The orientation, 1 to 8; 0 where the structure is too short to have a header. */
static int read_orientation(const uint8_t *tiff, size_t size) {
  if (size < 8) return 0;
  int is_big = tiff[0] == 'M';
  if (tiff[0] != tiff[1] || (tiff[0] != 'I' && !is_big)) return UPRIGHT;
  uint64_t first = is_big ? read_big32(tiff + 4) : read_either16(tiff + 6, 0) << 16 | read_either16(tiff + 4, 0);
  if (size < 2 || first > size - 2) return UPRIGHT;
  uint64_t end = first + 2 + 12 * (uint64_t)read_either16(tiff + first, is_big);
  for (uint64_t entry = first + 2; entry < end && entry + 11 < size; entry += 12)
    if (read_either16(tiff + entry, is_big) == ORIENTATION && read_either16(tiff + entry + 2, is_big) == SHORT) {
      uint32_t found = read_either16(tiff + entry + 8, is_big);
      return 1 <= found && found <= 8 ? (int)found : UPRIGHT;
    }
  return UPRIGHT;
}

/* What is known of an image; a row of an array of int64. */

enum { LEFT, JPEG, PNG }; /* formats; LEFT to Python */

struct row {
  int64_t start, size; /* of its bytes in the target */
  int64_t format, width, height, orientation, is_deep;
  int64_t status[3]; /* size, time in ns and inode of the file, after it was read */
};

/* Measure the image of a row, unless Python has to look at it. */
static void measure(const uint8_t *data, size_t size, uint64_t max_pixels, struct row *row) {
  struct jpeg jpeg = {0};
  struct png png = {0};
  int64_t orientation = UPRIGHT;
  if (is_plain(data, size, &jpeg)) {
    row->format = JPEG, row->width = jpeg.width, row->height = jpeg.height;
    if (jpeg.exif) orientation = read_orientation(data + jpeg.exif, jpeg.exif_end - jpeg.exif);
  } else if (is_plain_png(data, size, &png)) {
    row->format = PNG, row->width = png.width, row->height = png.height, row->is_deep = png.is_deep;
    if (png.exif) orientation = read_orientation(data + png.exif, png.exif_end - png.exif);
  }
  row->orientation = orientation;
  if (!orientation || (uint64_t)row->width * row->height > max_pixels) row->format = LEFT, row->is_deep = 0;
}

/* A file that is open, for the next part of it. */
struct source {
  int descriptor;
  const char *path; /* in the buffer of paths */
  int64_t size;
};

/* Open the file at `root` and then `path`; it stays open where its parts are read. */
static int open_source(struct source *source, const uint8_t *root, size_t root_size, const char *path, int64_t size) {
  char name[PATH_MAX];
  if (source->descriptor >= 0 && source->size == size && !memcmp(source->path, path, size)) return 1;
  if (source->descriptor >= 0) close(source->descriptor);
  source->descriptor = -1;
  if (root_size + size >= sizeof name || memchr(path, 0, size) || memchr(root, 0, root_size)) return 0;
  memcpy(name, root, root_size);
  memcpy(name + root_size, path, size);
  name[root_size + size] = 0;
  source->descriptor = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in place of a file is not waited on */
  source->path = path, source->size = size;
  return source->descriptor >= 0;
}

/* Read a file, or `length` bytes of it from `offset`, and note what the file is then; 0 where Python has to. */
static int read_part(int descriptor, uint8_t *target, int64_t room, const int64_t *range, struct row *row) {
  struct stat now;
  if (range && (range[0] < 0 || range[1] < 0 || range[1] > room)) return 0;
  ssize_t got = range ? pread(descriptor, target, range[1], range[0]) : read(descriptor, target, room);
  if (got < 0 || fstat(descriptor, &now) || !S_ISREG(now.st_mode) || got != (range ? range[1] : now.st_size)) return 0;
  if (!note_status(&now, row->status)) return 0;
  row->size = got;
  return 1;
}

/* Whether `places` are where `count` spans of a buffer begin, one after the other, and where the last one ends. */
static int are_places(const Py_buffer *places, Py_ssize_t count, Py_ssize_t size) {
  const int64_t *at = places->buf;
  return places->len == 8 * (count + 1) && are_within(at, at + 1, count, size);
}

PyObject *read_images(PyObject *self, PyObject *args) {
  Py_buffer root, paths, places, ranges = {0}, target, rows;
  unsigned long long max_pixels;
  if (!PyArg_ParseTuple(args, "y*y*y*z*Kw*w*", &root, &paths, &places, &ranges, &max_pixels, &target, &rows)) return NULL;
  Py_ssize_t count = places.len / 8 - 1;
  const int64_t *at = places.buf;
  int64_t used = 0;
  int good = count >= 0 && are_places(&places, count, paths.len) && rows.len == count * (Py_ssize_t)sizeof(struct row) &&
             (!ranges.buf || ranges.len == 16 * count);
  if (good) {
    Py_BEGIN_ALLOW_THREADS;
    struct source source = {-1, NULL, 0};
    for (Py_ssize_t n = 0; n < count; n++) {
      struct row row = {0};
      uint8_t *place = (uint8_t *)target.buf + used;
      if (open_source(&source, root.buf, root.len, (const char *)paths.buf + at[n], at[n + 1] - at[n]) &&
          read_part(source.descriptor, place, target.len - used, ranges.buf ? (int64_t *)ranges.buf + 2 * n : NULL, &row)) {
        measure(place, row.size, max_pixels, &row);
        row.start = used, used += row.size;
      }
      memcpy((struct row *)rows.buf + n, &row, sizeof row);
      if (!ranges.buf && source.descriptor >= 0) close(source.descriptor), source.descriptor = -1; /* read to its end */
    }
    if (source.descriptor >= 0) close(source.descriptor);
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&root), PyBuffer_Release(&paths), PyBuffer_Release(&places), PyBuffer_Release(&target), PyBuffer_Release(&rows);
  if (ranges.obj) PyBuffer_Release(&ranges);
  return good ? PyLong_FromLongLong(used) : done(0);
}

/* Examples: protobuf.dev/programming-guides/encoding. */

static inline uint64_t number_size(const struct entry *entry, uint64_t value) { return entry_size(entry, varint_size(value)); }

static inline uint8_t *put_number(uint8_t *at, const struct entry *entry, uint64_t value) {
  return write_varint(write_head(entry, varint_size(value), at), value);
}

enum { IMAGE, LABEL, FILENAME, IMAGE_HEIGHT, IMAGE_WIDTH, PARTS };

struct part {
  const uint8_t *bytes;
  int64_t size;
};

/* The framed Example of an image, where its bytes are, and their digest with height and width; its end, NULL where there is no room.
   `label` is negative where it has none; `entries` are those of its other features. */
static uint8_t *frame_image(uint8_t *at, const uint8_t *end, const struct entry *parts, struct part image, const struct row *row, int64_t label,
                            struct part file, struct part entries, uint8_t *digest, uint8_t **value_at) {
  uint64_t sides = number_size(parts + IMAGE_HEIGHT, row->height) + number_size(parts + IMAGE_WIDTH, row->width);
  uint64_t size = entry_size(parts + IMAGE, image.size) + (label < 0 ? 0 : number_size(parts + LABEL, label)) +
                  entry_size(parts + FILENAME, file.size) + sides + entries.size;
  uint64_t payload = 1 + varint_size(size) + size, framed = HEADER + payload + FOOTER;
  if (framed > (uint64_t)(end - at)) return NULL;
  uint8_t *record = at;
  at[HEADER] = FIRST;
  uint8_t *value = write_head(parts + IMAGE, image.size, write_varint(at + HEADER + 1, size));
  memcpy(value, image.bytes, image.size);
  *value_at = value;
  at = value + image.size;
  /* Height and width come behind the label and the name of the file; for the digest they are right behind the image */
  put_number(put_number(at, parts + IMAGE_HEIGHT, row->height), parts + IMAGE_WIDTH, row->width);
  if (image.size + sides > 240) xxh3_128_long(value, image.size + sides, digest);
  else memset(digest, 0, 16);
  if (label >= 0) at = put_number(at, parts + LABEL, label);
  at = write_head(parts + FILENAME, file.size, at);
  memcpy(at, file.bytes, file.size);
  at = put_number(put_number(at + file.size, parts + IMAGE_HEIGHT, row->height), parts + IMAGE_WIDTH, row->width);
  memcpy(at, entries.bytes, entries.size);
  frame_record(record, payload);
  return record + framed;
}

PyObject *encode_images(PyObject *self, PyObject *args) {
  Py_buffer data, rows, labels, files, file_places, entries, entry_places, target, places, values, digests;
  PyObject *given;
  if (!PyArg_ParseTuple(args, "y*y*O!y*y*y*y*y*w*w*w*w*", &data, &rows, &PyList_Type, &given, &labels, &files, &file_places, &entries, &entry_places,
                        &target, &places, &values, &digests))
    return NULL;
  Py_ssize_t count = rows.len / (Py_ssize_t)sizeof(struct row);
  struct entry parts[PARTS];
  int good = PyList_Size(given) == PARTS && rows.len == count * (Py_ssize_t)sizeof(struct row) && labels.len == 8 * count &&
             places.len == 8 * (count + 1) && values.len == 8 * count && digests.len == 16 * count && are_places(&file_places, count, files.len) &&
             are_places(&entry_places, count, entries.len);
  for (int k = 0; good && k < PARTS; k++) {
    char *prefix;
    parts[k].kind = k == IMAGE || k == FILENAME ? BYTES : INTEGERS;
    if ((good = !PyBytes_AsStringAndSize(PyList_GetItem(given, k), &prefix, &parts[k].prefix_size))) parts[k].prefix = (uint8_t *)prefix;
    else PyErr_Clear();
  }
  if (good) {
    const int64_t *file = file_places.buf, *entry = entry_places.buf;
    int64_t *place = places.buf, *value_at = values.buf;
    uint8_t *start = target.buf, *end = start + target.len, *at = start, *value = start;
    Py_BEGIN_ALLOW_THREADS;
    place[0] = 0;
    for (Py_ssize_t n = 0; good && n < count; n++) {
      struct row row;
      memcpy(&row, (struct row *)rows.buf + n, sizeof row);
      if (!(good = row.size >= 0 && 0 <= row.start && row.start <= data.len - row.size && row.width >= 0 && row.height >= 0)) break;
      struct part image = {(const uint8_t *)data.buf + row.start, row.size};
      struct part name = {(const uint8_t *)files.buf + file[n], file[n + 1] - file[n]};
      struct part others = {(const uint8_t *)entries.buf + entry[n], entry[n + 1] - entry[n]};
      at = frame_image(at, end, parts, image, &row, ((int64_t *)labels.buf)[n], name, others, (uint8_t *)digests.buf + 16 * n, &value);
      if ((good = at != NULL)) place[n + 1] = at - start, value_at[n] = value - start;
    }
    Py_END_ALLOW_THREADS;
  }
  PyBuffer_Release(&data), PyBuffer_Release(&rows), PyBuffer_Release(&labels), PyBuffer_Release(&files), PyBuffer_Release(&file_places);
  PyBuffer_Release(&entries), PyBuffer_Release(&entry_places), PyBuffer_Release(&target), PyBuffer_Release(&places);
  PyBuffer_Release(&values), PyBuffer_Release(&digests);
  return done(good);
}
