/* SPDX-License-Identifier: Apache-2.0 */
#include "models/ckpt_edit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/dequantize.h"
#include "base/file.h"
#include "checkpoint/safetensors_writer.h"

static void require(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    exit(1);
}

static char *join(const char *dir, const char *name)
{
    char *path = malloc(EY_MAX_PATH);
    require(path && snprintf(path, EY_MAX_PATH, "%s/%s", dir, name) < EY_MAX_PATH, "path");
    return path;
}

const char *ckpt_make(const char *base, const char *kind)
{
    static char made[32][EY_MAX_PATH];
    char wanted[EY_MAX_PATH], command[3 * EY_MAX_PATH];
    require(snprintf(wanted, sizeof(wanted), "%s/%s", base, kind) < EY_MAX_PATH, "path");
    int i = 0;
    while (i < 32 && made[i][0] && strcmp(made[i], wanted) != 0)
        i++;
    require(i < 32, "more than 32 checkpoints");
    if (made[i][0]) return made[i];
    snprintf(command, sizeof(command), "'%s' --like %s --seed 1 --threads 2 '%s' > /dev/null",
             MKCHECKPOINT, kind, wanted);
    require(system(command) == 0, command);
    return strcpy(made[i], wanted);
}

static void remove_files(const char *dir)
{
    DIR *list = opendir(dir);
    for (struct dirent *entry; list && (entry = readdir(list));)
        if (entry->d_name[0] != '.') ckpt_remove_file(dir, entry->d_name);
    if (list) closedir(list);
}

void ckpt_copy(const char *from, const char *to)
{
    mkdir(to, 0777);
    remove_files(to);
    DIR *list = opendir(from);
    require(list, from);
    for (struct dirent *entry; (entry = readdir(list));) {
        if (entry->d_name[0] == '.') continue;
        char *target = join(from, entry->d_name), *link = join(to, entry->d_name);
        require(symlink(target, link) == 0, link);
        free(target);
        free(link);
    }
    closedir(list);
}

void ckpt_remove_file(const char *dir, const char *file)
{
    char *path = join(dir, file);
    require(unlink(path) == 0, path);
    free(path);
}

void ckpt_write_file(const char *dir, const char *file, const void *bytes, size_t n)
{
    char *path = join(dir, file);
    unlink(path); /* it is a link to the original */
    FILE *f = fopen(path, "wb");
    require(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, path);
    free(path);
}

/* ---- JSON ---- */

static json_object *parsed(const char *text)
{
    json_object *value = json_tokener_parse(text);
    if (!value && strcmp(text, "null") != 0) {
        fprintf(stderr, "not JSON: %s\n", text);
        exit(1);
    }
    return value;
}

static void set_member(json_object *object, char *path, const char *value)
{
    char *dot;
    while ((dot = strchr(path, '.'))) {
        *dot = 0;
        json_object *next = NULL;
        if (!json_object_object_get_ex(object, path, &next)) {
            fprintf(stderr, "no member %s\n", path);
            exit(1);
        }
        object = next;
        path = dot + 1;
    }
    if (value)
        json_object_object_add(object, path, parsed(value));
    else
        json_object_object_del(object, path);
}

