/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_client.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/http_test_client.h"

static bool sign(X509 *x, EVP_PKEY *key)
{
    enum { DAY = 86400 };
    X509_NAME *name = X509_get_subject_name(x);
    return X509_set_version(x, 2) && ASN1_INTEGER_set(X509_get_serialNumber(x), 1) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -DAY) &&
           X509_gmtime_adj(X509_getm_notAfter(x), DAY) && X509_set_pubkey(x, key) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost",
                                      -1, -1, 0) &&
           X509_set_issuer_name(x, name) && X509_sign(x, key, EVP_sha256());
}

bool tls_make_files(const char *key_path, const char *certificate_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    FILE *key_file = fopen(key_path, "w"), *certificate_file = fopen(certificate_path, "w");
    bool ok = key && x && key_file && certificate_file && sign(x, key) &&
              PEM_write_PrivateKey(key_file, key, NULL, NULL, 0, NULL, NULL) &&
              PEM_write_X509(certificate_file, x);
    if (key_file) fclose(key_file);
    if (certificate_file) fclose(certificate_file);
    X509_free(x);
    EVP_PKEY_free(key);
    return ok;
}

bool tls_ask(int port, const char *text, char *out, size_t size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context ? SSL_new(context) : NULL;
    int fd = web_connect(port), n = 1;
    size_t used = 0;
    bool ok = ssl && SSL_set_fd(ssl, fd) && SSL_connect(ssl) == 1 &&
              SSL_write(ssl, text, (int)strlen(text)) == (int)strlen(text);
    while (ok && n > 0 && used < size - 1)
        if ((n = SSL_read(ssl, out + used, (int)(size - 1 - used))) > 0) used += (size_t)n;
    out[used] = 0;
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return ok;
}
