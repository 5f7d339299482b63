/* SPDX-License-Identifier: Apache-2.0 */
/* Reads config.json, generation_config.json, the chat template and safetensors headers. */
#include "server/api/common/model_card.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

struct model_cards {
    pthread_mutex_t lock;
    struct model_card card[SERVER_MAX_MODELS];
};

bool model_cards_open(struct model_cards **out, ey_err *e)
{
    struct model_cards *cards = *out = calloc(1, sizeof(*cards));
    if (!cards) return ey_fail_memory(e, "the models' cards", sizeof(*cards));
    pthread_mutex_init(&cards->lock, NULL);
    return true;
}

void model_cards_close(struct model_cards **out)
{
    if (!*out) return;
    pthread_mutex_destroy(&(*out)->lock);
    free(*out);
    *out = NULL;
}

/* ---- config.json ---- */

/* Families, and whether their chat format supports tools. */
static const struct {
    const char *model_type, *family;
    bool tools;
} families[] = {{"qwen3_vl", "qwen3vl", true},    {"qwen3_vl_moe", "qwen3vlmoe", true},
                {"qwen3_5", "qwen35", true},      {"qwen3_5_moe", "qwen35moe", true},
                {"qwen2_5_vl", "qwen25vl", true}, {"qwen2", "qwen2", true},
                {"qwen3", "qwen3", true},         {"phi3", "phi3", false},
                {"llama", "llama", false}};

static json_object *read_json(const char *directory, const char *name)
{
    char path[EY_MAX_PATH];
    ey_err e;
    return path_join(path, directory, name, &e) ? json_parse_file(path, EY_BAD_MODEL, &e) : NULL;
}

static int card_int(json_object *config, const char *key)
{
    json_object *value = json_member_of_type(config, key, json_type_int);
    int64_t got = value ? json_object_get_int64(value) : 0;
    return got > 0 && got < INT32_MAX ? (int)got : 0;
}

static const char *card_text(json_object *config, const char *key)
{
    json_object *value = json_member_of_type(config, key, json_type_string);
    return value ? json_object_get_string(value) : "";
}

static const char *dtype_quantization(const char *dtype)
{
    return strcmp(dtype, "float16") == 0 ? "F16" : strcmp(dtype, "float32") == 0 ? "F32" : "BF16";
}

/* Returns the format of the weights, from the quantization method, the bit width of
 * compressed-tensors' groups, or the dtype. */
static const char *config_quantization(json_object *config, const char *dtype)
{
    json_object *quantized = json_member(config, "quantization_config");
    const char *method = card_text(quantized, "quant_method");
    if (!quantized) return dtype_quantization(dtype);
    if (strcmp(method, "fp8") == 0) return "FP8";
    const char *text = json_object_to_json_string_ext(quantized, JSON_C_TO_STRING_PLAIN);
    return text && strstr(text, "\"num_bits\":8") ? "FP8" : "INT4";
}

static void set_family(struct model_card *card, const char *model_type)
{
    snprintf(card->model_type, sizeof(card->model_type), "%.47s", model_type);
    snprintf(card->family, sizeof(card->family), "%.31s", model_type);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (strcmp(model_type, families[i].model_type) != 0) continue;
        snprintf(card->family, sizeof(card->family), "%s", families[i].family);
        card->tools = families[i].tools;
    }
}

static bool read_config(struct model_card *card, const char *directory)
{
    json_object *config = read_json(directory, "config.json");
    if (!config) return false;
    json_object *text = json_member_of_type(config, "text_config", json_type_object);
    if (!text) text = config;
    const char *dtype = card_text(text, "dtype");
    if (!dtype[0]) dtype = card_text(text, "torch_dtype");
    if (!dtype[0]) dtype = card_text(config, "torch_dtype");
    set_family(card, card_text(config, "model_type"));
    snprintf(card->quantization, sizeof(card->quantization), "%s",
             config_quantization(config, dtype));
    card->vision = json_member(config, "vision_config") != NULL;
    card->hidden_size = card_int(text, "hidden_size");
    card->n_layers = card_int(text, "num_hidden_layers");
    card->n_heads = card_int(text, "num_attention_heads");
    card->n_kv_heads = card_int(text, "num_key_value_heads");
    card->context = card_int(text, "max_position_embeddings");
    card->vocab_size = card_int(text, "vocab_size");
    json_object_put(config);
    return true;
}

static void read_sampling(struct model_card *card, const char *directory)
{
    json_object *config = read_json(directory, "generation_config.json"),
                *temperature = json_member(config, "temperature"),
                *top_p = json_member(config, "top_p");
    card->has_sampling = temperature && top_p;
    card->temperature = json_object_get_double(temperature);
    card->top_p = json_object_get_double(top_p);
    card->top_k = card_int(config, "top_k");
    json_object_put(config);
}

/* ---- the chat template ---- */

static char *read_template_file(const char *directory)
{
    char path[EY_MAX_PATH], *text = NULL;
    size_t n;
    ey_err e;
    if (!path_join(path, directory, "chat_template.jinja", &e) || !path_is_file(path) ||
        !file_read_regular(&text, &n, path, EY_MAX_TEXT_BYTES, &e))
        return NULL;
    return text;
}

static char *read_template(const char *directory)
{
    static const char *const files[] = {"tokenizer_config.json", "chat_template.json"};
    char *text = read_template_file(directory);
    for (size_t i = 0; !text && i < 2; i++) {
        json_object *config = read_json(directory, files[i]);
        const char *given = card_text(config, "chat_template");
        if (given[0]) text = strdup(given);
        json_object_put(config);
    }
    return text;
}

