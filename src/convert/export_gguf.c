/* SPDX-License-Identifier: Apache-2.0 */
/* Exports to GGUF files for llama.cpp and eyelet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/gguf/gguf_model.h"
#include "convert/export_plan.h"
#include "convert/gguf_metadata.h"
#include "convert/output_folder.h"

enum { TEXT_FILE, VISION_FILE, FILES };
#define PATCH_WEIGHT "model.visual.patch_embed.proj.weight"

struct gguf_export {
    struct export_plan plan;
    const struct gguf_arch *arch;
    json_object *tokenizer;
    char name[FILES][OUTPUT_NAME_BYTES]; /* final names */
    struct gguf_writer file[FILES];

    uint64_t *offset; /* [plan.n, 2]: where a tensor's data goes, and its second part, if it has
                         one (a convolution's second frame, or the global scale) */
    struct output_folder out;
};

/* ---- names and shapes ---- */

static bool is_vision(const struct stored_tensor *t)
{
    return strncmp(t->name, "model.visual.", 13) == 0;
}

static bool is_patch_weight(const struct stored_tensor *t)
{
    return strcmp(t->name, PATCH_WEIGHT) == 0 && t->n_dims == 5;
}

static bool file_name_of(char out[GGUF_NAME_BYTES], const struct gguf_export *x,
                         const struct stored_tensor *t, ey_err *e)
{
    const struct vision_shape *v = x->plan.source->vision;
    const bool known = is_vision(t)
                           ? gguf_vision_file_name(out, t->name, v->deepstack, v->n_deepstack)
                           : gguf_file_name(out, x->arch, t->name);
    return known || ey_fail(e, EY_BAD_REQUEST,
                            "%s: tensor %s has no name in GGUF files of %s; the model cannot be "
                            "converted",
                            t->view->file, t->name, x->arch->name);
}

/* GGUF stores a convolution over two frames as one tensor per frame. */
static void add_patch_frames(struct gguf_export *x, size_t i)
{
    const struct planned_tensor *p = &x->plan.tensor[i];
    const int64_t *s = p->stored->shape, frame[4] = {s[0], s[1], s[3], s[4]};
    struct gguf_writer *w = &x->file[VISION_FILE];
    x->offset[2 * i] = gguf_writer_add(w, "v.patch_embd.weight", p->plan.dtype, frame, 4);
    x->offset[2 * i + 1] = gguf_writer_add(w, "v.patch_embd.weight.1", p->plan.dtype, frame, 4);
}

/* The global scale of "NAME.weight" is "NAME.scale". */
static void add_factor(struct gguf_export *x, size_t i, struct gguf_writer *w, const char *name)
{
    static const int64_t one = 1;
    char scale[GGUF_NAME_BYTES + 8];
    snprintf(scale, sizeof(scale), "%.*s.scale", (int)(strlen(name) - strlen(".weight")), name);
    x->offset[2 * i + 1] = gguf_writer_add(w, scale, DTYPE_F32, &one, 1);
}

static bool name_gguf_tensors(struct gguf_export *x, ey_err *e)
{
    x->offset = calloc(x->plan.n + 1, 2 * sizeof(*x->offset));
    if (!x->offset) return ey_fail_memory(e, "the list of tensors", x->plan.n * 16);
    for (size_t i = 0; i < x->plan.n; i++) {
        const struct planned_tensor *p = &x->plan.tensor[i];
        const struct stored_tensor *t = p->stored;
        struct gguf_writer *w = &x->file[is_vision(t) ? VISION_FILE : TEXT_FILE];
        char name[GGUF_NAME_BYTES];
        if (is_patch_weight(t)) {
            add_patch_frames(x, i);
            continue;
        }
        if (!file_name_of(name, x, t, e)) return false;
        x->offset[2 * i] = gguf_writer_add(w, name, p->plan.dtype, t->shape, t->n_dims);
        if (p->factor != 0) add_factor(x, i, w, name);
    }
    return true;
}

/* ---- metadata ---- */

/* Returns the general.file_type of the type that takes up the most bytes, matrices only. */
static uint32_t file_type_of(const struct export_plan *p)
{
    static const struct {
        enum dtype dtype;
        uint32_t type;
    } types[] = {{DTYPE_F32, 0},  {DTYPE_F16, 1},   {DTYPE_Q4_0, 2},        {DTYPE_Q4_1, 3},
                 {DTYPE_Q8_0, 7}, {DTYPE_BF16, 32}, {DTYPE_GGUF_MXFP4, 38}, {DTYPE_GGUF_NVFP4, 39}};
    uint64_t bytes[sizeof(types) / sizeof(types[0])] = {0};
    size_t best = 0;
    for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++) {
        for (size_t i = 0; i < p->n; i++)
            if (p->tensor[i].plan.dtype == types[k].dtype && p->tensor[i].stored->n_dims == 2 &&
                !strstr(p->tensor[i].stored->name, "embed"))
                bytes[k] += p->tensor[i].size[0];
        if (bytes[k] > bytes[best]) best = k;
    }
    return types[best].type;
}

