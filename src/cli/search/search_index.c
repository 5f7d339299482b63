/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/search_index.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APPLICATION_ID = 0x65796978, FORMAT = 1, BUSY_MS = 5000 }; /* "eyix" */

struct search_index {
    sqlite3 *db;
    sqlite3_stmt *has, *put, *remove;
    bool open_change; /* a transaction is open */
    char path[EY_MAX_PATH];
};

static const char schema[] =
    "CREATE TABLE kind (model TEXT NOT NULL, dimensions INTEGER NOT NULL);"
    "CREATE TABLE image (path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, time INTEGER NOT NULL,"
    "  vector BLOB, why TEXT);";

/* ---- errors ---- */

static bool fail_index(const struct search_index *index, ey_err *e)
{
    const int code = sqlite3_errcode(index->db) & 0xff;
    switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ey_fail(e, EY_BUSY, "%.300s: another program is writing to it; try again later",
                       index->path);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return ey_fail(e, EY_BAD_REQUEST,
                       "%.300s: this is not an index, or it is damaged; remove the file, or "
                       "name another with --index",
                       index->path);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return ey_fail(e, EY_IO,
                       "%.300s: the file cannot be opened or written; name another with --index",
                       index->path);
    case SQLITE_NOMEM: return ey_fail_memory(e, "the index", 0);
    default: return ey_fail(e, EY_IO, "%.300s: %s", index->path, sqlite3_errmsg(index->db));
    }
}

static bool run(struct search_index *index, const char *sql, ey_err *e)
{
    return sqlite3_exec(index->db, sql, NULL, NULL, NULL) == SQLITE_OK || fail_index(index, e);
}

/* Runs a statement that returns one number. */
static bool read_one_number(struct search_index *index, const char *sql, int64_t *out, ey_err *e)
{
    sqlite3_stmt *statement = NULL;
    bool ok = sqlite3_prepare_v2(index->db, sql, -1, &statement, NULL) == SQLITE_OK &&
              sqlite3_step(statement) == SQLITE_ROW;
    if (ok) *out = sqlite3_column_int64(statement, 0);
    if (!ok) fail_index(index, e);
    sqlite3_finalize(statement);
    return ok;
}

/* ---- open, close ---- */

static bool make_index(struct search_index *index, ey_err *e)
{
    char sql[512];
    if (!run(index, "PRAGMA page_size = 16384", e)) return false; /* a page holds several vectors */
    snprintf(sql, sizeof(sql),
             "BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;",
             schema, APPLICATION_ID, FORMAT);
    return run(index, sql, e);
}

/* Turns an empty file into an index. Fails for another program's database, which is left unchanged.
 */
static bool check_index_format(struct search_index *index, bool writes, ey_err *e)
{
    int64_t id, version, tables;
    if (!read_one_number(index, "PRAGMA application_id", &id, e) ||
        !read_one_number(index, "PRAGMA user_version", &version, e) ||
        !read_one_number(index, "SELECT count(*) FROM sqlite_schema", &tables, e))
        return false;
    if (!id && !tables && writes) return make_index(index, e);
    if (id != APPLICATION_ID)
        return ey_fail(e, EY_BAD_REQUEST,
                       "%.300s: this is not an index of eyelet; name another file with --index",
                       index->path);
    return version == FORMAT ||
           ey_fail(e, EY_BAD_REQUEST,
                   "%.300s: the index has format %lld, but this version of eyelet reads only "
                   "format %d; make a new index in another file with --index",
                   index->path, (long long)version, FORMAT);
}

static bool prepare(struct search_index *index, sqlite3_stmt **out, const char *sql, ey_err *e)
{
    return sqlite3_prepare_v3(index->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) ==
               SQLITE_OK ||
           fail_index(index, e);
}

static bool prepare_all(struct search_index *index, ey_err *e)
{
    return prepare(index, &index->has,
                   "SELECT 1 FROM image WHERE path = ? AND size = ? AND time = ?", e) &&
           prepare(index, &index->put,
                   "INSERT OR REPLACE INTO image (path, size, time, vector, why) VALUES (?, ?, ?, "
                   "?, ?)",
                   e) &&
           prepare(index, &index->remove, "DELETE FROM image WHERE path = ?", e);
}

/* Opens the file with a write-ahead log, so that others can read during writes, or with a rollback
 * journal if the file system does not support that. */