void ckpt_set(const char *dir, const char *file, const char *path, const char *value)
{
    if (!path[0]) {
        if (value)
            ckpt_write_file(dir, file, value, strlen(value));
        else
            ckpt_remove_file(dir, file);
        return;
    }
    char *name = join(dir, file), *text, members[256];
    size_t n;
    ey_err e;
    if (!file_read(&text, &n, name, EY_MAX_JSON_BYTES, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    json_object *object = parsed(text);
    snprintf(members, sizeof(members), "%s", path);
    set_member(object, members, value);
    const char *out = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
    ckpt_write_file(dir, file, out, strlen(out));
    json_object_put(object);
    free(text);
    free(name);
}

/* ---- tensors ---- */

static uint8_t *copy_bytes(const void *from, size_t n)
{
    uint8_t *data = calloc(n ? n : 1, 1);
    require(data, "memory");
    if (from && n) memcpy(data, from, n);
    return data;
}

static struct edited_tensor *append(struct tensor_list *list)
{
    list->at = realloc(list->at, (list->n + 1) * sizeof(*list->at));
    require(list->at, "memory");
    struct edited_tensor *t = &list->at[list->n++];
    *t = (struct edited_tensor){0};
    return t;
}

struct tensor_list tensors_read(const char *dir)
{
    struct tensor_list list = {0};
    struct checkpoint *ckpt;
    ey_err e;
    if (!checkpoint_open(&ckpt, dir, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    for (size_t i = 0; i < checkpoint_count(ckpt); i++) {
        const struct tensor_view *v = checkpoint_at(ckpt, i);
        struct edited_tensor *t = append(&list);
        snprintf(t->name, sizeof(t->name), "%s", v->name);
        t->dtype = v->dtype;
        t->n_dims = v->n_dims;
        t->size = v->size;
        memcpy(t->shape, v->shape, sizeof(t->shape));
        t->data = copy_bytes(v->data, v->size);
    }
    checkpoint_close(ckpt);
    return list;
}

struct edited_tensor *tensors_find(struct tensor_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0) return &list->at[i];
    fprintf(stderr, "no tensor %s\n", name);
    exit(1);
}

void tensors_drop(struct tensor_list *list, const char *name)
{
    struct edited_tensor *t = tensors_find(list, name);
    free(t->data);
    *t = list->at[--list->n];
}

struct edited_tensor *tensors_add(struct tensor_list *list, const char *name,
                                  const struct edited_tensor *from)
{
    struct edited_tensor copy = from ? *from : (struct edited_tensor){0};
    if (from) copy.data = copy_bytes(from->data, from->size);
    snprintf(copy.name, sizeof(copy.name), "%s", name);
    struct edited_tensor *t = append(list);
    *t = copy;
    return t;
}

void tensors_rename(struct tensor_list *list, const char *prefix, const char *other)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < list->n; i++) {
        char renamed[400];
        if (strncmp(list->at[i].name, prefix, n) != 0) continue;
        snprintf(renamed, sizeof(renamed), "%s%s", other, list->at[i].name + n);
        snprintf(list->at[i].name, sizeof(list->at[i].name), "%.199s", renamed);
    }
}

static size_t elements(const struct edited_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (size_t)t->shape[i];
    return n;
}

void tensor_fit(struct edited_tensor *t)
{
    const struct dtype_traits *type = dtype_info(t->dtype);
    size_t size = elements(t) / type->values * type->bytes;
    uint8_t *data = copy_bytes(NULL, size);
    if (t->data) memcpy(data, t->data, size < t->size ? size : t->size);
    free(t->data);
    t->data = data;
    t->size = size;
}

static void put_float(uint8_t *out, enum dtype to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if (to == DTYPE_F32)
        memcpy(out, &bits, 4);
    else if (to == DTYPE_BF16)
        memcpy(out, (uint8_t *)&bits + 2, 2); /* truncates; the tests convert exact values */
    else
        require(false, "conversion");
}

void tensor_convert(struct edited_tensor *t, enum dtype to)
{
    size_t n = elements(t);
    float *values = malloc((n + 1) * sizeof(float));
    require(values, "memory");
    elements_to_f32(values, t->data, t->dtype, n);
    t->dtype = to;
    tensor_fit(t);
    for (size_t i = 0; i < n; i++)
        put_float(t->data + i * dtype_size(to), to, values[i]);
    free(values);
}

static void remove_weights(const char *dir)
{
    DIR *files = opendir(dir);
    for (struct dirent *entry; files && (entry = readdir(files));)
        if (strstr(entry->d_name, "safetensors")) ckpt_remove_file(dir, entry->d_name);
    if (files) closedir(files);
}

void tensors_write(struct tensor_list *list, const char *dir)
{
    remove_weights(dir);
    char *path = join(dir, "model.safetensors");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct safetensors_writer w;
    uint64_t at = 0;
    safetensors_writer_begin(&w, fd);
    for (size_t i = 0; i < list->n; i++) {
        const struct edited_tensor *t = &list->at[i];
        safetensors_writer_add(&w, t->name, t->dtype, t->shape, t->n_dims);
    }
    require(fd >= 0 && safetensors_write_header(&w), path);
    for (size_t i = 0; i < list->n; at += list->at[i++].size) {
        require(safetensors_write_data(&w, list->at[i].data, list->at[i].size, at), path);
        free(list->at[i].data);
    }
    require(at == w.data_size && close(fd) == 0, path);
    free(path);
    free(list->at);
    *list = (struct tensor_list){0};
}
