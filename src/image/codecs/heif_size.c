/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the boxes of an ISO media file (ISO 14496-12, 23008-12) and the sequence headers of HEVC
 * and AV1 for frame sizes. If a file gives wrong sizes here, only its own decoding fails, because
 * the decoder's memory limit is derived from them. */
#include "image/codecs/heif_size.h"

#include <string.h>

enum {
    MAX_FRAMES = 1024,         /* the largest image has 680 tiles of 512x512 */
    MAX_TABLE_BYTES = 1 << 18, /* size of a box that lists items */
    MAX_DEPTH = 4,             /* nesting of derived images */
    MAX_HEADER_UNITS = 4096,   /* units of an AV1 stream that are searched for headers */
    MAX_STEPS = 1 << 24, /* table entries read for one file; 1024 tiles need about 4 million */
    HEADER_STEPS = 256,  /* the cost of a sequence header in table entries */
};

struct span {
    const uint8_t *data;
    size_t n;
};

/* ---- bytes ---- */

/* Consumes `count` bytes as a number. A shorter span gives 0 and becomes empty. */
static uint64_t take(struct span *s, size_t count)
{
    uint64_t value = 0;
    if (s->n < count) {
        s->n = 0;
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        value = value << 8 | s->data[i];
    if (count) s->data += count; /* an empty span may have a NULL address */
    s->n -= count;
    return value;
}

static struct span take_span(struct span *s, uint64_t count)
{
    struct span part = {s->data, count < s->n ? (size_t)count : s->n};
    if (part.n) s->data += part.n;
    s->n -= part.n;
    return part;
}

static uint32_t box_code(const char *name)
{
    const uint8_t *b = (const uint8_t *)name;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* ---- boxes ---- */

/* Consumes the next box. Returns false at the end. */
static bool next_box(struct span *s, uint32_t *type, struct span *body)
{
    if (s->n < 8) return false;
    uint64_t size = take(s, 4), head = 8;
    *type = (uint32_t)take(s, 4);
    if (size == 1) {
        size = take(s, 8);
        head = 16;
    }
    if (size == 0) size = head + s->n;
    if (size < head) return false;
    *body = take_span(s, size - head);
    return true;
}

static bool find_box(struct span in, const char *name, struct span *body)
{
    uint32_t type;
    while (next_box(&in, &type, body))
        if (type == box_code(name)) return true;
    *body = (struct span){0};
    return false;
}

/* Consumes the version and flags of a full box; returns the version. */
static unsigned take_version(struct span *s, uint32_t *flags)
{
    uint32_t word = (uint32_t)take(s, 4);
    *flags = word & 0xffffff;
    return word >> 24;
}

/* ---- items ---- */

struct heif_boxes {
    struct span file, iinf, iloc, ipco, ipma, iref, idat;
    struct heif_size *size;
    size_t n_frames;
    uint64_t steps;
};

/* Counts the work of a scan, which small tables that refer to one another can make quadratic and
 * worse. Returns false if the file demands too much. */
static bool take_steps(struct heif_boxes *b, uint64_t n)
{
    b->steps += n;
    if (b->steps > MAX_STEPS) b->size->too_many = true;
    return !b->size->too_many;
}

static uint32_t item_type(struct heif_boxes *b, uint32_t id)
{
    struct span list = b->iinf, entry;
    uint32_t flags, type;
    take(&list, take_version(&list, &flags) == 0 ? 2 : 4);
    while (next_box(&list, &type, &entry) && take_steps(b, 1)) {
        unsigned version = take_version(&entry, &flags);
        uint32_t entry_id = (uint32_t)take(&entry, version < 3 ? 2 : 4);
        take(&entry, 2);
        if (version >= 2 && entry_id == id) return (uint32_t)take(&entry, 4);
    }
    return 0;
}

static bool property_at(struct heif_boxes *b, unsigned index, uint32_t *type, struct span *body)
{
    struct span list = b->ipco;
    while (take_steps(b, 1) && index && next_box(&list, type, body))
        if (--index == 0) return true;
    return false;
}

/* Finds the item's property by its box name. */
static bool item_property(struct heif_boxes *b, uint32_t id, const char *name, struct span *body)
{
    struct span list = b->ipma;
    uint32_t flags, type;
    unsigned version = take_version(&list, &flags);
    for (uint64_t entries = take(&list, 4); entries && list.n && take_steps(b, 1); entries--) {
        uint32_t entry_id = (uint32_t)take(&list, version < 1 ? 2 : 4);
        struct span indices = take_span(&list, take(&list, 1) * (flags & 1 ? 2 : 1));
        while (entry_id == id && indices.n) {
            unsigned index = flags & 1 ? (unsigned)take(&indices, 2) & 0x7fff
                                       : (unsigned)take(&indices, 1) & 0x7f;
            if (property_at(b, index, &type, body) && type == box_code(name)) return true;
        }
    }
    return false;
}

/* Returns the first extent of the item's data; in practice there is only one. */
static struct span item_data(struct heif_boxes *b, uint32_t id)
{
    struct span list = b->iloc;
    uint32_t flags;
    unsigned version = take_version(&list, &flags);
    unsigned sizes = (unsigned)take(&list, 2);
    size_t n_offset = sizes >> 12, n_length = sizes >> 8 & 15, n_base = sizes >> 4 & 15,
           n_index = version ? sizes & 15 : 0;
    for (uint64_t items = take(&list, version < 2 ? 2 : 4); items && list.n && take_steps(b, 1);
         items--) {
        uint32_t entry_id = (uint32_t)take(&list, version < 2 ? 2 : 4);
        unsigned method = version ? (unsigned)take(&list, 2) & 15 : 0;
        take(&list, 2);
        uint64_t base = take(&list, n_base), extents = take(&list, 2);
        struct span pieces = take_span(&list, extents * (n_index + n_offset + n_length));
        if (entry_id != id) continue;
        take(&pieces, n_index);
        uint64_t offset = base + take(&pieces, n_offset), length = take(&pieces, n_length);
        struct span from = method == 1 ? b->idat : b->file;
        if (method > 1 || offset > from.n) break;
        take_span(&from, offset);
        return take_span(&from, length ? length : from.n);
    }
    return (struct span){0};
}

/* ---- bits ---- */

struct bits {
    struct span from;
    size_t at;      /* position in bits */
    bool emulation; /* HEVC: skip emulation prevention bytes, the 3 in 0, 0, 3 */
};

static unsigned take_bit(struct bits *b)
{
    size_t byte = b->at / 8;
    if (b->emulation && b->at % 8 == 0 && byte >= 2 && byte < b->from.n &&
        b->from.data[byte] == 3 && !b->from.data[byte - 1] && !b->from.data[byte - 2]) {
        b->at += 8;
        byte++;
    }
    unsigned bit = byte < b->from.n ? b->from.data[byte] >> (7 - b->at % 8) & 1u : 0;
    b->at++;
    return bit;
}

static uint32_t take_bits(struct bits *b, unsigned n)
{
    uint32_t value = 0;
    while (n--)
        value = value << 1 | take_bit(b);
    return value;
}

/* Reads an Exp-Golomb code (ue(v) in HEVC, uvlc in AV1). */
static uint32_t take_golomb(struct bits *b)
{
    unsigned zeros = 0;
    while (zeros < 32 && !take_bit(b))
        zeros++;
    return zeros >= 32 ? UINT32_MAX : ((1u << zeros) - 1) + take_bits(b, zeros);
}

/* ---- coded frames ---- */

struct frame_size {
    uint64_t width, height;
    bool deep, full_chroma;
};

static void keep_larger(struct frame_size *kept, const struct frame_size *found)
{
    kept->deep |= found->deep;
    kept->full_chroma |= found->full_chroma;
    if (found->width * found->height <= kept->width * kept->height) return;
    kept->width = found->width;
    kept->height = found->height;
}

enum { PROFILE_BITS = 88, LEVEL_BITS = 8 };

static void skip_profile_tier_level(struct bits *b, unsigned sub_layers)
{
    unsigned present[8];
    for (unsigned i = 0; i < PROFILE_BITS + LEVEL_BITS; i++)
        take_bit(b);
    for (unsigned i = 0; i < sub_layers; i++)
        present[i] = take_bits(b, 2);
    for (unsigned i = sub_layers; sub_layers && i < 8; i++)
        take_bits(b, 2);
    for (unsigned i = 0; i < sub_layers; i++) {
        unsigned n = (present[i] & 2 ? PROFILE_BITS : 0u) + (present[i] & 1 ? LEVEL_BITS : 0u);
        while (n--)
            take_bit(b);
    }
}

/* Parses an HEVC sequence parameter set (7.3.2.2), starting at its two-byte header. */
static struct frame_size hevc_frame_size(struct span unit)
{
    struct bits b = {.from = unit, .emulation = true};
    struct frame_size size = {0};
    take_bits(&b, 16 + 4);
    unsigned sub_layers = take_bits(&b, 3);
    take_bit(&b);
    skip_profile_tier_level(&b, sub_layers);
    take_golomb(&b);
    uint32_t chroma = take_golomb(&b);
    if (chroma == 3) take_bit(&b);
    size.width = take_golomb(&b);
    size.height = take_golomb(&b);
    if (take_bit(&b))
        for (int i = 0; i < 4; i++)
            take_golomb(&b); /* conformance window: the whole frame is decoded anyway */
    size.deep = take_golomb(&b) > 0;
    size.full_chroma = chroma > 1;
    return size;
}

enum { HEVC_SPS = 33 };

/* Parses the parameter sets in an item's hvcC property. */
static struct frame_size hevc_item_size(struct heif_boxes *b, struct span hvcc)
{
    struct frame_size largest = {0};
    take_span(&hvcc, 22);
    for (uint64_t arrays = take(&hvcc, 1); arrays && hvcc.n; arrays--) {
        unsigned type = (unsigned)take(&hvcc, 1) & 0x3f;
        for (uint64_t units = take(&hvcc, 2); units && hvcc.n; units--) {
            struct span unit = take_span(&hvcc, take(&hvcc, 2));
            if (!take_steps(b, type == HEVC_SPS ? HEADER_STEPS : 1)) return largest;
            if (type != HEVC_SPS) continue;
            struct frame_size size = hevc_frame_size(unit);
            keep_larger(&largest, &size);
        }
    }
    return largest;
}

/* Skips the decoder model and operating points of an AV1 sequence header. */
static void skip_av1_operating_points(struct bits *b)
{
    unsigned delay_bits = 0;
    bool decoder_model = false;
    if (take_bit(b)) {
        take_bits(b, 32);
        take_bits(b, 32);
        if (take_bit(b)) take_golomb(b);
        decoder_model = take_bit(b);
        if (decoder_model) {
            delay_bits = take_bits(b, 5) + 1;
            take_bits(b, 32);
            take_bits(b, 10);
        }
    }
    bool display_delay = take_bit(b);
    for (unsigned points = take_bits(b, 5) + 1; points; points--) {
        take_bits(b, 12);
        if (take_bits(b, 5) > 7) take_bit(b);
        if (decoder_model && take_bit(b)) {
            take_bits(b, delay_bits);
            take_bits(b, delay_bits);
            take_bit(b);
        }
        if (display_delay && take_bit(b)) take_bits(b, 4);
    }
}

/* Parses the body of a sequence header (AV1 5.5.1). */
static struct frame_size av1_frame_size(struct span body)
{
    struct bits b = {.from = body};
    struct frame_size size = {0};
    take_bits(&b, 4);
    if (take_bit(&b))
        take_bits(&b, 5);
    else
        skip_av1_operating_points(&b);
    unsigned width_bits = take_bits(&b, 4) + 1, height_bits = take_bits(&b, 4) + 1;
    size.width = (uint64_t)take_bits(&b, width_bits) + 1;
    size.height = (uint64_t)take_bits(&b, height_bits) + 1;
    return size;
}

static uint64_t take_leb128(struct span *s)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t byte = take(s, 1);
        value |= (byte & 0x7f) << 7 * i;
        if (!(byte & 0x80)) break;
    }
    return value;
}