static bool put_metadata(struct gguf_export *x, ey_err *e)
{
    const struct convert_source *source = x->plan.source;
    char path[EY_MAX_PATH];
    if (!path_join(path, checkpoint_directory(source->ckpt), "tokenizer.json", e) ||
        !(x->tokenizer = json_parse_file(path, EY_BAD_MODEL, e)))
        return false;
    return gguf_put_model(&x->file[TEXT_FILE], source, x->arch, file_type_of(&x->plan), e) &&
           gguf_put_tokenizer(&x->file[TEXT_FILE], source, x->tokenizer, e) &&
           (!source->vision->depth || gguf_put_vision(&x->file[VISION_FILE], source, e));
}

/* ---- bytes ---- */

/* Interleaves rows i and i + half of each head of Llama's queries and keys, as llama.cpp expects.
 */
static bool pair_rows(const struct gguf_export *x, const struct planned_tensor *p, uint8_t *data,
                      ey_err *e)
{
    const struct text_shape *t = x->plan.source->text;
    const char *name = p->stored->name;
    const int64_t rows = p->stored->shape[0], head = t->head_dim;
    const size_t size = p->size[0] / (size_t)rows;
    if (!x->arch->paired_rows || (!strstr(name, ".q_proj.") && !strstr(name, ".k_proj.")))
        return true;
    uint8_t *copy = malloc(p->size[0]);
    if (!copy) return ey_fail_memory(e, name, p->size[0]);
    memcpy(copy, data, p->size[0]);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = row % head, to = row - at + at % (head / 2) * 2 + at / (head / 2);
        memcpy(data + (size_t)to * size, copy + (size_t)row * size, size);
    }
    free(copy);
    return true;
}

/* Extracts one frame of [out, colors, frames, rows, columns]. */
static void take_frame(uint8_t *out, const uint8_t *data, const struct planned_tensor *p, int frame)
{
    const int64_t *s = p->stored->shape;
    const size_t plane = (size_t)(s[3] * s[4]) * dtype_size(p->plan.dtype);
    for (size_t i = 0; i < (size_t)(s[0] * s[1]); i++)
        memcpy(out + i * plane, data + ((size_t)s[2] * i + (size_t)frame) * plane, plane);
}

static bool write_frames(const struct gguf_export *x, size_t i, const uint8_t *data)
{
    const struct planned_tensor *p = &x->plan.tensor[i];
    const size_t n = p->size[0] / 2;
    uint8_t *frame = malloc(n);
    bool ok = frame != NULL;
    for (int k = 0; ok && k < 2; k++) {
        take_frame(frame, data, p, k);
        ok = gguf_write_data(&x->file[VISION_FILE], frame, n, x->offset[2 * i + (size_t)k]);
    }
    free(frame);
    return ok;
}

static bool write_gguf_tensor(struct gguf_export *x, size_t i, ey_err *e)
{
    const struct planned_tensor *p = &x->plan.tensor[i];
    const struct gguf_writer *w = &x->file[is_vision(p->stored) ? VISION_FILE : TEXT_FILE];
    struct formed_weight f;
    bool ok = export_plan_form(&f, &x->plan, i, e) && pair_rows(x, p, f.part[0], e);
    if (ok) {
        ok = is_patch_weight(p->stored)
                 ? write_frames(x, i, f.part[0])
                 : gguf_write_data(w, f.part[0], p->size[0], x->offset[2 * i]);
        if (ok && p->factor != 0)
            ok = gguf_write_data(w, &f.factor, sizeof(f.factor), x->offset[2 * i + 1]);
        if (!ok) output_fail(&x->out, p->stored->name, e);
    }
    formed_weight_free(&f);
    export_progress(&x->plan, i + 1);
    return ok;
}

static int n_files(const struct gguf_export *x)
{
    return x->plan.source->vision->depth ? FILES : 1;
}

static bool write_files(struct gguf_export *x, ey_err *e)
{
    int fd[FILES] = {-1, -1};
    ey_err why = {0};
    bool ok = true;
    for (int k = 0; ok && k < n_files(x); k++) {
        ok = (fd[k] = output_file_create(&x->out, x->name[k], &why)) >= 0;
        if (ok && !gguf_write_header(&x->file[k], fd[k]))
            ok = output_fail(&x->out, x->name[k], &why);
    }
    for (size_t i = 0; ok && i < x->plan.n; i++)
        ok = write_gguf_tensor(x, i, &why);
    for (int k = 0; k < FILES; k++)
        if (fd[k] >= 0 && !output_file_finish(&x->out, fd[k], ok, e)) ok = false;
    return ok || (why.text[0] && ey_fail_as(e, &why));
}

