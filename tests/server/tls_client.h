/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for tests of the server: a key and a certificate of their own, and a client. */
#ifndef EY_TESTS_SERVER_TLS_CLIENT_H
#define EY_TESTS_SERVER_TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a fresh key and a certificate for localhost that it signed itself. */
bool tls_make_files(const char *key_path, const char *certificate_path);
/* Says `text` over TLS and hears what comes until the end, at most size - 1 bytes. */
bool tls_ask(int port, const char *text, char *out, size_t size);

#endif