enum { AV1_SEQUENCE_HEADER = 1 };

/* Returns the largest size in a stream's sequence headers. */
static struct frame_size av1_stream_size(struct heif_boxes *b, struct span stream)
{
    struct frame_size largest = {0};
    for (int units = 0; stream.n && units < MAX_HEADER_UNITS; units++) {
        unsigned head = (unsigned)take(&stream, 1);
        if (head & 4) take(&stream, 1);
        struct span body = take_span(&stream, head & 2 ? take_leb128(&stream) : stream.n);
        bool is_header = (head >> 3 & 15) == AV1_SEQUENCE_HEADER;
        if (!take_steps(b, is_header ? HEADER_STEPS : 1)) break;
        if (!is_header) continue;
        struct frame_size size = av1_frame_size(body);
        keep_larger(&largest, &size);
    }
    return largest;
}

/* Reads depth and chroma from av1C. Sequence headers are optional there but not in the data. */
static struct frame_size av1_item_size(struct heif_boxes *b, struct span av1c, struct span data)
{
    struct frame_size size = av1_stream_size(b, data);
    take(&av1c, 2);
    unsigned flags = (unsigned)take(&av1c, 1);
    take(&av1c, 1);
    struct frame_size other = av1_stream_size(b, av1c);
    keep_larger(&size, &other);
    size.deep = flags & 0x40;
    size.full_chroma = !(flags & 0x10) && (flags & 0x0c) != 0x0c;
    return size;
}

