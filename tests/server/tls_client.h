/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for tests of the server: generated keys and certificates, and a client. */
#ifndef EY_TESTS_SERVER_TLS_CLIENT_H
#define EY_TESTS_SERVER_TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a new key and a self-signed certificate for localhost. */
bool tls_make_files(const char *key_path, const char *certificate_path);
/* Sends `text` over TLS and receives until the end, at most size - 1 bytes. */
bool tls_ask(int port, const char *text, char *out, size_t size);

#endif