/* ---- the weights' files ---- */

/* Whether a tensor counts as parameters; scales and the like do not. */
static bool is_parameter(const char *tensor)
{
    static const char *const ends[] = {"scale",  "scale_inv", "scales", "zero_point",
                                       "qzeros", "g_idx",     "shape",  "__metadata__"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (name_ends_with(tensor, ends[i])) return false;
    return true;
}

static uint64_t count_parameters(json_object *header)
{
    uint64_t sum = 0;
    json_object_object_foreach(header, name, tensor)
    {
        json_object *shape = json_member_of_type(tensor, "shape", json_type_array);
        uint64_t n = strcmp(card_text(tensor, "dtype"), "I32") == 0
                         ? 8
                         : 1; /* eight 4-bit values per word */
        if (!shape || !is_parameter(name)) continue;
        for (size_t i = 0; i < json_object_array_length(shape); i++)
            n *= json_object_get_uint64(json_object_array_get_idx(shape, i));
        sum += n;
    }
    return sum;
}

/* Reads a safetensors header: an eight-byte length, then a JSON object. Returns NULL if there is
 * none. */
static json_object *read_safetensors_header(int fd)
{
    enum { MAX_HEADER = 16 << 20 };
    uint8_t length[8];
    uint64_t n = 0;
    ey_err e;
    if (pread(fd, length, sizeof(length), 0) != (ssize_t)sizeof(length)) return NULL;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | length[i];
    char *text = n && n <= MAX_HEADER ? malloc(n + 1) : NULL;
    bool ok = text && pread(fd, text, n, sizeof(length)) == (ssize_t)n;
    json_object *header = ok ? json_parse(text, n, "a header", EY_BAD_MODEL, &e) : NULL;
    free(text);
    if (json_object_is_type(header, json_type_object)) return header;
    json_object_put(header);
    return NULL;
}

static void add_weights_file(struct model_card *card, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        json_object *header = read_safetensors_header(fd);
        if (header) card->parameters += count_parameters(header);
        json_object_put(header);
        card->bytes += (uint64_t)status.st_size;
        if (status.st_mtime > card->modified) card->modified = status.st_mtime;
    }
    close(fd);
}

static void read_weights(struct model_card *card, const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    char path[EY_MAX_PATH];
    ey_err e;
    while (dir && (entry = readdir(dir)))
        if (name_ends_with(entry->d_name, ".safetensors") &&
            path_join(path, directory, entry->d_name, &e))
            add_weights_file(card, path);
    if (dir) closedir(dir);
}

/* ---- card ---- */

/* Predicts the task that the engine will determine (models/pooling). Once the model is loaded,
 * the engine's task is used. */
static ey_task card_task(const struct model_card *card, const char *directory)
{
    char path[EY_MAX_PATH];
    if (strcmp(card->model_type, "qwen3_vl") != 0) return EY_TASK_GENERATE;
    if (strcasestr(directory, "rerank")) return EY_TASK_RERANK;
    return strcasestr(directory, "embedding") ||
                   (path_join(path, directory, "1_Pooling/config.json", NULL) && path_is_file(path))
               ? EY_TASK_EMBED
               : EY_TASK_GENERATE;
}

static bool read_card(struct model_card *card, const char *directory, const char *quantize)
{
    *card = (struct model_card){.format = "safetensors"};
    if (!read_config(card, directory)) return false;
    if (quantize && strcmp(quantize, "none") != 0)
        snprintf(card->quantization, sizeof(card->quantization), "%s",
                 strcmp(quantize, "fp8") == 0 ? "FP8" : "INT4");
    read_sampling(card, directory);
    read_weights(card, directory);
    char *template = read_template(directory);
    card->thinking = template && strcmp(card->model_type, "qwen3_vl") == 0 &&
                     strstr(template, "<|im_start|>assistant\\n<think>\\n'");
    free(template);
    card->task = card_task(card, directory);
    card->known = true;
    return true;
}

/* Returns false if the directory is not known yet. */
static bool model_folder(const struct server *server, size_t model, const struct model_info *info,
                         char out[EY_MAX_PATH])
{
    const char *path = server->options->models[model].path;
    snprintf(out, EY_MAX_PATH, "%s", info->planned ? info->directory : path);
    return path_is_directory(out);
}

struct model_card server_model_card(struct server *server, size_t model)
{
    struct model_cards *cards = server->cards;
    struct model_info info = model_manager_status(server->model_manager, model).info;
    char folder[EY_MAX_PATH];
    pthread_mutex_lock(&cards->lock);
    struct model_card *card = &cards->card[model];
    if (!card->known && model_folder(server, model, &info, folder))
        read_card(card, folder, server->options->engine.quantize);
    struct model_card copy = *card;
    pthread_mutex_unlock(&cards->lock);
    if (info.loaded_once) { /* the engine's values take precedence */
        copy.vision = info.reads_images;
        copy.tools = info.has_tools;
        copy.task = info.task;
    }
    if (copy.task != EY_TASK_GENERATE) copy.tools = copy.thinking = false;
    copy.vision = copy.vision && server->options->max_images;
    return copy;
}

char *server_model_template(struct server *server, size_t model)
{
    struct model_info info = model_manager_status(server->model_manager, model).info;
    char folder[EY_MAX_PATH];
    return model_folder(server, model, &info, folder) ? read_template(folder) : NULL;
}