/* ---- frames to decode ---- */

/* Returns the size that the item's ispe property claims. */
static struct frame_size claimed_size(struct heif_boxes *b, uint32_t id)
{
    struct span ispe;
    struct frame_size size = {0};
    if (!item_property(b, id, "ispe", &ispe)) return size;
    take(&ispe, 4);
    size.width = take(&ispe, 4);
    size.height = take(&ispe, 4);
    return size;
}

static void add_frame(struct heif_boxes *b, const struct frame_size *size)
{
    uint64_t pixels = size->width * size->height; /* sides have 32 bits */
    b->size->coded = b->size->coded > UINT64_MAX - pixels ? UINT64_MAX : b->size->coded + pixels;
    if (pixels > b->size->largest) b->size->largest = pixels;
    b->size->deep |= size->deep;
    b->size->full_chroma |= size->full_chroma;
}

/* Returns the canvas of a grid: the larger of the sizes in its property and in its data. */
static struct frame_size grid_size(struct heif_boxes *b, uint32_t id)
{
    struct span data = item_data(b, id);
    struct frame_size size = claimed_size(b, id), grid = {0};
    bool wide = take(&data, 2) & 1;
    take(&data, 2);
    grid.width = take(&data, wide ? 4 : 2);
    grid.height = take(&data, wide ? 4 : 2);
    keep_larger(&size, &grid);
    return size;
}