static bool open_file(struct search_index *index, bool writes, ey_err *e)
{
    const int flags = writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (sqlite3_open_v2(index->path, &index->db, flags | SQLITE_OPEN_PRIVATECACHE, NULL) !=
        SQLITE_OK)
        return index->db ? fail_index(index, e) : ey_fail_memory(e, "the index", 0);
    sqlite3_busy_timeout(index->db, BUSY_MS);
    sqlite3_extended_result_codes(index->db, 1);
    sqlite3_db_config(index->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(index->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (!check_index_format(index, writes, e)) return false;
    if (writes) sqlite3_exec(index->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    if (writes) sqlite3_exec(index->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    return true;
}

bool search_index_open(struct search_index **out, const char *path, bool writes, ey_err *e)
{
    struct search_index *index = *out = calloc(1, sizeof(*index));
    if (!index) return ey_fail_memory(e, "the index", sizeof(*index));
    snprintf(index->path, sizeof(index->path), "%s", path);
    if (open_file(index, writes, e) && (!writes || prepare_all(index, e))) return true;
    search_index_close(out);
    return false;
}

void search_index_close(struct search_index **out)
{
    struct search_index *index = *out;
    if (!index) return;
    sqlite3_finalize(index->has);
    sqlite3_finalize(index->put);
    sqlite3_finalize(index->remove);
    sqlite3_close(index->db);
    free(index);
    *out = NULL;
}

/* ---- model and dimensions ---- */

bool search_index_kind(struct search_index *index, struct index_kind *kind, ey_err *e)
{
    sqlite3_stmt *statement = NULL;
    *kind = (struct index_kind){0};
    if (sqlite3_prepare_v2(index->db, "SELECT model, dimensions FROM kind", -1, &statement, NULL) !=
        SQLITE_OK)
        return fail_index(index, e);
    const int status = sqlite3_step(statement);
    const char *model = status == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0)
                                             : NULL;
    if (model) {
        snprintf(kind->model, sizeof(kind->model), "%s", model);
        kind->dimensions = sqlite3_column_int(statement, 1);
    }
    bool ok = status == SQLITE_ROW || status == SQLITE_DONE || fail_index(index, e);
    sqlite3_finalize(statement);
    if (ok && model && (kind->dimensions < 1 || kind->dimensions > EY_MAX_WIDTH))
        return ey_fail(e, EY_BAD_REQUEST, "%.300s: the index is damaged; remove the file",
                       index->path);
    return ok;
}

static bool begin_change(struct search_index *index, ey_err *e)
{
    if (index->open_change) return true;
    return index->open_change = run(index, "BEGIN IMMEDIATE", e);
}

bool search_index_restart(struct search_index *index, const struct index_kind *kind, ey_err *e)
{
    sqlite3_stmt *statement = NULL;
    if (!begin_change(index, e) || !run(index, "DELETE FROM image; DELETE FROM kind", e))
        return false;
    bool ok = sqlite3_prepare_v2(index->db, "INSERT INTO kind VALUES (?, ?)", -1, &statement,
                                 NULL) == SQLITE_OK;
    if (ok) {
        sqlite3_bind_text(statement, 1, kind->model, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, kind->dimensions);
        ok = sqlite3_step(statement) == SQLITE_DONE;
    }
    if (!ok) fail_index(index, e);
    sqlite3_finalize(statement);
    return ok && search_index_commit(index, e);
}

/* ---- images ---- */

bool search_index_has(struct search_index *index, const char *path, int64_t size, int64_t time,
                      bool *has, ey_err *e)
{
    sqlite3_bind_text(index->has, 1, path, -1, SQLITE_STATIC);
    sqlite3_bind_int64(index->has, 2, size);
    sqlite3_bind_int64(index->has, 3, time);
    const int status = sqlite3_step(index->has);
    *has = status == SQLITE_ROW;
    bool ok = *has || status == SQLITE_DONE || fail_index(index, e);
    sqlite3_reset(index->has);
    return ok;
}

bool search_index_put(struct search_index *index, const char *path, int64_t size, int64_t time,
                      const float *vector, int dimensions, const char *why, ey_err *e)
{
    sqlite3_stmt *put = index->put;
    if (!begin_change(index, e)) return false;
    sqlite3_bind_text(put, 1, path, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, size);
    sqlite3_bind_int64(put, 3, time);
    if (vector)
        sqlite3_bind_blob(put, 4, vector, dimensions * (int)sizeof(*vector), SQLITE_STATIC);
    else
        sqlite3_bind_null(put, 4);
    sqlite3_bind_text(put, 5, why, -1, SQLITE_STATIC); /* NULL is stored as null */
    bool ok = sqlite3_step(put) == SQLITE_DONE || fail_index(index, e);
    sqlite3_reset(put);
    return ok;
}

bool search_index_remove(struct search_index *index, const char *path, ey_err *e)
{
    if (!begin_change(index, e)) return false;
    sqlite3_bind_text(index->remove, 1, path, -1, SQLITE_STATIC);
    bool ok = sqlite3_step(index->remove) == SQLITE_DONE || fail_index(index, e);
    sqlite3_reset(index->remove);
    return ok;
}

bool search_index_commit(struct search_index *index, ey_err *e)
{
    if (!index->open_change) return true;
    index->open_change = false;
    return run(index, "COMMIT", e);
}

/* Returns the row's vector, or NULL if the image has none or its length is not a multiple of a
 * float's. */
static const float *vector_of(sqlite3_stmt *statement, int *dimensions)
{
    const int bytes = sqlite3_column_bytes(statement, 1);
    *dimensions = bytes / (int)sizeof(float);
    return bytes && bytes % (int)sizeof(float) == 0 ? sqlite3_column_blob(statement, 1) : NULL;
}

bool search_index_each(struct search_index *index, index_visit_fn *visit, void *user, ey_err *e)
{
    sqlite3_stmt *statement = NULL;
    int status = sqlite3_prepare_v2(index->db, "SELECT path, vector FROM image", -1, &statement,
                                    NULL);
    if (status != SQLITE_OK) return fail_index(index, e);
    while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *path = (const char *)sqlite3_column_text(statement, 0);
        int dimensions;
        const float *vector = vector_of(statement, &dimensions);
        if (path && !visit(user, path, vector, dimensions)) break;
    }
    bool ok = status == SQLITE_ROW || status == SQLITE_DONE || fail_index(index, e);
    sqlite3_finalize(statement);
    return ok;
}
