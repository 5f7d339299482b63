/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the operations that cuda_backend.c lists in its tables, and the functions that the
 * backend's files share. */
#ifndef EY_CUDA_BACKEND_H
#define EY_CUDA_BACKEND_H

#include "backend/cuda/cuda_context.h"

/* Opens the GPU and creates its context. `eager`: capture no graphs. Fails with EY_NO_DEVICE if no
 * GPU is usable. */
bool backend_cuda_create(struct backend **be, struct pool *pool, bool eager, ey_err *e);
/* The same with a driver that is already open, which the backend takes over. */
bool backend_cuda_create_on(struct backend **be, const struct cuda_driver *driver,
                            struct pool *pool, bool eager, ey_err *e);

/* Frees all memory allocated since the GPU was opened, except the upload buffers. */
void cuda_release_memory(struct cuda *c);

/* ---- cuda_pinned_rows.c ---- */
/* Pins the rows that stay in the file so that the GPU reads them itself: all of them, or none with
 * the reason in c->pinned_rows_problem. */
void cuda_pin_rows(struct cuda *c);
void cuda_unpin_rows(struct cuda *c);
/* Returns the GPU's address of a pinned row, or of anything else in the pinned pages; NULL if it is
 * not pinned. */
const void *cuda_pinned_address(const struct cuda *c, const void *host);
/* Looks up rows of an embedding that stays in the file and uploads them to SCRATCH_WIDE, where
 * embed() reads them. */
void cuda_look_up_embeddings(struct cuda *c, const struct step *step);
bool cuda_can_pin_rows(struct backend *be, const struct tensor *head, const struct tensor *embed);
bool cuda_reads_pinned_rows(const struct backend *be, const char **why_not);

/* ---- cuda_weights.c ---- */
bool cuda_place(struct backend *be, struct placed **out, const struct tensor *in,
                enum weight_role role, enum placement placement, ey_err *e);
bool cuda_open_group(struct backend *be, size_t bytes, ey_err *e);
/* Writes an int4 matrix's group scales, cuda_group_scale_bytes() bytes, to host memory in the
 * layout of abi.h; returns their global scale. */
float cuda_make_group_scales(struct pool *pool, void *out, const struct tensor *w);
/* ---- cuda_gguf.c ---- */
/* Returns an upper bound of the magnitudes in a GGUF matrix. */
float cuda_largest_of_gguf(struct cuda *c, const struct tensor *w);
/* Sets type and scales of a packed GGUF matrix; `largest` bounds its magnitudes. */
void cuda_describe_gguf(struct dev_matrix *m, const struct tensor *in, float largest);
/* Uploads the file's blocks and packs them at `to`, in pieces through LOAD_STAGING bytes on the
 * GPU. *largest becomes an upper bound of the magnitudes, unless it is NULL. */
void cuda_upload_gguf(struct cuda *c, void *to, const struct tensor *in, char *staging_memory,
                      float *largest);

/* ---- cuda_weights.c ---- */
bool cuda_finish_loading(struct cuda *c, ey_err *e);
/* Returns the matrix for kernels; uploads the group of a streamed one if it is not in a buffer. */
struct dev_matrix cuda_dev_matrix(struct cuda *c, const struct placed *w);

/* ---- cuda_graphs.c ---- */
bool cuda_steps_open(struct cuda *c, ey_err *e);
/* Returns the step's region on the GPU; uploads the step if it is not there yet. */
const struct step_region *cuda_step(struct cuda *c, const struct step *step);
struct dev_batch cuda_dev_batch(const struct step_region *r, const struct step *step);
/* Returns the number of attention tiles: each sequence's rows, cut at ATTENTION_ROWS. */
int cuda_attention_tiles(const struct step *step);
/* Whether the step has one row for each sequence, and few enough for the decode kernels. */
bool cuda_is_decode(const struct step *step);
bool cuda_capture_begin(struct backend *be, const struct step_shape *shape);
bool cuda_capture_end(struct backend *be, ey_err *e);
step_handle cuda_launch_graph(struct backend *be, const struct step *step);
step_handle cuda_end_step(struct backend *be);
step_handle cuda_enqueue_speculative(struct backend *be, const struct step *step,
                                     const struct token_sampling *draws);
bool cuda_wait(struct backend *be, step_handle step, ey_err *e);
void cuda_commit(struct backend *be, step_handle step, const int32_t *token, int n);
bool cuda_verify(struct backend *be, step_handle step);
void cuda_drop(struct backend *be, step_handle step);

/* ---- cuda_text_model.c ---- */
void cuda_embed(struct backend *be, dev x, const struct placed *table, dev features,
                const struct step *step);
void cuda_rope_table(struct backend *be, dev table, const struct rope *rope,
                     const int32_t *position, int n);
void cuda_qkv(struct backend *be, dev q, struct kv_cache *kv, int layer, dev x,
              const struct attention *w, const struct text_shape *shape, dev rope,
              const struct step *step);
void cuda_attention(struct backend *be, dev o, dev q, const struct kv_cache *kv, int layer,
                    const struct text_shape *shape, const struct step *step);
void cuda_qkv_attention(struct backend *be, dev o, dev q, struct kv_cache *kv, int layer, dev x,
                        const struct attention *w, const struct text_shape *shape, dev rope,
                        const struct step *step);
void cuda_project_add(struct backend *be, dev x, dev in, const struct placed *w, int n,
                      int n_prompt);
void cuda_gate_up(struct backend *be, dev h, dev x, const struct mlp *w,
                  const struct text_shape *shape, int n, int n_prompt);
void cuda_add_features(struct backend *be, dev x, dev features, const struct step *step,
                       int hidden);
void cuda_lm_head(struct backend *be, float *logits, dev x, const int32_t *rows, int n,
                  const struct placed *norm, const struct placed *head,
                  const struct text_shape *shape);
void cuda_read_topk(struct backend *be, struct topk_logits *out, int row);

/* ---- cuda_vision_model.c ---- */
void cuda_patch_embed(struct backend *be, dev x, const float *pixels, const struct affine *w,
                      const struct placed *table, const struct vision_shape *shape, int rows,
                      int cols, int first, int n);
void cuda_patch_embed_rgb(struct backend *be, dev x, const struct rgb_image *image,
                          const struct affine *w, const struct placed *table,
                          const struct vision_shape *shape, int first, int n);
void cuda_vision_qkv(struct backend *be, dev qkv, dev x, const struct vision_block *w,
                     const struct vision_shape *shape, dev rope, int first, int n);
void cuda_vision_attention(struct backend *be, dev o, dev qkv, const struct vision_shape *shape,
                           const struct vision_segment *segments, int n_segments, int first, int n);
void cuda_vision_mlp(struct backend *be, dev h, dev x, const struct vision_block *w,
                     const struct vision_shape *shape, int n);
void cuda_vision_project_add(struct backend *be, dev x, dev in, const struct affine *w, int n);
void cuda_merge(struct backend *be, dev out, dev x, const struct merger *w,
                const struct vision_shape *shape, int n);

#endif