/* ---- verification ---- */

/* Reopens the written files and checks headers, names and tokenizer. */
static bool check_written(const struct gguf_export *x, ey_err *e)
{
    char path[EY_MAX_PATH], mmproj[EY_MAX_PATH];
    struct gguf_model *m = NULL;
    const bool images = n_files(x) > 1;
    if (!path_join(path, x->out.temporary, x->name[TEXT_FILE], e) ||
        !path_join(mmproj, x->out.temporary, x->name[VISION_FILE], e) ||
        !gguf_model_open(&m, path, images ? mmproj : NULL, e))
        return false;
    json_object *tokenizer = gguf_model_tokenizer(m, e);
    const bool ok = tokenizer && tokenizers_agree(x->tokenizer, tokenizer,
                                                  checkpoint_directory(x->plan.source->ckpt), e);
    json_object_put(tokenizer);
    gguf_model_close(m);
    return ok;
}

/* Writes the path of the vision encoder's file: mmproj-NAME in the folder of `path`. */
static bool mmproj_path(char out[EY_MAX_PATH], const struct gguf_export *x, const char *path,
                        ey_err *e)
{
    const char *slash = strrchr(path, '/');
    const int n = snprintf(out, EY_MAX_PATH, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path,
                           x->name[VISION_FILE]);
    if (n >= EY_MAX_PATH) return ey_fail(e, EY_BAD_REQUEST, "%.200s…: the path is too long", path);
    return true;
}

static bool commit_files(struct gguf_export *x, const char *path, ey_err *e)
{
    char mmproj[EY_MAX_PATH];
    if (n_files(x) == 1) return output_file_commit(&x->out, TEXT_FILE, path, e);
    if (!mmproj_path(mmproj, x, path, e) || !output_file_commit(&x->out, VISION_FILE, mmproj, e))
        return false;
    if (output_file_commit(&x->out, TEXT_FILE, path, e)) return true;
    unlink(mmproj);
    return false;
}

/* ---- export ---- */

static bool open_export(struct gguf_export *x, const struct convert_source *source,
                        const char *path, ey_err *e)
{
    const json_object *config = checkpoint_config(source->ckpt);
    json_object *type = json_member_of_type(config, "model_type", json_type_string);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char mmproj[EY_MAX_PATH];
    if (checkpoint_is_gguf(source->ckpt))
        return ey_fail(
            e, EY_BAD_REQUEST,
            "%.400s is already GGUF; to convert it to safetensors, give a directory as the output",
            checkpoint_directory(source->ckpt));
    x->arch = type ? gguf_arch_of_model(json_object_get_string(type)) : NULL;
    if (!x->arch)
        return ey_fail(e, EY_BAD_REQUEST, "%.400s: GGUF has no architecture for this model",
                       checkpoint_directory(source->ckpt));
    if (strlen(name) + strlen("mmproj-") >= OUTPUT_NAME_BYTES)
        return ey_fail(e, EY_BAD_REQUEST, "%.100s…: the name is too long", name);
    snprintf(x->name[TEXT_FILE], OUTPUT_NAME_BYTES, "%.*s", OUTPUT_NAME_BYTES - 1, name);
    snprintf(x->name[VISION_FILE], OUTPUT_NAME_BYTES, "mmproj-%.*s", OUTPUT_NAME_BYTES - 8, name);
    return !source->vision->depth ||
           (mmproj_path(mmproj, x, path, e) &&
            (!path_is_file(mmproj) ||
             ey_fail(e, EY_BAD_REQUEST, "%.500s already exists; give another name", mmproj)));
}

bool convert_to_gguf(const struct convert_source *source, const char *out,
                     ey_convert_report *report, ey_err *e)
{
    struct gguf_export x = {.offset = NULL};
    *report = (ey_convert_report){0};
    for (int k = 0; k < FILES; k++)
        gguf_writer_begin(&x.file[k]);
    bool ok = open_export(&x, source, out, e) &&
              export_plan_make(&x.plan, source, EXPORT_GGUF, report, e) && put_metadata(&x, e) &&
              name_gguf_tensors(&x, e) && output_folder_open(&x.out, out, x.plan.bytes, e) &&
              write_files(&x, e) && check_written(&x, e) && commit_files(&x, out, e);
    output_folder_close(&x.out);
    for (int k = 0; k < FILES; k++)
        gguf_writer_free(&x.file[k]);
    export_plan_free(&x.plan);
    json_object_put(x.tokenizer);
    free(x.offset);
    return ok;
}