static struct frame_size add_item(struct heif_boxes *b, uint32_t id, int depth);

/* Adds the inputs of a derived image. */
static void add_coded_parts(struct heif_boxes *b, uint32_t id, int depth)
{
    struct span list = b->iref, body;
    uint32_t flags, type;
    size_t n_id = take_version(&list, &flags) == 0 ? 2 : 4;
    while (next_box(&list, &type, &body) && take_steps(b, 1)) {
        if (take(&body, n_id) != id || type != box_code("dimg")) continue;
        for (uint64_t n = take(&body, 2); n && body.n && !b->size->too_many; n--)
            add_item(b, (uint32_t)take(&body, n_id), depth + 1);
    }
}

/* Adds the frames that decoding an item needs. Returns the size of the resulting image. */
static struct frame_size add_item(struct heif_boxes *b, uint32_t id, int depth)
{
    struct span configuration;
    struct frame_size size = claimed_size(b, id), coded = size;
    uint32_t type = item_type(b, id);
    if (++b->n_frames > MAX_FRAMES || depth > MAX_DEPTH) {
        b->size->too_many = true;
        return size;
    }
    if (item_property(b, id, "hvcC", &configuration))
        coded = hevc_item_size(b, configuration);
    else if (item_property(b, id, "av1C", &configuration))
        coded = av1_item_size(b, configuration, item_data(b, id));
    else if (type == box_code("grid"))
        size = grid_size(b, id);
    if (coded.width == 0 || coded.height == 0) coded = size;
    if (type == box_code("hvc1") || type == box_code("hev1") || type == box_code("av01"))
        add_frame(b, &coded);
    else
        add_coded_parts(b, id, depth);
    return size;
}

static bool is_alpha(struct heif_boxes *b, uint32_t id)
{
    struct span auxc;
    static const char *const kinds[] = {":alpha", "auxid:1"};
    if (!item_property(b, id, "auxC", &auxc)) return false;
    for (size_t i = 0; i < 2; i++)
        if (memmem(auxc.data, auxc.n, kinds[i], strlen(kinds[i]))) return true;
    return false;
}

/* Adds the primary image's alpha images. */
static void add_alpha(struct heif_boxes *b, uint32_t primary)
{
    struct span list = b->iref, body;
    uint32_t flags, type;
    size_t n_id = take_version(&list, &flags) == 0 ? 2 : 4;
    while (next_box(&list, &type, &body) && take_steps(b, 1)) {
        if (type != box_code("auxl")) continue;
        uint32_t from = (uint32_t)take(&body, n_id);
        bool of_primary = false;
        for (uint64_t n = take(&body, 2); n && body.n; n--)
            of_primary |= take(&body, n_id) == primary;
        if (!of_primary || !is_alpha(b, from)) continue;
        b->size->alpha = true;
        add_item(b, from, 0);
    }
}

static bool open_boxes(struct heif_boxes *b, uint32_t *primary)
{
    struct span meta, iprp, pitm;
    uint32_t flags;
    if (!find_box(b->file, "meta", &meta)) return false;
    take_version(&meta, &flags);
    if (!find_box(meta, "pitm", &pitm) || !find_box(meta, "iinf", &b->iinf) ||
        !find_box(meta, "iprp", &iprp) || !find_box(iprp, "ipco", &b->ipco) ||
        !find_box(iprp, "ipma", &b->ipma))
        return false;
    find_box(meta, "iloc", &b->iloc);
    find_box(meta, "iref", &b->iref);
    find_box(meta, "idat", &b->idat);
    *primary = (uint32_t)take(&pitm, take_version(&pitm, &flags) == 0 ? 2 : 4);
    const size_t lists[] = {b->iinf.n, b->iloc.n, b->ipco.n, b->ipma.n, b->iref.n};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        b->size->too_many |= lists[i] > MAX_TABLE_BYTES;
    return !b->size->too_many;
}

struct heif_size heif_size_of(const uint8_t *file, size_t n)
{
    struct heif_size size = {0};
    struct heif_boxes b = {.file = {file, n}, .size = &size};
    uint32_t primary;
    if (!open_boxes(&b, &primary)) return size;
    struct frame_size image = add_item(&b, primary, 0);
    size.width = image.width;
    size.height = image.height;
    add_alpha(&b, primary);
    return size;
}
